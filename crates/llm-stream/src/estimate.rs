//! How many tokens something has, about: for pressure and budgets, before a provider counts them.
//!
//! No tokenizer is asked, since each model has its own. The rule is the same for every model:
//!
//! | what | tokens |
//! |---|---|
//! | text | one for [`BYTES_A_TOKEN`] bytes of UTF-8, begun ones counted |
//! | a message | [`MESSAGE_TOKENS`] beside its parts |
//! | a call, a result, a tool's definition | [`MESSAGE_TOKENS`] beside its names, its text and its JSON |
//! | an image | [`IMAGE_TOKENS`], whatever its size |
//!
//! That is about right for English and code, too many for most other scripts, and too few (by up to a half) for base64,
//! hexadecimal and minified text. Leave room, and trust the usage of the last answer more where there is one.

use serde::Serialize;
use turnwright_core::{Message, Part, ToolCall, ToolDefinition, ToolResult};

use crate::LlmRequest;

/// Bytes of text that are taken for one token.
pub const BYTES_A_TOKEN: usize = 4;
/// What surrounds a message, a call, a result or a tool.
pub const MESSAGE_TOKENS: u64 = 4;
/// What an image is taken for: about the most that providers count for one of ordinary size.
pub const IMAGE_TOKENS: u64 = 1_500;

/// Of a text.
pub fn text(text: &str) -> u64 {
    bytes(text.len())
}

/// Of a message with all of its parts.
pub fn message(message: &Message) -> u64 {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => self::text(text),
        Part::Reasoning(reasoning) if reasoning.opaque.is_empty() => text(&reasoning.text),
        Part::Reasoning(reasoning) => text(&reasoning.text) + json(&reasoning.opaque),
        Part::ToolCall(call) => self::call(call),
        Part::ToolResult(result) => self::result(result),
        Part::Image(_) => IMAGE_TOKENS,
        // Of a kind that this rule does not know yet.
        other => json(other),
    });
    parts.fold(MESSAGE_TOKENS, u64::saturating_add)
}

/// Of a tool as the model is told of it.
pub fn tool(tool: &ToolDefinition) -> u64 {
    MESSAGE_TOKENS + text(&tool.name) + text(&tool.description) + json(&tool.parameters)
}

/// Of all that a request sends: system prompt, messages, tools, and the form of the answer.
pub fn request(request: &LlmRequest) -> u64 {
    let system = request.system.as_deref().map_or(0, |system| MESSAGE_TOKENS + text(system));
    let output = request.output.as_ref().map_or(0, |output| json(&output.schema));
    let messages = request.messages.iter().map(|message| self::message(message));
    let tools = request.tools.iter().map(|tool| self::tool(tool));
    messages.chain(tools).fold(system + output, u64::saturating_add)
}

fn call(call: &ToolCall) -> u64 {
    MESSAGE_TOKENS + text(&call.name) + text(&call.arguments)
}

fn result(result: &ToolResult) -> u64 {
    let images = (result.images.len() as u64).saturating_mul(IMAGE_TOKENS);
    (MESSAGE_TOKENS + text(&result.content)).saturating_add(images)
}

fn json(value: &impl Serialize) -> u64 {
    let mut counted = Counted(0);
    // What JSON cannot hold is not sent.
    let _ = serde_json::to_writer(&mut counted, value);
    bytes(counted.0)
}

fn bytes(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN) as u64
}

/// Counts what is written, and keeps nothing.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
