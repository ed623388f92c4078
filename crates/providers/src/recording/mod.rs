//! Exchanges written down, and read back in place of a network.
//!
//! An exchange is two files of one number: `0001.json`, its head, for people and programs, and `0001.body`, the body as
//! its bytes came. The head is there from the moment the request goes out. It is replaced as a whole when the answer
//! begins and when the exchange is over, so that at no time half of one is seen.

mod differ;
mod file;
mod head;
mod mask;
mod play;
mod recorder;
mod replayer;
mod request;
mod tape;

pub use file::Recording;
pub use recorder::Recorder;
pub use replayer::Replayer;

pub(crate) use head::Ending;
pub(crate) use play::{Cut, answered_at};
pub(crate) use tape::Tape;

use turnwright_core::{ErrorInfo, ErrorKind};

/// What is asked, beside the body of the request.
pub(crate) struct Asked {
    pub(crate) format: &'static str,
    pub(crate) model: String,
}

/// Whether a client records, replays, or neither.
#[derive(Default)]
pub(crate) enum Deck {
    #[default]
    Empty,
    Record(Recorder),
    Replay(Replayer),
}

impl Deck {
    pub(crate) fn new(
        format: &str,
        recorder: Option<Recorder>,
        replayer: Option<Replayer>,
    ) -> Result<Self, ErrorInfo> {
        match (recorder, replayer) {
            (None, None) => Ok(Self::Empty),
            (Some(recorder), None) => Ok(Self::Record(recorder)),
            (None, Some(replayer)) => {
                replayer.check_format(format)?;
                Ok(Self::Replay(replayer))
            }
            (Some(_), Some(_)) => {
                let message = "a client either records or replays; what is replayed was recorded already";
                Err(ErrorInfo::new(ErrorKind::Configuration, message))
            }
        }
    }

    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        match self {
            Self::Record(recorder) => Some(recorder),
            Self::Empty | Self::Replay(_) => None,
        }
    }

    pub(crate) fn replayer(&self) -> Option<&Replayer> {
        match self {
            Self::Replay(replayer) => Some(replayer),
            Self::Empty | Self::Record(_) => None,
        }
    }
}
