//! The request body.

mod message;

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{
    LlmRequest, OutputSchema, OutputWay, ToolChoice,
    wire::{fields::Fields, functions::Functions},
};

/// The body of a streaming chat completion request: UTF-8 JSON. Equal requests give equal bytes.
///
/// Servers of this format cache by themselves: [`LlmRequest::cache`] sends nothing. OpenAI finds its cache better with a
/// key of your own, one a conversation: `prompt_cache_key` in the extra fields.
///
/// The fields in [`LlmRequest::extra`] come last and replace the serializer's own of the same name. Histories that
/// no server accepts are mended, not refused: arguments that are not a JSON object go out as an object that holds
/// them, an interrupted answer as an element that says so, images of a tool's result as a user message after it, names of
/// tools that a model made up with other characters in the place of those that no tool may have, and ids of calls that are
/// longer than the format's 40 bytes, as other formats make them, as shorter ones.
///
/// Reasoning goes back as the details it came with. What came as `reasoning_content` goes back so with the calls of the
/// running turn, to the model that gave it; servers that think between calls want it there and nowhere else.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn chat_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How the format brings a model to answer in the form of [`LlmRequest::output`]: by itself.
pub fn chat_output_way(request: &LlmRequest) -> OutputWay {
    if request.is_output_by_tool() { OutputWay::DemandedTool } else { OutputWay::Native }
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        body.put("model", &request.model)?;
        body.put("messages", &Messages(request))?;
        if !request.tools.is_empty() {
            body.put("tools", &Functions(request))?;
            body.put_some("tool_choice", choice(&request.tool_choice).as_ref())?;
            body.put_some("parallel_tool_calls", request.parallel_tool_calls.as_ref())?;
        }
        // Not `max_completion_tokens`: the servers that copy the format know only this one.
        body.put_some("max_tokens", request.max_output_tokens.as_ref())?;
        body.put_some("temperature", request.temperature.as_ref())?;
        body.put_some("top_p", request.top_p.as_ref())?;
        if !request.stop.is_empty() {
            body.put("stop", &request.stop)?;
        }
        body.put_some("response_format", request.output.as_deref().map(format).as_ref())?;
        body.put("stream", &true)?;
        body.put("stream_options", &json!({ "include_usage": true }))?;
        body.end()
    }
}

struct Messages<'a>(&'a LlmRequest);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if let Some(system) = self.0.system.as_deref().filter(|s| !s.is_empty()) {
            list.serialize_element(&message::Words { role: "system", content: system })?;
        }
        message::write(self.0, &mut list)?;
        list.end()
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "function": { "name": name } })),
    }
}

fn format(output: &OutputSchema) -> Value {
    let OutputSchema { name, schema, strict, .. } = output;
    json!({ "type": "json_schema", "json_schema": { "name": name, "schema": schema, "strict": strict } })
}

#[cfg(test)]
mod tests;
