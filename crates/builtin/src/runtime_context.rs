//! `runtime_context`: what the calls of a turn came to, for whoever asks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwright_core::{CallId, StateKey, ToolResult, TurnContext, state::StateError};
use turnwright_hook::{
    HookError,
    point::{AfterToolExecution, BeforeToolExecution, DecidedCall, StartNodeTurn},
};

static CALLS: StateKey<RuntimeContext> = StateKey::new("turnwright.builtin/runtime_context", 1);

/// Calls that are kept; the oldest go first.
const KEPT: usize = 100;
/// Characters that are kept of arguments and of a result.
const CHARS: usize = 2000;

/// Records the calls of a turn and what they came to, in the turn's state, where tools and other hooks read them with
/// [`runtime_context`].
///
/// START_NODE_TURN, BEFORE_TOOL_EXECUTION, AFTER_TOOL_EXECUTION; name `runtime_context`. A fresh turn begins with none; a
/// resumed one keeps what it had. The last 100 calls, 2,000 characters of each text.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordContext;

/// The calls of a turn, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeContext {
    /// Those that have a result.
    pub calls: Vec<RecordedCall>,
    /// Those that are under way.
    pub pending: Vec<RecordedCall>,
}

/// A call, and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments, cut.
    pub arguments: String,
    /// The result, cut, with `error: ` before one that is an error; empty while there is none.
    pub result: String,
}

/// What [`RecordContext`] recorded in this turn.
///
/// # Errors
/// [`StateError`] when what is stored cannot be read.
pub fn runtime_context(ctx: &TurnContext) -> Result<Arc<RuntimeContext>, StateError> {
    Ok(ctx.state().get(&CALLS)?.unwrap_or_default())
}

impl StartNodeTurn for RecordContext {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        ctx.state().set(&CALLS, RuntimeContext::default());
        Ok(())
    }
}

impl BeforeToolExecution for RecordContext {
    async fn before_tool_execution(&self, ctx: &TurnContext, calls: &[DecidedCall]) -> Result<(), HookError> {
        let pending: Vec<_> = calls
            .iter()
            .map(|DecidedCall { call, .. }| RecordedCall {
                call: call.id.clone(),
                tool: call.name.clone(),
                arguments: cut(&call.arguments),
                result: String::new(),
            })
            .collect();
        ctx.state().update(&CALLS, |before| {
            let calls = before.map(|before| before.calls.clone()).unwrap_or_default();
            RuntimeContext { calls, pending: pending.clone() }
        })?;
        Ok(())
    }
}

impl AfterToolExecution for RecordContext {
    async fn after_tool_execution(&self, ctx: &TurnContext, results: &[ToolResult]) -> Result<(), HookError> {
        ctx.state().update(&CALLS, |before| {
            let RuntimeContext { mut calls, pending } = before.cloned().unwrap_or_default();
            for mut call in pending {
                if let Some(result) = results.iter().find(|result| *result.call_id() == call.call) {
                    let before = if result.is_error() { "error: " } else { "" };
                    call.result = format!("{before}{}", cut(&result.content));
                }
                calls.push(call);
            }
            let surplus = calls.len().saturating_sub(KEPT);
            calls.drain(..surplus);
            RuntimeContext { calls, pending: Vec::new() }
        })?;
        Ok(())
    }
}

fn cut(text: &str) -> String {
    // Most texts are short, and need not be counted.
    let end = if text.len() > CHARS { text.char_indices().nth(CHARS) } else { None };
    match end {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
