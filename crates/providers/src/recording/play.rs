//! A recorded answer as the HTTP client would give it.

use std::{error::Error, fmt, fs::File, io::Read, path::Path, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use reqwest::{Body, Response};
use tokio::time::sleep_until;
use turnwright_core::{ErrorInfo, ErrorKind, Timestamp, clock::Instant};

use super::head::{Answer, Ending, Head};
use crate::limits::Limit;

/// A longer piece is read in parts.
const MAX_READ: u64 = 64 * 1024;

/// How a recorded exchange ended where its end is no end of the body.
#[derive(Debug, Clone)]
pub(crate) enum Cut {
    Failure(ErrorInfo),
    Limit(Limit),
}

impl Cut {
    /// The cut that an error of the HTTP client stands for; none where the connection broke.
    pub(crate) fn of(error: &reqwest::Error) -> Option<Self> {
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(cut) = error.downcast_ref::<Self>() {
                return Some(cut.clone());
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure(error) => error.fmt(f),
            Self::Limit(limit) => write!(f, "{limit:?}"),
        }
    }
}

impl Error for Cut {}

type Broken = Box<dyn Error + Send + Sync>;

/// When the recorded answer began.
#[derive(Debug, Clone, Copy)]
struct AnsweredAt(Timestamp);

/// When a replayed answer began in its time, from which dates in its headers count.
pub(crate) fn answered_at(response: &Response) -> Option<Timestamp> {
    response.extensions().get::<AnsweredAt>().map(|at| at.0)
}

pub(super) fn moment(head: &Head) -> Timestamp {
    let after = Duration::from_millis(head.answer.as_ref().map_or(0, |answer| answer.after_ms));
    head.at.checked_add(after).unwrap_or(head.at)
}

/// Plays it. `begun` is when the request went out, for recorded timing; without it nothing waits.
pub(super) async fn play(head: Head, body: &Path, begun: Option<Instant>) -> Result<Response, Cut> {
    let at = moment(&head);
    let ended_ms = head.ended_ms.unwrap_or(0);
    let Some(answer) = head.answer else {
        wait(begun, ended_ms).await;
        return Err(no_answer(head.ending));
    };
    wait(begun, answer.after_ms).await;
    let corrupt = |why: &dyn fmt::Display| {
        let message = format!("the recorded body {} cannot be read: {why}", body.display());
        Cut::Failure(ErrorInfo::new(ErrorKind::Corrupt, message))
    };
    let file = File::open(body).map_err(|e| corrupt(&e))?;
    let length = file.metadata().map_err(|e| corrupt(&e))?.len();
    let pieces = Pieces { file, left: pieces(&answer, length).into(), begun };
    let end = match end(head.ending) {
        Some(broken) => stream::once(async move {
            wait(begun, ended_ms).await;
            Err(broken)
        })
        .left_stream(),
        None => stream::empty().right_stream(),
    };
    let mut response = http::Response::builder().status(answer.status).extension(AnsweredAt(at));
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let body = Body::wrap_stream(pieces.stream().chain(end));
    response.body(body).map(Response::from).map_err(|e| corrupt(&e))
}

fn no_answer(ending: Ending) -> Cut {
    match ending {
        Ending::NoAnswer { error } => Cut::Failure(error),
        Ending::Limit { kind, seconds } => Cut::Limit(limit(kind, seconds)),
        _ => {
            let message = "the recorded call was given up before an answer began";
            Cut::Failure(ErrorInfo::new(ErrorKind::Truncated, message))
        }
    }
}

/// What comes after the last piece; none where the body ends.
fn end(ending: Ending) -> Option<Broken> {
    match ending {
        Ending::End | Ending::Enough | Ending::Drained => None,
        Ending::Broken { cause } => Some(cause.into()),
        Ending::Limit { kind, seconds } => Some(Box::new(Cut::Limit(limit(kind, seconds)))),
        Ending::NoAnswer { error } => Some(Box::new(Cut::Failure(error))),
        Ending::Dropped => Some("the recording ends here, where its caller stopped reading".into()),
        Ending::Unfinished => Some("the recording ends here, unfinished".into()),
    }
}

fn limit(kind: ErrorKind, seconds: f64) -> Limit {
    Limit::Failure(kind, Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The pieces, unless they are not those of the file: somebody edited it, or they were not written any more.
fn pieces(answer: &Answer, length: u64) -> Vec<(u64, u64)> {
    match answer.pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.1)) {
        Some(sum) if sum == length => answer.pieces.clone(),
        _ => vec![(answer.after_ms, length)],
    }
}

async fn wait(begun: Option<Instant>, after_ms: u64) {
    if let Some(until) = begun.and_then(|begun| begun.checked_add(Duration::from_millis(after_ms))) {
        sleep_until(until).await;
    }
}

struct Pieces {
    file: File,
    left: std::collections::VecDeque<(u64, u64)>,
    begun: Option<Instant>,
}

impl Pieces {
    fn stream(self) -> impl Stream<Item = Result<Bytes, Broken>> + Send {
        stream::unfold(self, |mut pieces| async move {
            let next = pieces.next().await.transpose()?;
            Some((next, pieces))
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some((at, length)) = self.left.pop_front() else { return Ok(None) };
        match self.begun {
            Some(_) => wait(self.begun, at).await,
            // As between two pieces from a network, others get their turn.
            None => breathe().await,
        }
        let now = length.min(MAX_READ);
        if length > now {
            self.left.push_front((at, length - now));
        }
        let mut bytes = Vec::new();
        let read = (&self.file).take(now).read_to_end(&mut bytes)?;
        if (read as u64) < now {
            self.left.clear();
        }
        Ok(Some(bytes.into()))
    }
}

/// Lets others be polled once.
async fn breathe() {
    let mut is_second = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut is_second, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
