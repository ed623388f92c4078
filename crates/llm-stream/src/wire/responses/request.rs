//! The request body.

mod input;

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, ToolDefinition};

use crate::{LlmRequest, OutputSchema, OutputWay, ToolChoice, wire::fields::Fields};

/// The body of a streaming request in the Responses format: UTF-8 JSON. Equal requests give equal bytes.
///
/// The server is asked to store nothing (`store`) and to put the reasoning, encrypted, into the answer (`include`), so
/// that the history holds all of the conversation. The latter is left out for models that are known not to reason, since
/// the format's inventor refuses it for them; for another one, as behind a deployment's own name, `"include": []` in
/// [`LlmRequest::extra`] takes it back. [`LlmRequest::stop`] goes out as `stop`, which the format's
/// inventor does not have and refuses; servers that copy the format take it.
///
/// Servers of this format cache by themselves: [`LlmRequest::cache`] sends nothing. OpenAI finds its cache better with a
/// key of your own, one a conversation: `prompt_cache_key` in the extra fields.
///
/// The fields in [`LlmRequest::extra`] come last and replace the serializer's own of the same name; those of a `text`
/// there replace the single fields of the serializer's own. Histories that no
/// server accepts are mended, not refused: arguments that are not a JSON object go out as an object that holds them, an
/// interrupted answer as an element that says so, ids of calls that are longer than the format's 64 bytes as shorter ones,
/// and names of tools that a model made up with other characters in the place of those that no tool may have. Reasoning goes back whole where this format made it, the server can read it, and something of the same answer
/// follows it; reasoning of other formats is left out, with its text.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn responses_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How the format brings a model to answer in the form of [`LlmRequest::output`]: by itself.
pub fn responses_output_way(request: &LlmRequest) -> OutputWay {
    if request.is_output_by_tool() { OutputWay::DemandedTool } else { OutputWay::Native }
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        body.put("model", &request.model)?;
        body.put_some("instructions", request.system.as_deref().filter(|s| !s.is_empty()).as_ref())?;
        body.put("input", &Input(request))?;
        if !request.tools.is_empty() {
            body.put("tools", &Tools(request))?;
            body.put_some("tool_choice", choice(&request.tool_choice).as_ref())?;
            body.put_some("parallel_tool_calls", request.parallel_tool_calls.as_ref())?;
        }
        body.put_some("max_output_tokens", request.max_output_tokens.as_ref())?;
        body.put_some("temperature", request.temperature.as_ref())?;
        body.put_some("top_p", request.top_p.as_ref())?;
        if !request.stop.is_empty() {
            body.put("stop", &request.stop)?;
        }
        body.put_merged("text", [("format", request.output.as_deref().map(format))])?;
        body.put("store", &false)?;
        if may_reason(&request.model) {
            body.put("include", &["reasoning.encrypted_content"])?;
        }
        body.put("stream", &true)?;
        body.end()
    }
}

/// Whether the model may reason. Routers put the name of the inventor before that of the model.
fn may_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !["gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat"].iter().any(|family| name.starts_with(family))
}

struct Input<'a>(&'a LlmRequest);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = self.0.extra.get("store") == Some(&Value::Bool(true));
        let mut list = serializer.serialize_seq(None)?;
        input::write(self.0, stored, &mut list)?;
        list.end()
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
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// The format's default is to refuse most schemas.
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self { kind: "function", name, description, parameters, strict: false }
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": name })),
    }
}

fn format(output: &OutputSchema) -> Value {
    let OutputSchema { name, schema, strict, .. } = output;
    json!({ "type": "json_schema", "name": name, "schema": schema, "strict": strict })
}

#[cfg(test)]
mod tests;
