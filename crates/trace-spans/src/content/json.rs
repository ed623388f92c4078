//! Content in the conventions' JSON. Each text is redacted before it is cut, and cut before it is written.

use std::borrow::Cow;

use serde_json::{Value, json};
use turnwright_core::{Message, Part, Role, ToolDefinition};
use turnwright_interceptor::builtin::Redactor;

use super::Capture;

/// What a summary has.
const LAST_MESSAGES: usize = 6;
const TEXT_CHARS: usize = 2000;
const ARGUMENT_CHARS: usize = 1000;

pub(super) struct Writer<'a> {
    pub(super) by: Option<&'a dyn Redactor>,
    pub(super) how: Capture,
    pub(super) max_bytes: usize,
}

impl Writer<'_> {
    fn seen<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.by {
            Some(by) => by.redact(text),
            None => Cow::Borrowed(text),
        }
    }

    fn cut(&self, text: &str, chars: usize) -> String {
        let text = self.seen(text);
        if self.how == Capture::Summary {
            text.chars().take(chars).collect()
        } else {
            let mut end = self.max_bytes.min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text[..end].to_owned()
        }
    }

    /// A text by itself.
    pub(super) fn text(&self, text: &str) -> String {
        self.cut(text, TEXT_CHARS)
    }

    pub(super) fn arguments(&self, text: &str) -> String {
        self.cut(text, ARGUMENT_CHARS)
    }

    pub(super) fn instructions(&self, text: &str) -> String {
        self.list([json!({ "type": "text", "content": self.text(text) })].into_iter())
    }

    pub(super) fn messages<'m>(
        &self,
        messages: impl DoubleEndedIterator<Item = &'m Message> + Clone,
    ) -> String {
        let is_summary = self.how == Capture::Summary;
        let said = messages.filter(|message| !is_summary || message.role != Role::System).rev();
        let most = if is_summary { LAST_MESSAGES } else { usize::MAX };
        self.list(said.take(most).map(|message| {
            let role = match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            json!({ "role": role, "parts": self.parts(&message.parts) })
        }))
    }

    pub(super) fn answer(&self, parts: &[Part], reason: &str) -> String {
        // Readers that lag drop a message without its reason.
        let message = json!({ "role": "assistant", "parts": self.parts(parts), "finish_reason": reason });
        self.list([message].into_iter())
    }

    pub(super) fn tools<'t>(&self, tools: impl Iterator<Item = &'t ToolDefinition>) -> String {
        let mut tools: Vec<_> = tools.collect();
        tools.reverse();
        self.list(tools.into_iter().map(|tool| match self.how {
            Capture::Summary => json!({ "type": "function", "name": tool.name }),
            _ => json!({
                "type": "function",
                "name": tool.name,
                "description": self.text(&tool.description),
                "parameters": self.value(&tool.parameters.to_string()),
            }),
        }))
    }

    fn parts(&self, parts: &[Part]) -> Vec<Value> {
        let part = |part: &Part| match part {
            Part::Text { text } => json!({ "type": "text", "content": self.text(text) }),
            Part::Reasoning(thought) => json!({ "type": "reasoning", "content": self.text(&thought.text) }),
            Part::ToolCall(call) => json!({
                "type": "tool_call",
                "id": self.text(call.id.as_str()),
                "name": self.text(&call.name),
                "arguments": self.value(&call.arguments),
            }),
            Part::ToolResult(result) => json!({
                "type": "tool_call_response",
                "id": self.text(result.call_id().as_str()),
                "response": self.text(&result.content),
            }),
            Part::Image(image) => json!({
                "type": "uri",
                "modality": "image",
                "mime_type": image.media_type,
                "uri": self.text(&image.uri),
            }),
            _ => json!({ "type": "other" }),
        };
        parts.iter().map(part).collect()
    }

    /// JSON as what it is, where it still is JSON.
    fn value(&self, text: &str) -> Value {
        let text = self.arguments(text);
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// The newest of what fits, the newest given first.
    fn list(&self, newest_first: impl Iterator<Item = Value>) -> String {
        let (mut items, mut bytes) = (Vec::new(), 2);
        for item in newest_first {
            let item = item.to_string();
            bytes += item.len() + 1;
            if bytes > self.max_bytes {
                break;
            }
            items.push(item);
        }
        items.reverse();
        format!("[{}]", items.join(","))
    }
}
