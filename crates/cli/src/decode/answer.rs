//! The answer put together, as `--assemble` prints it.

use serde::Serialize;
use serde_json::Value;
use turnwright::{
    CallId, ErrorInfo, ErrorKind, LlmEvent, TokenUsage, ToolCall,
    llm_stream::{Assembler, FinishReason, ToolProgress},
};

/// Collects it.
#[derive(Default)]
pub(super) struct Answer {
    assembler: Assembler,
    /// Calls that began, in their order, with what came of their arguments.
    begun: Vec<ToolCall>,
    pub(super) raw_usage: Option<Value>,
}

#[derive(Serialize)]
pub(super) struct Assembled {
    text: String,
    reasoning: String,
    tool_calls: Vec<Call>,
    finish_reason: Option<FinishReason>,
    raw_finish_reason: Option<String>,
    usage: TokenUsage,
    raw_usage: Option<Value>,
    error: Option<Failure>,
    truncated: bool,
}

#[derive(Serialize)]
struct Call {
    id: CallId,
    name: String,
    #[serde(flatten)]
    arguments: Arguments,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Arguments {
    Arguments(Value),
    ArgumentsRaw(String),
}

#[derive(Serialize)]
struct Failure {
    kind: ErrorKind,
    message: String,
    code: Option<String>,
    retryable: bool,
}

impl Answer {
    pub(super) fn event(&mut self, event: &LlmEvent) {
        self.assembler.feed(event);
    }

    pub(super) fn progress(&mut self, progress: ToolProgress) {
        match progress {
            ToolProgress::Started { id, name } => self.begun.push(ToolCall::new(id, name, "")),
            ToolProgress::Arguments { id, fragment } => {
                if let Some(call) = self.begun.iter_mut().rfind(|call| call.id == id) {
                    call.arguments.push_str(&fragment);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(self) -> Assembled {
        let response = self.assembler.finish();
        let mut calls: Vec<ToolCall> = response.tool_calls().cloned().collect();
        if response.error.is_some() {
            // What began to arrive is told too: the rest never came.
            let is_complete = |call: &ToolCall| calls.iter().any(|complete| complete.id == call.id);
            let begun: Vec<ToolCall> = self.begun.into_iter().filter(|call| !is_complete(call)).collect();
            calls.extend(begun);
        }
        Assembled {
            text: response.text(),
            reasoning: response.reasoning(),
            tool_calls: calls.into_iter().map(Call::from).collect(),
            finish_reason: response.finish_reason,
            raw_finish_reason: response.raw_finish_reason,
            usage: response.usage,
            raw_usage: self.raw_usage,
            truncated: response.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Truncated),
            error: response.error.map(Failure::from),
        }
    }
}

impl From<ToolCall> for Call {
    fn from(call: ToolCall) -> Self {
        let arguments = match serde_json::from_str(&call.arguments) {
            Ok(arguments) => Arguments::Arguments(arguments),
            Err(_) => Arguments::ArgumentsRaw(call.arguments),
        };
        Self { id: call.id, name: call.name, arguments }
    }
}

impl From<ErrorInfo> for Failure {
    fn from(error: ErrorInfo) -> Self {
        let retryable = error.is_retryable();
        Self { kind: error.kind, message: error.message, code: error.code, retryable }
    }
}
