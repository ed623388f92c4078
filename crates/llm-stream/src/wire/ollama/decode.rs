//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, TokenUsage};

use super::{line::Line, lines::LineFramer};
use crate::{
    LlmEvent, LlmRequest, StreamItem,
    classify::{self, Secrets},
    wire::{
        WireDecoder,
        events::{broken, invalid},
        ids::CallIds,
        list,
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
    provider: String,
    model: Option<String>,
    ids: CallIds,
    calls: usize,
    argument_bytes: usize,
    /// Thoughts came and nothing after them.
    thinking: bool,
    /// Whether a line of an answer came.
    began: bool,
    usage: Option<TokenUsage>,
    secrets: Secrets,
    done: bool,
}

impl OllamaDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::with_ids(provider.into(), CallIds::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since older
    /// servers give none.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let ids = request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id));
        Self::with_ids(provider.into(), CallIds::avoiding(ids.collect()))
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.state.secrets = secrets;
        self
    }

    fn with_ids(provider: String, ids: CallIds) -> Self {
        let state = State {
            provider,
            model: None,
            ids,
            calls: 0,
            argument_bytes: 0,
            thinking: false,
            began: false,
            usage: None,
            secrets: Secrets::default(),
            done: false,
        };
        Self { framer: LineFramer::default(), state }
    }
}

impl WireDecoder for OllamaDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.feed(bytes, |line| state.line(line, false, out)) {
            self.state.fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        self.framer.end(|line| state.line(line, true, out));
        // Does nothing when what was left ended it.
        let message = "the stream ended before the answer was finished";
        self.state.fail(ErrorInfo::new(ErrorKind::Truncated, message), out);
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    /// Never before [`Self::is_done`]: the finish reason and the usage come in the last line.
    fn finish_seen(&self) -> bool {
        self.state.done
    }

    fn progress(&self) -> u64 {
        self.framer.progress()
    }
}

impl State {
    /// Takes a line. `last` says that the input ended in it, so that it may be cut.
    fn line(&mut self, line: &[u8], last: bool, out: &mut Vec<StreamItem>) {
        if self.done {
            return;
        }
        match self.json(line, out) {
            Ok(()) => {}
            // The line was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.fail(error, out),
        }
    }

    fn json(&mut self, line: &[u8], out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        if line.starts_with(b"<") {
            return Err(self.reported(line));
        }
        let json = std::str::from_utf8(line).map_err(|_| broken("is not valid UTF-8"))?;
        // An array would be read as the fields of a line in their order. Here it holds an error, as a string does.
        if !json.starts_with('{') {
            return match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) if json.starts_with(['[', '"']) => Err(self.reported(line)),
                Ok(_) => Err(broken("is no JSON object")),
                Err(e) => Err(invalid(&e)),
            };
        }
        let parsed = serde_json::from_str::<Line<'_>>(json)
            .map_err(|e| list::too_long(&e).unwrap_or_else(|| invalid(&e)))?;
        self.take(&parsed, json, out)
    }

    /// The error that this data reports.
    fn reported(&self, data: &[u8]) -> ErrorInfo {
        classify::in_stream(&self.provider, data, &self.secrets)
    }

    fn fail(&mut self, error: ErrorInfo, out: &mut Vec<StreamItem>) {
        if !std::mem::replace(&mut self.done, true) {
            let error = if error.provider.is_some() { error } else { error.provider(self.provider.as_str()) };
            out.push(LlmEvent::failure(error).into());
        }
    }
}

#[cfg(test)]
mod tests;
