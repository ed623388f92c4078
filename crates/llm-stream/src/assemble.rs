//! From events to an answer.

use std::borrow::Borrow;

use turnwright_core::{ErrorInfo, ErrorKind, Part, Reasoning, TokenUsage};

use crate::{LlmEvent, LlmResponse};

/// Puts the events of one stream together. Adjacent deltas of one kind become one part; the last usage snapshot wins.
#[derive(Debug, Clone, Default)]
pub struct Assembler {
    parts: Vec<Part>,
    reasoning_closed: bool,
    usage: Option<TokenUsage>,
    end: Option<LlmEvent>,
}

impl Assembler {
    /// An assembler for one stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event. Events after the terminal one are ignored: streams made by [`crate::OneTerminal`] have
    /// none.
    pub fn feed(&mut self, event: impl Borrow<LlmEvent>) {
        if self.end.is_some() {
            return;
        }
        match event.borrow() {
            LlmEvent::TextDelta { text } => self.text(text),
            LlmEvent::ReasoningDelta(delta) => {
                match self.parts.last_mut() {
                    Some(Part::Reasoning(r)) if !self.reasoning_closed => r.text.push_str(&delta.text),
                    _ if delta.text.is_empty() && delta.opaque.is_none() => return,
                    _ => self.parts.push(Part::Reasoning(Reasoning {
                        text: delta.text.clone(),
                        opaque: serde_json::Map::new(),
                    })),
                }
                self.reasoning_closed = delta.opaque.is_some();
                if let (Some(opaque), Some(Part::Reasoning(r))) = (&delta.opaque, self.parts.last_mut()) {
                    r.opaque.extend(opaque.iter().map(|(k, v)| (k.clone(), v.clone())));
                }
            }
            LlmEvent::ToolCallComplete(call) => self.parts.push(Part::ToolCall((**call).clone())),
            LlmEvent::UsageSnapshot(usage) => self.usage = Some(**usage),
            end @ (LlmEvent::Finish(_) | LlmEvent::StreamFailure(_)) => self.end = Some(end.clone()),
        }
    }

    /// Whether the stream ended in a failure.
    pub fn has_failed(&self) -> bool {
        matches!(self.end, Some(LlmEvent::StreamFailure(_)))
    }

    fn text(&mut self, delta: &str) {
        match self.parts.last_mut() {
            _ if delta.is_empty() => {}
            Some(Part::Text { text }) => text.push_str(delta),
            _ => self.parts.push(Part::text(delta)),
        }
    }

    /// The answer. Without a terminal event it is a truncated one; everything that arrived is kept either way.
    pub fn finish(self) -> LlmResponse {
        let mut response = LlmResponse {
            parts: self.parts,
            usage: self.usage.unwrap_or(TokenUsage::UNKNOWN),
            ..LlmResponse::default()
        };
        match self.end {
            Some(LlmEvent::Finish(finish)) => {
                response.finish_reason = Some(finish.reason);
                response.raw_finish_reason = finish.raw_reason;
                response.model = finish.model;
                response.response_id = finish.response_id;
            }
            Some(LlmEvent::StreamFailure(failure)) => response.error = Some(failure.error),
            _ => {
                let message = "the stream ended without a terminal event";
                response.error = Some(ErrorInfo::new(ErrorKind::Truncated, message));
            }
        }
        if response.error.is_some() {
            // What a broken answer cost is known only so far.
            response.usage.partial = true;
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FinishReason, ReasoningDelta};
    use turnwright_core::ToolCall;

    fn opaque(signature: &str) -> LlmEvent {
        let mut map = serde_json::Map::new();
        map.insert("signature".into(), signature.into());
        LlmEvent::ReasoningDelta(ReasoningDelta { text: String::new(), opaque: Some(Box::new(map)) })
    }

    #[test]
    fn parts_keep_their_order_and_reasoning_blocks_their_signatures() {
        let mut a = Assembler::new();
        for e in [
            LlmEvent::reasoning("th"),
            LlmEvent::reasoning("ink"),
            opaque("s1"),
            LlmEvent::reasoning("more"),
            opaque("s2"),
            LlmEvent::text("Hel"),
            LlmEvent::text(""),
            LlmEvent::text("lo"),
            LlmEvent::ToolCallComplete(Box::new(ToolCall::new("c", "t", "{}"))),
            LlmEvent::text("bye"),
            LlmEvent::finish(FinishReason::ToolCalls),
            LlmEvent::text("late"),
        ] {
            a.feed(e);
        }
        let r = a.finish();
        assert_eq!(r.parts.len(), 5);
        assert_eq!((r.text(), r.reasoning()), ("Hellobye".into(), "thinkmore".into()));
        assert!(
            matches!(&r.parts[1], Part::Reasoning(b) if b.text == "more" && b.opaque["signature"] == "s2")
        );
        assert!(matches!(&r.parts[3], Part::ToolCall(_)));
        assert_eq!(r.calls_may_run(), Ok(()));
    }

    #[test]
    fn fault_d1_no_terminal_event_is_no_success_and_keeps_what_arrived() {
        let mut a = Assembler::new();
        a.feed(LlmEvent::text("half"));
        let r = a.finish();
        assert_eq!(r.error.as_ref().map(|e| e.kind), Some(ErrorKind::Truncated));
        assert_eq!(r.text(), "half");
        assert!(r.calls_may_run().is_err());
    }

    #[test]
    fn fault_r6_91_usage_snapshots_replace_and_never_add() {
        let usage = |n| TokenUsage { output_tokens: Some(n), ..TokenUsage::UNKNOWN };
        let mut a = Assembler::new();
        for n in [1, 2, 3] {
            a.feed(LlmEvent::UsageSnapshot(Box::new(usage(n))));
        }
        a.feed(LlmEvent::finish(FinishReason::Stop));
        assert_eq!(a.finish().usage, usage(3));
    }
}
