//! The request body.

mod contents;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, ToolDefinition};

use self::contents::Contents;
use crate::{LlmRequest, OutputWay, ToolChoice, wire::fields::Fields};

/// The body of a `streamGenerateContent` request: UTF-8 JSON. Equal requests give equal bytes. The model is no part of
/// it: it stands in the path, as `alt=sse` does.
///
/// The format has no word for [`LlmRequest::parallel_tool_calls`]: it sends nothing. [`LlmRequest::cache`] sends nothing
/// either, as the servers cache by themselves. Models before Gemini 3 refuse [`LlmRequest::output`] beside tools.
///
/// The fields in [`LlmRequest::extra`] come last and replace the serializer's own of the same name; those of a
/// `generationConfig` there replace the single fields of the serializer's own. Histories that no server accepts are
/// mended, not refused: neighbours of one role become one content, the results of calls come first in it and their
/// images after them; arguments that are not a JSON object go out as an object that holds them, an interrupted answer as
/// an element that says so. System messages at the start join the system instruction; later ones are the user's words,
/// for want of a better place. Images go as data or as a link, others as their name in words.
///
/// What [`super::GeminiDecoder`] kept goes back with the part it came with. Reasoning without a signature, and that of
/// other formats, is left out. Ids of calls go out only where the server gave them: Vertex AI refuses others. The first
/// call of an answer without any signature gets the one that the format has for histories made elsewhere, without which
/// models from Gemini 3 on refuse it.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn gemini_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How the format brings a model to answer in the form of [`LlmRequest::output`]: by itself where there are no tools, else
/// by a tool, since most models refuse both.
pub fn gemini_output_way(request: &LlmRequest) -> OutputWay {
    let is_native = request.tools.is_empty() && !request.is_output_by_tool();
    if is_native { OutputWay::Native } else { OutputWay::DemandedTool }
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let Contents { system, contents } = Contents::of(request);
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        if !system.is_empty() {
            let parts: Vec<_> = system.iter().map(|text| json!({ "text": text })).collect();
            body.put("systemInstruction", &json!({ "parts": parts }))?;
        }
        body.put("contents", &contents)?;
        if !request.tools.is_empty() {
            let declarations: Vec<_> = request.tools.iter().map(|tool| Declaration::of(tool)).collect();
            body.put("tools", &[Tools { declarations }])?;
            body.put_some("toolConfig", choice(&request.tool_choice).as_ref())?;
        }
        body.put_merged("generationConfig", config(request))?;
        body.end()
    }
}

/// How to generate, as far as the request says.
fn config(request: &LlmRequest) -> [(&'static str, Option<Value>); 6] {
    let schema = request.output.as_ref().map(|output| output.schema.clone());
    [
        ("temperature", request.temperature.map(Value::from)),
        ("topP", request.top_p.map(Value::from)),
        ("maxOutputTokens", request.max_output_tokens.map(Value::from)),
        ("stopSequences", (!request.stop.is_empty()).then(|| request.stop.as_slice().into())),
        ("responseMimeType", schema.is_some().then(|| "application/json".into())),
        // Not `responseSchema`, which takes only some of JSON schema.
        ("responseJsonSchema", schema),
    ]
}

#[derive(Serialize)]
struct Tools<'a> {
    #[serde(rename = "functionDeclarations")]
    declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Not `parameters`, which takes only some of JSON schema.
    #[serde(rename = "parametersJsonSchema")]
    parameters: &'a Value,
}

impl<'a> Declaration<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self { name, description, parameters }
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    let config = match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::Tool(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
    };
    Some(json!({ "functionCallingConfig": config }))
}

#[cfg(test)]
mod tests;
