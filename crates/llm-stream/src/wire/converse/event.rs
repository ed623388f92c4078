//! The shapes of the payloads, borrowed from their bytes. What is not named here is skipped without being built: each
//! payload has padding of random length, for example.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{FinishReason, wire::count::Count};

/// `contentBlockStart`, and `contentBlockStop`, which has the index only.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockStart<'a> {
    #[serde(default)]
    pub(super) content_block_index: Count,
    #[serde(borrow, default)]
    pub(super) start: Option<Start<'a>>,
}

/// What a block is that does not begin with its first delta.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start<'a> {
    #[serde(borrow, default)]
    pub(super) tool_use: Option<ToolStart<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolStart<'a> {
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
}

/// `contentBlockDelta`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockDelta<'a> {
    #[serde(default)]
    pub(super) content_block_index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<ThoughtDelta<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolDelta<'a> {
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThoughtDelta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) redacted_content: Option<&'a RawValue>,
}

/// `messageStop`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStop<'a> {
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<&'a RawValue>,
}

/// `metadata`.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// What a stop reason means.
pub(super) fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
        "refusal" => FinishReason::Refusal,
        // `malformed_tool_use` and `malformed_model_output` too: the calls of such an answer do not run.
        _ => FinishReason::Other,
    }
}

/// Reads a payload. An array would be read as the fields of the event in their order, so it is refused.
pub(super) fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, ErrorInfo> {
    let broken = |what: String| ErrorInfo::new(ErrorKind::Decode, format!("the payload of a message {what}"));
    let json = std::str::from_utf8(payload).map_err(|_| broken("is not valid UTF-8".into()))?;
    if !json.trim_start().starts_with('{') {
        return Err(broken("is no JSON object".into()));
    }
    serde_json::from_str(json)
        .map_err(|e| broken(format!("is not valid JSON of its kind, at column {}", e.column())))
}
