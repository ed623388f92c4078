//! Whether the model's exchanges are recorded, replayed, or neither.

use std::process::ExitCode;

use turnwright::providers::{Format, HttpClientBuilder, Recorder, Replayer};

use crate::{
    args::{AgentArgs, ColorWhen},
    exit, output,
    refusal::Refusal,
};

/// Where exchanges go to or come from.
pub(crate) enum Tape {
    Live,
    Record(Recorder),
    Replay(Replayer),
}

impl Tape {
    pub(crate) fn open(args: &AgentArgs) -> Result<Self, Refusal> {
        // The parser refuses both at once.
        match (&args.record, &args.replay) {
            (Some(directory), _) => {
                let refused = |message| Refusal::new(message).hint("point --record at a directory of yours");
                Recorder::open(directory).map(Self::Record).map_err(|e| refused(e.message))
            }
            (_, Some(directory)) => {
                let refused = |message| {
                    Refusal::new(message).hint("point --replay at what --record wrote; see also --provider")
                };
                Replayer::open(directory).map(Self::Replay).map_err(|e| refused(e.message))
            }
            (None, None) => Ok(Self::Live),
        }
    }

    pub(crate) fn is_replay(&self) -> bool {
        matches!(self, Self::Replay(_))
    }

    /// The client with it.
    pub(crate) fn put<F: Format>(&self, client: HttpClientBuilder<F>) -> HttpClientBuilder<F> {
        match self {
            Self::Live => client,
            Self::Record(recorder) => client.record(recorder),
            Self::Replay(replayer) => client.replay(replayer),
        }
    }

    /// Says so when the recording is not whole; then nothing is well that otherwise would be.
    pub(crate) fn end(&self, code: ExitCode, color: ColorWhen) -> ExitCode {
        let Self::Record(recorder) = self else { return code };
        let Some(failure) = recorder.failure() else { return code };
        output::refuse(&Refusal::new(failure.message), color);
        if code == ExitCode::SUCCESS { exit::FAILED.into() } else { code }
    }
}
