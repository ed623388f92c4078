//! The calls of `task` in the turn of a parent that runs.

use std::sync::Arc;

use turnwright_core::{Message, Origin, Role, ToolCall, ToolResult, TurnContext};

use super::{request::Request, task::Task};
use crate::inbox_flush;

/// Each as it ran, with its result if it has one.
fn of_turn(messages: &[Arc<Message>]) -> impl Iterator<Item = (ToolCall, Option<&ToolResult>)> {
    let starts = |m: &Arc<Message>| m.role == Role::User && m.origin == Origin::Conversation;
    let start = messages.iter().rposition(starts).unwrap_or(0);
    let turn = messages.get(start..).unwrap_or_default();
    let results: Vec<&ToolResult> = turn.iter().flat_map(|m| m.tool_results()).collect();
    let calls = turn.iter().flat_map(|m| m.tool_calls()).filter(|call| call.name == Task::NAME);
    calls.map(move |call| {
        let result = results.iter().copied().find(|result| *result.call_id() == call.id);
        let ran_with = result.and_then(|result| result.ran_with.clone());
        let arguments = ran_with.unwrap_or_else(|| call.arguments.clone());
        (ToolCall { arguments, ..call.clone() }, result)
    })
}

/// Those whose results are no reports.
pub(super) fn without_report(ctx: &TurnContext, messages: &[Arc<Message>]) -> Vec<ToolCall> {
    let is_open = |call: &ToolCall, result: Option<&ToolResult>| {
        let reported = format!("\nreport: {}\n", Request::of(ctx, &call.id, false).report());
        result.is_none_or(|result| !result.content.contains(&reported))
    };
    of_turn(messages).filter(|(call, result)| is_open(call, *result)).map(|(call, _)| call).collect()
}

/// Whether a subagent that this turn started in the background has not reported yet.
pub(crate) fn is_awaited(ctx: &TurnContext, messages: &[Arc<Message>]) -> bool {
    of_turn(messages).any(|(call, result)| {
        let is_begun = result.is_some_and(|result| !result.is_error());
        let is_detached = serde_json::from_str::<Task>(&call.arguments).is_ok_and(|task| task.detach);
        let report = inbox_flush::key(&Request::of(ctx, &call.id, true).report());
        is_begun && is_detached && !messages.iter().any(|message| message.key.as_ref() == Some(&report))
    })
}
