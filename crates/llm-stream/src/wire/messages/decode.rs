//! The decoder.

use turnwright_core::ErrorInfo;

use super::{blocks::Blocks, calls::Calls, event::Event, finish::Stopped, usage::Usage};
use crate::{
    LlmRequest, StreamItem,
    wire::{
        SseDecoder,
        head::{Head, taken_ids, truncated},
        sse_decoder::Answer,
        text::nonempty,
    },
};

mod alike;
mod block;
mod take;

use alike::Alike;

/// Decodes a streamed answer in the Messages format. A whole answer that was not streamed, or an error object, in place
/// of the stream or in the midst of it, is understood too.
///
/// A call is emitted when its block ends, so that thoughts and calls keep their order; until then it is on the progress
/// lane. Calls whose arguments were cut are emitted with the finish only. A block of thoughts keeps its signature in
/// [`crate::ReasoningDelta::opaque`], under `messages_block`; a redacted one is kept there whole. Of a model that is no
/// Claude `messages_unsigned` says where nobody signed: such thoughts go back too. A signature that comes
/// after the next block began is left out, and the thoughts do not go back. What the server's own tools did (searches,
/// code, compaction) is skipped, and so are citations; an answer that the server paused for them ends as
/// [`crate::FinishReason::Other`].
///
/// The stream ends with `message_stop`, or after a stop reason. Memory is bounded by the caps in [`crate::wire`] and
/// those of the framer.
pub type MessagesDecoder = SseDecoder<State>;

/// What came of an answer.
#[derive(Debug)]
pub struct State {
    head: Head,
    blocks: Blocks,
    calls: Calls,
    usage: Usage,
    stopped: Stopped,
    /// The server said that the answer begins.
    started: bool,
    /// Something of the answer came.
    said: bool,
    alike: Alike,
}

impl Answer for State {
    fn new(head: Head, request: &LlmRequest) -> Self {
        Self {
            head,
            blocks: Blocks::default(),
            calls: Calls::avoiding(taken_ids(request)),
            usage: Usage::default(),
            stopped: Stopped::default(),
            started: false,
            said: false,
            alike: Alike::default(),
        }
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn data(
        &mut self,
        name: &[u8],
        json: &str,
        bare: bool,
        _last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if let Some(result) = self.like_before(json, out) {
            return result;
        }
        let event = self.head.object::<Event<'_>>(json)?;
        let kind = nonempty(event.kind).unwrap_or_else(|| String::from_utf8_lossy(name));
        self.take(&kind, &event, json, bare, out)
    }

    fn done_mark(&mut self, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        self.end(out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        match self.stopped.is_seen() {
            true => self.close(out),
            false => self.head.fail(truncated(), out),
        }
    }

    fn finish_seen(&self) -> bool {
        self.stopped.is_seen()
    }
}

#[cfg(test)]
mod tests;
