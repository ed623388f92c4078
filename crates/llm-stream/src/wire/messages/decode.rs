//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{CallId, ErrorInfo, ErrorKind};

use super::{blocks::Blocks, calls::Calls, event::Event, finish::Stopped, usage::Usage};
use crate::{
    LlmEvent, LlmRequest, StreamItem,
    classify::{self, Secrets},
    sse::{Frame, SseFramer},
    wire::{
        WireDecoder,
        events::{broken, invalid, is_done_mark},
        text::nonempty,
    },
};

mod block;
mod take;

/// Decodes a streamed answer in the Messages format. A whole answer that was not streamed, or an error object, in place
/// of the stream or in the midst of it, is understood too.
///
/// A call is emitted when its block ends, so that thoughts and calls keep their order; until then it is on the progress
/// lane. Calls whose arguments were cut are emitted with the finish only. A block of thoughts keeps its signature in
/// [`crate::ReasoningDelta::opaque`], under `messages_block`; a redacted one is kept there whole. A signature that comes
/// after the next block began is left out, and the thoughts do not go back. What the server's own tools did (searches,
/// code, compaction) is skipped, and so are citations; an answer that the server paused for them ends as
/// [`crate::FinishReason::Other`].
///
/// The stream ends with `message_stop`, or after a stop reason. Memory is bounded by the caps in [`crate::wire`] and
/// those of the framer.
#[derive(Debug)]
pub struct MessagesDecoder {
    framer: SseFramer,
    state: State,
}

#[derive(Debug)]
struct State {
    provider: String,
    response_id: Option<String>,
    model: Option<String>,
    blocks: Blocks,
    calls: Calls,
    usage: Usage,
    stopped: Stopped,
    /// The server said that the answer begins.
    started: bool,
    /// Something of the answer came.
    said: bool,
    secrets: Secrets,
    done: bool,
}

impl MessagesDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::with_calls(provider.into(), Calls::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since some
    /// servers count from one in each answer.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let ids = request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id));
        Self::with_calls(provider.into(), Calls::avoiding(ids.collect()))
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.state.secrets = secrets;
        self
    }

    fn with_calls(provider: String, calls: Calls) -> Self {
        let state = State {
            provider,
            response_id: None,
            model: None,
            blocks: Blocks::default(),
            calls,
            usage: Usage::default(),
            stopped: Stopped::default(),
            started: false,
            said: false,
            secrets: Secrets::default(),
            done: false,
        };
        Self { framer: SseFramer::new(), state }
    }
}

impl WireDecoder for MessagesDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.feed(bytes, |frame| state.frame(frame, false, out)) {
            self.state.fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.end(|frame| state.frame(frame, true, out)) {
            self.state.fail(error, out);
        }
        if self.state.done {
            // What was left ended it.
        } else if self.state.stopped.is_seen() {
            self.state.close(out);
        } else {
            self.state.fail(truncated(), out);
        }
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    fn finish_seen(&self) -> bool {
        self.state.stopped.is_seen()
    }

    fn progress(&self) -> u64 {
        self.framer.progress()
    }
}

impl State {
    /// Takes a frame. `last` says that the input ended in it, so that it may be cut.
    fn frame(&mut self, frame: Frame<'_>, last: bool, out: &mut Vec<StreamItem>) {
        if self.done {
            return;
        }
        let result = match frame {
            Frame::Event { name, data } => match data.trim_ascii() {
                data if name == b"error" => Err(self.reported(data)),
                [] => Ok(()),
                data if is_done_mark(data) && self.stopped.is_seen() => {
                    self.close(out);
                    Ok(())
                }
                data if is_done_mark(data) => Err(truncated()),
                data => self.data(std::str::from_utf8(name).unwrap_or_default(), data, false, out),
            },
            Frame::Bare(markup @ [b'<', ..]) => Err(self.reported(markup)),
            Frame::Bare(json) => self.data("", json, true, out),
        };
        match result {
            Ok(()) => {}
            // The event was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.fail(error, out),
        }
    }

    fn data(
        &mut self,
        name: &str,
        data: &[u8],
        bare: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let json = std::str::from_utf8(data).map_err(|_| broken("is not valid UTF-8"))?;
        // An array would be read as the fields of an event in their order. Here it holds an error, as a string does.
        if !json.starts_with('{') {
            return match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) => Err(self.reported(data)),
                Err(e) => Err(invalid(&e)),
            };
        }
        let event = serde_json::from_str::<Event<'_>>(json).map_err(|e| invalid(&e))?;
        let kind = nonempty(event.kind).unwrap_or_else(|| name.into());
        self.take(&kind, &event, json, bare, out)
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

fn truncated() -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Truncated, "the stream ended before the answer was finished")
}

#[cfg(test)]
mod tests;
