//! The request body.

mod block;
mod turns;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, ToolDefinition};

use crate::{
    LlmRequest, ToolChoice,
    wire::{fields::Fields, turns::Conversation},
};
use block::Block;

/// How many tokens an answer may have when the request does not say: the format demands a figure.
pub const DEFAULT_MAX_TOKENS: u64 = 8192;

/// The body of a streaming request in the Messages format: UTF-8 JSON. Equal requests give equal bytes.
///
/// Without [`LlmRequest::max_output_tokens`] the answer may have [`DEFAULT_MAX_TOKENS`]. The fields in
/// [`LlmRequest::extra`] come last and replace the serializer's own of the same name: there is the place for `thinking`
/// and `cache_control`.
///
/// Histories that no server accepts are mended, not refused:
/// - Messages of one role that follow each other become one, and so do results and the user's words after them, results
///   first. A history that begins with an answer gets a user's turn before it.
/// - A call without a result gets one that says so; a result without a call goes out as words.
/// - System messages at the begin join the system prompt. Later ones, for which the format has no place, go out as the
///   user's words in a `<system_message>` element.
/// - Arguments that are not a JSON object go out as an object that holds them, an interrupted answer as an element that
///   says so, and ids and names that the format does not allow with other characters in the place of the wrong ones.
/// - Blank text is left out.
///
/// Thoughts go back as they came where this format made them and the server signed or encrypted them. Others are left
/// out, with their text. An image is sent by its URL, or as what a `data:` URI holds; of one in a store that the server
/// cannot reach only the name is sent.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn messages_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let Conversation { system, turns } = Conversation::<Block<'_>>::of(request);
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        body.put("model", &request.model)?;
        body.put("max_tokens", &request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS))?;
        if !system.is_empty() {
            body.put("system", &system)?;
        }
        body.put("messages", &turns)?;
        if !request.tools.is_empty() {
            body.put("tools", &Tools(request))?;
            body.put_some("tool_choice", choice(&request.tool_choice).as_ref())?;
        }
        body.put_some("temperature", request.temperature.as_ref())?;
        if !request.stop.is_empty() {
            body.put("stop_sequences", &request.stop)?;
        }
        body.put("stream", &true)?;
        body.end()
    }
}

struct Tools<'a>(&'a LlmRequest);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.tools.iter().map(|tool| Tool::of(tool)))
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self { name, description, input_schema: parameters }
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({ "type": "none" })),
        ToolChoice::Required => Some(json!({ "type": "any" })),
        ToolChoice::Tool(name) => Some(json!({ "type": "tool", "name": name })),
    }
}

#[cfg(test)]
mod tests;
