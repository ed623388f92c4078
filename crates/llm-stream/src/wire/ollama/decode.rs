//! The decoder.

use turnwright_core::{ErrorInfo, ErrorKind, TokenUsage};

use super::{line::Line, lines::LineFramer};
use crate::{
    LlmRequest, StreamItem,
    classify::Secrets,
    wire::{
        WireDecoder,
        events::broken,
        head::{Head, taken_ids, truncated},
        ids::CallIds,
    },
};

mod take;

/// Decodes an answer of Ollama's `/api/chat`, or of `/api/generate`: one JSON object a line. A body of a single line,
/// which was not streamed, and an error in place of a line are understood too.
///
/// A call is emitted when its line came: the format sends calls whole. Thoughts end in a delta whose
/// [`crate::ReasoningDelta::opaque`] marks them, under `ollama_thinking`, as those of this format, so that they go back;
/// thoughts that were cut are not marked. The answer is over with the line that says `done`. Memory is bounded by the
/// caps in [`crate::wire`] and by [`crate::sse::MAX_EVENT_BYTES`] for a line.
#[derive(Debug)]
pub struct OllamaDecoder {
    framer: LineFramer,
    state: State,
}

#[derive(Debug)]
struct State {
    head: Head,
    ids: CallIds,
    calls: usize,
    argument_bytes: usize,
    /// Thoughts came and nothing after them.
    thinking: bool,
    /// Whether a line of an answer came.
    began: bool,
    usage: Option<TokenUsage>,
}

impl OllamaDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::for_request(provider, &LlmRequest::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since older
    /// servers give none.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let state = State {
            head: Head::new(provider.into()),
            ids: CallIds::avoiding(taken_ids(request)),
            calls: 0,
            argument_bytes: 0,
            thinking: false,
            began: false,
            usage: None,
        };
        Self { framer: LineFramer::default(), state }
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.state.head.redact(secrets);
        self
    }
}

impl WireDecoder for OllamaDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.state.head.is_done() {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.feed(bytes, |line| state.line(line, false, out)) {
            self.state.head.fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.state.head.is_done() {
            return;
        }
        let state = &mut self.state;
        self.framer.end(|line| state.line(line, true, out));
        // Does nothing when what was left ended it.
        self.state.head.fail(truncated(), out);
    }

    fn is_done(&self) -> bool {
        self.state.head.is_done()
    }

    /// Never before [`Self::is_done`]: the finish reason and the usage come in the last line.
    fn finish_seen(&self) -> bool {
        self.state.head.is_done()
    }

    fn progress(&self) -> u64 {
        self.framer.progress()
    }
}

impl State {
    /// Takes a line. `last` says that the input ended in it, so that it may be cut.
    fn line(&mut self, line: &[u8], last: bool, out: &mut Vec<StreamItem>) {
        if self.head.is_done() {
            return;
        }
        match self.json(line, out) {
            Ok(()) => {}
            // The line was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.head.fail(error, out),
        }
    }

    fn json(&mut self, line: &[u8], out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        if line.starts_with(b"<") {
            return Err(self.head.reported(line));
        }
        let json = std::str::from_utf8(line).map_err(|_| broken("is not valid UTF-8"))?;
        let parsed = self.head.object::<Line<'_>>(json)?;
        self.take(&parsed, json, out)
    }
}

#[cfg(test)]
mod tests;
