//! What stands beside the conversation: tools and sampling.

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, json};
use turnwright_core::ToolDefinition;

use super::cache::CachePoint;
use crate::{LlmRequest, ToolChoice};

/// The field that names the tools.
pub(super) const TOOL_CONFIG: &str = "toolConfig";

/// The tools, and which of them must be called.
pub(super) struct Tools<'a>(&'a LlmRequest, Option<CachePoint>);

impl<'a> Tools<'a> {
    /// Nothing when no tool may be called.
    pub(super) fn of(request: &'a LlmRequest) -> Option<Self> {
        let may_call = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        may_call.then_some(Self(request, CachePoint::of(request.cache)))
    }
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut config = serializer.serialize_struct("Tools", 2)?;
        let tools = self.0.tools.iter().map(|tool| Tool::of(tool));
        let tools: Vec<_> = tools.chain(self.1.map(Tool::CachePoint)).collect();
        config.serialize_field("tools", &tools)?;
        // Without a word of it the model decides; not every model takes the word.
        match &self.0.tool_choice {
            ToolChoice::Auto | ToolChoice::None => config.skip_field("toolChoice")?,
            ToolChoice::Required => config.serialize_field("toolChoice", &json!({ "any": {} }))?,
            ToolChoice::Tool(name) => {
                config.serialize_field("toolChoice", &json!({ "tool": { "name": name } }))?;
            }
        }
        config.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Tool<'a> {
    #[serde(rename_all = "camelCase")]
    ToolSpec {
        name: &'a str,
        /// An empty one is refused.
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        input_schema: Schema<'a>,
    },
    CachePoint(CachePoint),
}

#[derive(Serialize)]
struct Schema<'a> {
    json: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self::ToolSpec { name, description: description.trim(), input_schema: Schema { json: parameters } }
    }
}

/// Limits and sampling, as far as the request says.
pub(super) fn inference(request: &LlmRequest) -> [(&'static str, Option<Value>); 4] {
    [
        ("maxTokens", request.max_output_tokens.map(Value::from)),
        ("temperature", request.temperature.map(Value::from)),
        ("topP", request.top_p.map(Value::from)),
        ("stopSequences", (!request.stop.is_empty()).then(|| request.stop.as_slice().into())),
    ]
}

/// The form of the answer, if the request asks for one.
pub(super) fn output(request: &LlmRequest) -> [(&'static str, Option<Value>); 1] {
    let format = request.output.as_ref().map(|output| {
        // A string, in which the schema is written.
        let schema = json!({ "name": output.name, "schema": output.schema.to_string() });
        json!({ "type": "json_schema", "structure": { "jsonSchema": schema } })
    });
    [("textFormat", format)]
}
