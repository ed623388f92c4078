//! Finish reasons in the words of the servers.

use turnwright_core::{ErrorInfo, ErrorKind};

use crate::FinishReason;

/// What a finish reason means.
pub(super) fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "completed" | "STOP" => {
            FinishReason::Stop
        }
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" | "MAX_TOKENS" => FinishReason::Length,
        "content_filter" | "content_filtered" | "safety" => FinishReason::ContentFilter,
        "refusal" => FinishReason::Refusal,
        _ => FinishReason::Other,
    }
}

/// Finish reasons that say that the answer failed.
pub(super) fn failure_reason(raw: &str) -> Option<ErrorInfo> {
    let (kind, message) = match raw {
        "error" => (ErrorKind::Server, "the answer ended in an error"),
        "insufficient_system_resource" => (ErrorKind::Overloaded, "the provider ran out of resources"),
        _ => return None,
    };
    Some(ErrorInfo::new(kind, message))
}
