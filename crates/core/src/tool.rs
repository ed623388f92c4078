//! Tool definitions, calls and results.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, ErrorInfo, ErrorKind, ImageRef};

/// Whether a tool may run beside others of its batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Alone: a barrier in its batch. The default, since a tool that says nothing may have effects.
    #[default]
    Exclusive,
    /// Beside other parallel tools.
    Parallel,
}

/// What becomes of a call that was started before its process went away, and whose result nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// It runs again, with the same idempotency key. For tools that honour the key, or that may run twice: the call
    /// takes effect exactly once, or harmlessly more often.
    Rerun,
    /// A person is asked whether it runs again. A denial reports it as [`Recovery::Report`] does.
    Ask,
    /// It does not run again, and the model is told that nobody knows whether it took effect: at most once.
    Report,
}

/// What the model and the runtime know of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name, unique within an agent.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object schema.
    pub parameters: Value,
    /// Where it comes from, for example `local` or the name of a server. Part of its identity: a decision for one
    /// source does not cover a tool of the same name from another.
    pub source: String,
    /// Whether it may run beside others.
    #[serde(default)]
    pub concurrency: Concurrency,
    /// Whether running it twice with the same arguments is harmless, so that a layer may repeat it.
    #[serde(default)]
    pub idempotent: bool,
    /// Its own deadline, if shorter than the agent's.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// How long it may go without progress, if shorter than the agent's limit. The deadline counts beside it.
    #[serde(default)]
    pub idle_timeout: Option<Duration>,
    /// What becomes of a call in doubt after a crash; see [`ToolDefinition::recovery`] for what it is when none.
    #[serde(default)]
    pub recovery: Option<Recovery>,
}

impl ToolDefinition {
    /// What becomes of a call in doubt: as declared; else an idempotent tool runs again, and any other is reported.
    pub fn recovery(&self) -> Recovery {
        let usual = if self.idempotent { Recovery::Rerun } else { Recovery::Report };
        self.recovery.unwrap_or(usual)
    }
}

/// A call the model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id, unique within the turn; a runtime makes it unique within the conversation.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments as they came: JSON text, possibly empty or broken.
    pub arguments: String,
}

impl ToolCall {
    /// A call.
    pub fn new(id: impl Into<CallId>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    /// The arguments to execute: blank text and `null` stand for `{}`, which is how some providers send "no arguments".
    pub fn arguments_json(&self) -> Cow<'_, str> {
        if matches!(self.arguments.trim(), "" | "null") {
            Cow::Borrowed("{}")
        } else {
            Cow::Borrowed(self.arguments.as_str())
        }
    }

    /// The arguments as a JSON value.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedToolCall`] when they are not JSON: such a call never runs.
    pub fn arguments_value(&self) -> Result<Value, ErrorInfo> {
        serde_json::from_str(&self.arguments_json()).map_err(|e| {
            ErrorInfo::new(
                ErrorKind::MalformedToolCall,
                format!("the arguments of the call to {:?} are not valid JSON: {e}", self.name),
            )
        })
    }
}

/// Why the runtime, and not the tool, wrote a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synthetic {
    /// The turn ended before the call did.
    Interrupted,
    /// The gate or a person denied it.
    Denied,
    /// The response it came in was cut, so that it must not run.
    ResponseCut,
    /// The call could not be run: unknown tool, broken arguments.
    Unrunnable,
    /// It waits for a decision.
    Pending,
    /// Another call of its batch failed, and the batch ends with the first failure.
    SiblingFailed,
    /// Its process went away after it was started: whether it took effect is not known.
    InDoubt,
}

/// What a call came to. Legal by construction: it always carries the id and the name of its call, and neither can be
/// changed afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    call_id: CallId,
    tool: String,
    /// What the model reads. On an error it holds the words of the error.
    pub content: String,
    /// Images that belong to the result, by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
    /// Why the call failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Set when the runtime wrote it in the tool's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
    /// How long the tool itself ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Duration>,
    /// The arguments the tool ran with, where a layer or a person had changed what the model asked for. The message of
    /// the call keeps the model's own. Not sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<String>,
}

impl ToolResult {
    /// A success. Empty content is a result too.
    pub fn ok(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            content: content.into(),
            images: Vec::new(),
            error: None,
            synthetic: None,
            elapsed: None,
            ran_with: None,
        }
    }

    /// A failure, which goes back to the model.
    pub fn error(call: &ToolCall, error: ErrorInfo) -> Self {
        Self { content: error.message.clone(), error: Some(error), ..Self::ok(call, "") }
    }

    /// A result the runtime writes because the tool did not.
    pub fn synthetic(call: &ToolCall, why: Synthetic, error: ErrorInfo) -> Self {
        Self { synthetic: Some(why), ..Self::error(call, error) }
    }

    /// The call it answers.
    pub fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether the call failed.
    pub fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Whether it stands for a call that waits for a decision.
    pub fn is_pending(&self) -> bool {
        self.error.as_ref().is_some_and(|e| e.kind == ErrorKind::ApprovalRequired)
    }

    /// The same result with other content.
    #[must_use]
    pub fn with_content(mut self, content: impl Into<String>) -> Self {
        self.content = content.into();
        self
    }

    /// The same result, with the time the tool took.
    #[must_use]
    pub fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = Some(elapsed);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e17_blank_arguments_stand_for_an_empty_object() {
        for blank in ["", " \n", "null", " null "] {
            let call = ToolCall::new("c", "t", blank);
            assert_eq!(call.arguments_value().unwrap(), serde_json::json!({}));
        }
        let e = ToolCall::new("c", "t", r#"{"a":"#).arguments_value().unwrap_err();
        assert_eq!(e.kind, ErrorKind::MalformedToolCall);
    }

    #[test]
    fn fault_b4_an_error_result_has_the_id_and_name_of_its_call() {
        let call = ToolCall::new("c1", "weather", "{}");
        let r = ToolResult::error(&call, ErrorInfo::new(ErrorKind::ToolTimeout, "too slow"));
        assert_eq!((r.call_id().as_str(), r.tool(), r.is_error()), ("c1", "weather", true));
        assert_eq!(r.content, "too slow");
    }

    #[test]
    fn fault_i15_an_empty_output_is_a_result() {
        let r = ToolResult::ok(&ToolCall::new("c", "t", ""), "");
        assert!(!r.is_error());
    }
}
