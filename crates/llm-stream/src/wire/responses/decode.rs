//! The decoder.

use turnwright_core::{ErrorInfo, TokenUsage};

use super::{calls::Calls, event::Event, items::Items, tools::Tools};
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
mod item;
mod take;

use alike::Alike;

/// Decodes a streamed answer in the Responses format. A whole answer that was not streamed, or an error object, in place
/// of the stream or in the midst of it, is understood too.
///
/// A call is emitted when its item is done, so that reasoning and calls keep their order; until then it is on the
/// progress lane. Calls that were cut are emitted with a finish that says so, and with no other. A reasoning item is kept
/// whole in [`crate::ReasoningDelta::opaque`], under `responses_item`. A call of a custom tool, whose input is free text,
/// is one with a single argument, `input`. What the tools that the format itself defines did or ask for (searches,
/// images, shells) is skipped, and, made for a request that has tools, so are calls of custom tools that it has not: the
/// server runs them.
///
/// The stream ends with its last event, `response.completed` or another; an end mark without it is no end. Memory is
/// bounded by the caps in [`crate::wire`] and those of the framer.
///
/// Made for a request, it takes an answer of as many tokens as that allows for one that was cut, since some servers call
/// it complete.
pub type ResponsesDecoder = SseDecoder<State>;

/// What came of an answer.
#[derive(Debug)]
pub struct State {
    head: Head,
    items: Items,
    calls: Calls,
    tools: Tools,
    usage: Option<TokenUsage>,
    /// How many tokens the answer may have.
    output_limit: Option<u64>,
    refused: bool,
    /// Whether the server said that the answer begins.
    created: bool,
    /// Whether anything of the answer came.
    said: bool,
    alike: Alike,
}

impl Answer for State {
    fn new(head: Head, request: &LlmRequest) -> Self {
        let limit = request.extra.get("max_output_tokens").and_then(serde_json::Value::as_u64);
        Self {
            head,
            items: Items::default(),
            calls: Calls::avoiding(taken_ids(request)),
            tools: Tools::of(request),
            usage: None,
            output_limit: limit.or(request.max_output_tokens),
            refused: false,
            created: false,
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

    fn done_mark(&mut self, _out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        Err(truncated())
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        self.head.fail(truncated(), out);
    }

    /// Never before the end: the finish reason and the usage come in the last event.
    fn finish_seen(&self) -> bool {
        self.head.is_done()
    }
}

#[cfg(test)]
mod tests;
