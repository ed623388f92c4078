//! The request body.

mod contents;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, ToolDefinition};

use self::contents::Contents;
use crate::{LlmRequest, ToolChoice, wire::fields::Fields};

/// The body of a `streamGenerateContent` request: UTF-8 JSON. Equal requests give equal bytes. The model is no part of
/// it: it stands in the path, as `alt=sse` does.
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

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut request = self.0.clone();
        let config = config(&mut request);
        let Contents { system, contents } = Contents::of(self.0);
        let mut body = Fields::new(serializer.serialize_map(None)?, &request);
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
        if !config.is_empty() {
            body.put("generationConfig", &config)?;
        }
        body.end()
    }
}

/// How to generate: the serializer's own fields, and over them those of the request, which it has no more then.
fn config(request: &mut LlmRequest) -> Map<String, Value> {
    let own = [
        ("temperature", request.temperature.map(Value::from)),
        ("maxOutputTokens", request.max_output_tokens.map(Value::from)),
        ("stopSequences", (!request.stop.is_empty()).then(|| request.stop.as_slice().into())),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut config = Map::from_iter(own);
    if let Some(Value::Object(_)) = request.extra.get("generationConfig")
        && let Some(Value::Object(extra)) = request.extra.remove("generationConfig")
    {
        config.extend(extra);
    }
    config
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
