//! Tools as the formats after chat completions spell them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use turnwright_core::ToolDefinition;

use crate::LlmRequest;

/// The tools of a request.
pub(in crate::wire) struct Functions<'a>(pub(in crate::wire) &'a LlmRequest);

impl Serialize for Functions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.tools.iter().map(|tool| Tool::of(tool)))
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self { kind: "function", function: Function { name, description, parameters } }
    }
}
