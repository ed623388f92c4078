//! What is checked when an agent is built, so that no turn finds it out.

use std::collections::BTreeMap;

use serde_json::Value;
use turnwright_core::ToolDefinition;
use turnwright_llm_stream::ToolChoice;

use super::{BuildError, RegisteredTool};

pub(super) fn check_tool(definition: &ToolDefinition) -> Result<(), BuildError> {
    let name = &definition.name;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_legal) {
        return Err(BuildError::ToolName(name.clone()));
    }
    if definition.parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Err(BuildError::ToolSchema(name.clone()));
    }
    if [definition.timeout, definition.idle_timeout].into_iter().flatten().any(|limit| limit.is_zero()) {
        return Err(BuildError::ZeroToolTimeout(name.clone()));
    }
    Ok(())
}

/// What the model must call has to be there.
pub(super) fn check_tool_choice(
    choice: &ToolChoice,
    tools: &BTreeMap<String, RegisteredTool>,
) -> Result<(), BuildError> {
    match choice {
        ToolChoice::Tool(name) if !tools.contains_key(name) => Err(BuildError::ToolChoice(name.clone())),
        ToolChoice::Required if tools.is_empty() => Err(BuildError::NoTool),
        _ => Ok(()),
    }
}
