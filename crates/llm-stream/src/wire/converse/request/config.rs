//! What stands beside the conversation: tools and sampling.

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, json};
use turnwright_core::ToolDefinition;

use crate::{LlmRequest, ToolChoice};

/// The field that names the tools.
pub(super) const TOOL_CONFIG: &str = "toolConfig";

/// The tools, and which of them must be called.
pub(super) struct Tools<'a>(&'a LlmRequest);

impl<'a> Tools<'a> {
    /// Nothing when no tool may be called.
    pub(super) fn of(request: &'a LlmRequest) -> Option<Self> {
        let may_call = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        may_call.then_some(Self(request))
    }
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut config = serializer.serialize_struct("Tools", 2)?;
        let tools: Vec<_> = self.0.tools.iter().map(|tool| Tool::of(tool)).collect();
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

/// Limits and sampling.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
}

impl<'a> Inference<'a> {
    /// Nothing when the request asks for nothing of it.
    pub(super) fn of(request: &'a LlmRequest) -> Option<Self> {
        let config = Self {
            max_tokens: request.max_output_tokens,
            temperature: request.temperature,
            stop_sequences: &request.stop,
        };
        let is_set =
            config.max_tokens.is_some() || config.temperature.is_some() || !config.stop_sequences.is_empty();
        is_set.then_some(config)
    }
}
