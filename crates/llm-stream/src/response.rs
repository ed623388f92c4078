//! An assembled answer.

use turnwright_core::{ErrorInfo, ErrorKind, Part, TokenUsage, ToolCall};

use crate::FinishReason;

/// A model's answer, put together. Owned and not clonable: an answer is recorded once.
#[derive(Debug, Default, PartialEq)]
pub struct LlmResponse {
    /// Text, reasoning and complete tool calls, in the order they arrived.
    pub parts: Vec<Part>,
    /// Why the model stopped; none when the answer broke off.
    pub finish_reason: Option<FinishReason>,
    /// The provider's word for it.
    pub raw_finish_reason: Option<String>,
    /// Token usage, as far as it is known.
    pub usage: TokenUsage,
    /// The model that answered.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// Why the answer broke off, if it did. The parts are then what had arrived.
    pub error: Option<ErrorInfo>,
}

impl LlmResponse {
    /// An answer of nothing but text, for layers that answer in the model's place.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], finish_reason: Some(FinishReason::Stop), ..Self::default() }
    }

    /// A failed answer without output.
    pub fn failed(error: ErrorInfo) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// All text, joined.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// All reasoning text, joined.
    pub fn reasoning(&self) -> String {
        let text = |p: &Part| match p {
            Part::Reasoning(r) => Some(r.text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(text).collect()
    }

    /// The complete calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|p| match p {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Whether it has neither text nor calls. Blank text is no answer.
    pub fn is_empty(&self) -> bool {
        self.tool_calls().next().is_none()
            && self.parts.iter().filter_map(Part::as_text).all(|t| t.trim().is_empty())
    }

    /// Whether its calls may run. Complete calls count, whatever the label says, unless the answer ended in length,
    /// filter, refusal, failure or a reason we do not know: then none of them runs, and this is why.
    ///
    /// # Errors
    /// The error each call is answered with.
    pub fn calls_may_run(&self) -> Result<(), ErrorInfo> {
        let refuse = |why: &str| {
            let message = format!("not run: {why}. Ask again if the call is still needed");
            Err(ErrorInfo::new(ErrorKind::NotRun, message))
        };
        match (self.finish_reason, &self.error) {
            (_, Some(_)) | (None, _) => refuse("the response it came in broke off"),
            (Some(FinishReason::Stop | FinishReason::ToolCalls), None) => Ok(()),
            (Some(FinishReason::Length), None) => {
                refuse("the response it came in was cut by the output limit")
            }
            (Some(FinishReason::ContentFilter), None) => {
                refuse("a content filter cut the response it came in")
            }
            (Some(FinishReason::Refusal), None) => refuse("the model declined in the same response"),
            (Some(FinishReason::Other), None) => {
                refuse("the response it came in ended for an unknown reason")
            }
        }
    }
}
