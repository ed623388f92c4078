//! The event union and the progress lane.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwright_core::{CallId, ErrorInfo, TokenUsage, ToolCall};

/// One event of a model's answer. Closed and append-only: variants are added, never reshaped. Large payloads are
/// boxed, so that an event is 32 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LlmEvent {
    /// A piece of the answer's text.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A piece of the model's reasoning.
    ReasoningDelta(ReasoningDelta),
    /// One whole tool call.
    ToolCallComplete(Box<ToolCall>),
    /// Token usage so far. A later snapshot replaces an earlier one.
    UsageSnapshot(Box<TokenUsage>),
    /// The answer is whole, or as whole as the reason says. Terminal.
    Finish(Box<Finish>),
    /// The answer broke off. Terminal.
    StreamFailure(Box<StreamFailure>),
}

impl LlmEvent {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::TextDelta { text: text.into() }
    }

    /// A piece of reasoning text.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::ReasoningDelta(ReasoningDelta { text: text.into(), opaque: None })
    }

    /// A finish with this reason and nothing else known.
    pub fn finish(reason: FinishReason) -> Self {
        Self::Finish(Box::new(Finish { reason, raw_reason: None, model: None, response_id: None }))
    }

    /// A failure.
    pub fn failure(error: ErrorInfo) -> Self {
        Self::StreamFailure(Box::new(StreamFailure { error }))
    }

    /// Whether it is a piece of the answer: text, reasoning, a call.
    pub fn is_output(&self) -> bool {
        matches!(self, Self::TextDelta { .. } | Self::ReasoningDelta(_) | Self::ToolCallComplete(_))
    }

    /// Whether the stream ends with this event.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finish(_) | Self::StreamFailure(_))
    }
}

/// A piece of reasoning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReasoningDelta {
    /// The readable piece; may be empty.
    pub text: String,
    /// What the provider wants back unchanged (signatures, encrypted content, ids). It belongs to the reasoning block
    /// that is open and closes it: a later delta starts a new block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<Map<String, Value>>>,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// The output limit cut it.
    Length,
    /// A content filter cut it.
    ContentFilter,
    /// It declined.
    Refusal,
    /// A reason this version does not know; the raw word is kept.
    Other,
}

/// The end of a whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// Why it stopped, in our words.
    pub reason: FinishReason,
    /// The provider's word, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_reason: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

/// The end of an answer that broke off. The output so far is what the earlier events said; [`crate::Assembler`] puts
/// it into [`crate::LlmResponse`] beside this error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFailure {
    /// What went wrong.
    pub error: ErrorInfo,
}

/// What decoders and clients yield.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// An event.
    Event(LlmEvent),
    /// Progress of a tool call that is still arriving.
    Progress(ToolProgress),
}

impl From<LlmEvent> for StreamItem {
    fn from(event: LlmEvent) -> Self {
        Self::Event(event)
    }
}

/// The provisional lane beside the union: for display only, nothing is ever assembled from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolProgress {
    /// A call began to arrive. Comes before any of its fragments.
    Started {
        /// The call's id, as the finished call will have it.
        id: CallId,
        /// The tool's name.
        name: String,
    },
    /// A fragment of a call's arguments. All fragments together are the arguments of the finished call.
    Arguments {
        /// The call's id.
        id: CallId,
        /// The fragment.
        fragment: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::ErrorKind;

    #[test]
    fn an_event_is_32_bytes() {
        assert!(size_of::<LlmEvent>() <= 32, "{}", size_of::<LlmEvent>());
    }

    #[test]
    fn the_shape_of_each_variant_is_pinned() {
        let pinned = [
            (LlmEvent::text("a"), r#"{"type":"text_delta","text":"a"}"#),
            (LlmEvent::reasoning("a"), r#"{"type":"reasoning_delta","text":"a"}"#),
            (
                LlmEvent::ToolCallComplete(Box::new(ToolCall::new("c", "t", "{}"))),
                r#"{"type":"tool_call_complete","id":"c","name":"t","arguments":"{}"}"#,
            ),
            (
                LlmEvent::UsageSnapshot(Box::default()),
                r#"{"type":"usage_snapshot","input_tokens":null,"output_tokens":null,"cache_read_input_tokens":null,"cache_creation_input_tokens":null,"reasoning_tokens":null,"partial":false}"#,
            ),
            (LlmEvent::finish(FinishReason::ToolCalls), r#"{"type":"finish","reason":"tool_calls"}"#),
            (
                LlmEvent::failure(ErrorInfo::new(ErrorKind::Truncated, "cut")),
                r#"{"type":"stream_failure","error":{"kind":"truncated","message":"cut","retry":"backoff"}}"#,
            ),
        ];
        for (event, json) in pinned {
            assert_eq!(serde_json::to_string(&event).unwrap(), json);
            assert_eq!(serde_json::from_str::<LlmEvent>(json).unwrap(), event);
        }
    }
}
