//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, TokenUsage};

use super::{calls::Calls, event::Event, items::Items};
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

mod item;
mod take;

/// Decodes a streamed answer in the Responses format. A whole answer that was not streamed, or an error object, in place
/// of the stream or in the midst of it, is understood too.
///
/// A call is emitted when its item is done, so that reasoning and calls keep their order; until then it is on the
/// progress lane. Calls that were cut are emitted with a finish that says so, and with no other. A reasoning item is kept
/// whole in [`crate::ReasoningDelta::opaque`], under `responses_item`. A call of a custom tool, whose input is free text,
/// is one with a single argument, `input`. What the tools that the format itself defines did or ask for (searches,
/// images, shells) is skipped.
///
/// The stream ends with its last event, `response.completed` or another; an end mark without it is no end. Memory is
/// bounded by the caps in [`crate::wire`] and those of the framer.
#[derive(Debug)]
pub struct ResponsesDecoder {
    framer: SseFramer,
    state: State,
}

#[derive(Debug)]
struct State {
    provider: String,
    response_id: Option<String>,
    model: Option<String>,
    items: Items,
    calls: Calls,
    usage: Option<TokenUsage>,
    /// How many tokens the answer may have.
    output_limit: Option<u64>,
    refused: bool,
    /// Whether the server said that the answer begins.
    created: bool,
    /// Whether anything of the answer came.
    said: bool,
    secrets: Secrets,
    done: bool,
}

impl ResponsesDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::with_calls(provider.into(), Calls::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since some
    /// servers count from one in each answer. An answer of as many tokens as the request allows counts as cut, since
    /// some servers call it complete.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let ids = request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id));
        let mut decoder = Self::with_calls(provider.into(), Calls::avoiding(ids.collect()));
        let limit = request.extra.get("max_output_tokens").and_then(serde_json::Value::as_u64);
        decoder.state.output_limit = limit.or(request.max_output_tokens);
        decoder
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
            items: Items::default(),
            calls,
            usage: None,
            output_limit: None,
            refused: false,
            created: false,
            said: false,
            secrets: Secrets::default(),
            done: false,
        };
        Self { framer: SseFramer::new(), state }
    }
}

impl WireDecoder for ResponsesDecoder {
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
        // Does nothing when what was left ended it.
        self.state.fail(truncated(), out);
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    /// Never before [`Self::is_done`]: the finish reason and the usage come in the last event.
    fn finish_seen(&self) -> bool {
        self.state.done
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
