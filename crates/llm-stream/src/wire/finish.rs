//! Which of several finish reasons counts.

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::text::nonempty;
use crate::FinishReason;

/// Whether the answer is not what the model would have given. Such a reason is never forgotten for a better one: the
/// calls of a cut answer must not run.
pub(in crate::wire) fn is_cut(reason: FinishReason) -> bool {
    matches!(reason, FinishReason::Length | FinishReason::ContentFilter | FinishReason::Refusal)
}

fn badness(reason: FinishReason) -> u8 {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => 0,
        FinishReason::Other => 1,
        FinishReason::Length | FinishReason::ContentFilter | FinishReason::Refusal => 2,
    }
}

/// The finish reasons of one answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Reasons {
    seen: Option<Finished>,
    /// The reason before the answer went on after all.
    earlier: Option<Finished>,
}

#[derive(Debug)]
struct Finished {
    reason: FinishReason,
    raw: String,
    /// The id of the chunk it came on.
    chunk_id: Option<String>,
}

impl Reasons {
    /// Whether the answer is finished as far as is known.
    pub(in crate::wire) fn is_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Takes a reason. Servers repeat themselves: the first counts, unless only a later one says that the answer was
    /// cut, or that something else went wrong with it.
    pub(in crate::wire) fn note(&mut self, reason: FinishReason, raw: &str, chunk_id: Option<&RawValue>) {
        if self.seen.as_ref().is_none_or(|seen| badness(reason) > badness(seen.reason)) {
            let chunk_id = nonempty(chunk_id).map(Into::into);
            self.seen = Some(Finished { reason, raw: raw.to_owned(), chunk_id });
        }
    }

    /// Called when content came: an answer that was finished is not, unless the content is of another answer.
    pub(in crate::wire) fn reopen(&mut self, chunk_id: Option<&RawValue>) -> Result<(), ErrorInfo> {
        let Some(finish) = self.seen.take() else { return Ok(()) };
        if let (Some(finished), Some(id)) = (&finish.chunk_id, nonempty(chunk_id))
            && *finished != id
        {
            let message = "a second answer began in the same stream";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        }
        self.earlier = worse(self.earlier.take(), Some(finish));
        Ok(())
    }

    /// The reason that counts at the end, with its word.
    pub(in crate::wire) fn take(&mut self) -> Option<(FinishReason, String)> {
        worse(self.earlier.take(), self.seen.take()).map(|finish| (finish.reason, finish.raw))
    }
}

/// The newer one, unless only the older one says that the answer was cut.
fn worse(older: Option<Finished>, newer: Option<Finished>) -> Option<Finished> {
    match (older, newer) {
        (Some(older), Some(newer)) if is_cut(older.reason) && !is_cut(newer.reason) => Some(older),
        (older, newer) => newer.or(older),
    }
}
