//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, TokenUsage};

use super::{
    calls::{Calls, Labels},
    chunk::Chunk,
    reasoning::Blocks,
    template::Template,
};
use crate::{
    Finish, FinishReason, LlmEvent, LlmRequest, StreamItem,
    classify::{self, Secrets},
    sse::{Frame, SseFramer},
    wire::{
        WireDecoder,
        events::{broken, invalid, is_done_mark},
        finish::{Reasons, is_cut},
        list,
    },
};

mod alike;
mod take;

/// Decodes a streamed chat completion. A whole answer that was not streamed, or an error object, in place of the
/// stream or in the midst of it, is understood too.
///
/// Tool calls are emitted with the finish, in the order of their indexes; until then they are on the progress lane.
#[derive(Debug)]
pub struct ChatDecoder {
    framer: SseFramer,
    state: State,
}

#[derive(Debug)]
struct State {
    provider: String,
    response_id: Option<String>,
    model: Option<String>,
    calls: Calls,
    blocks: Blocks,
    usage: Option<TokenUsage>,
    refused: bool,
    /// Whether anything of the answer came.
    said: bool,
    finish: Reasons,
    /// How the chunks of the text look, and those of a call's arguments.
    text_like: Template,
    arguments_like: Template,
    /// Of which call those arguments are.
    labels: Labels,
    /// Parses every chunk, so that tests can compare.
    #[cfg(test)]
    parses_all: bool,
    secrets: Secrets,
    /// How many items the details and the parts of the current event have.
    listed: usize,
    done: bool,
}

impl ChatDecoder {
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

    /// A decoder that parses every chunk.
    #[cfg(test)]
    fn without_template() -> Self {
        let mut decoder = Self::new("p");
        decoder.state.parses_all = true;
        decoder
    }

    fn with_calls(provider: String, calls: Calls) -> Self {
        let state = State {
            provider,
            response_id: None,
            model: None,
            calls,
            blocks: Blocks::default(),
            usage: None,
            refused: false,
            said: false,
            finish: Reasons::default(),
            text_like: Template::default(),
            arguments_like: Template::default(),
            labels: Labels::default(),
            #[cfg(test)]
            parses_all: false,
            secrets: Secrets::default(),
            listed: 0,
            done: false,
        };
        Self { framer: SseFramer::new(), state }
    }
}

impl WireDecoder for ChatDecoder {
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
        } else if self.state.finish.is_seen() {
            self.state.close(out);
        } else {
            let message = "the stream ended before the answer was finished";
            self.state.fail(ErrorInfo::new(ErrorKind::Truncated, message), out);
        }
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    fn finish_seen(&self) -> bool {
        self.state.finish.is_seen()
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
        match frame {
            Frame::Event { name: b"error", data } => {
                self.fail(self.reported(data), out);
            }
            Frame::Event { data, .. } => match data.trim_ascii() {
                [] => {}
                data if is_done_mark(data) => self.close(out),
                data => self.chunk(data, false, last, out),
            },
            Frame::Bare(markup @ [b'<', ..]) => self.fail(self.reported(markup), out),
            Frame::Bare(json) => self.chunk(json, true, last, out),
        }
    }

    fn chunk(&mut self, data: &[u8], bare: bool, last: bool, out: &mut Vec<StreamItem>) {
        let result = match std::str::from_utf8(data) {
            Ok(json) => self.json(json, bare, last, out),
            Err(_) => Err(broken("is not valid UTF-8")),
        };
        match result {
            Ok(()) => {}
            // The event was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.fail(error, out),
        }
    }

    fn json(
        &mut self,
        json: &str,
        bare: bool,
        last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if let Some(result) = self.like_before(json, out) {
            return result;
        }
        // An array would be read as the fields of a chunk in their order. Here it holds an error, as a string does.
        if json.starts_with(['[', '"']) {
            return match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) => Err(self.reported(json.as_bytes())),
                Err(e) => Err(invalid(&e)),
            };
        }
        match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => {
                let before = out.len();
                self.listed = 0;
                self.take(&chunk, json, bare, out)?;
                self.learn(&chunk, json, &out[before..]);
                Ok(())
            }
            Err(e) => Err(match list::too_long(&e) {
                Some(error) => error,
                // What stands bare and is no chunk holds nothing but an error.
                None if bare && !last => self.reported(json.as_bytes()),
                None => invalid(&e),
            }),
        }
    }

    /// The error that this data reports.
    fn reported(&self, data: &[u8]) -> ErrorInfo {
        classify::in_stream(&self.provider, data, &self.secrets)
    }

    fn close(&mut self, out: &mut Vec<StreamItem>) {
        let has_calls = !self.calls.is_empty();
        let finish = self.finish.take();
        let reason = match finish.as_ref().map_or(FinishReason::Stop, |(reason, _)| *reason) {
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            // Calls that are there count, not the label.
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            reason => reason,
        };
        // Thoughts that were cut go back to no provider.
        if !is_cut(reason) {
            out.extend(self.blocks.seal());
        }
        if let Err(error) = self.calls.finish(out) {
            return self.fail(error, out);
        }
        self.done = true;
        let finish = Finish {
            reason,
            raw_reason: finish.map(|(_, raw)| raw),
            model: self.model.take(),
            response_id: self.response_id.take(),
        };
        out.push(LlmEvent::Finish(Box::new(finish)).into());
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
