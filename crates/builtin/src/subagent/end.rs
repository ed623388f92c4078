//! `subagent_end`: no subagent outlives the call that waits for it.

use std::sync::Arc;

use futures::future::join_all;
use turnwright_core::{CancelCause, CancelKind, SessionId, ToolCall, TurnContext};
use turnwright_hook::{HookError, LegEnd, is_suspend_leg, point::FinallyGraph};
use turnwright_react_runtime::Agent;

use super::{
    Crew,
    calls::without_report,
    request::{Request, session_of},
    task::Task,
};

/// When the turn of a parent is over, its subagents are: those that a cancel reached have told their end before the parent
/// tells its own, and those that waited for a decision through it are cancelled. Detached ones go on.
pub(crate) struct SubagentEnd {
    pub(crate) crew: Arc<Crew>,
}

impl SubagentEnd {
    async fn end(&self, ctx: &TurnContext, call: &ToolCall, cause: &CancelCause) -> Result<(), HookError> {
        let Ok(task) = serde_json::from_str::<Task>(&call.arguments) else { return Ok(()) };
        let Some(agent) = self.crew.agent(&task.agent).filter(|_| !task.detach) else { return Ok(()) };
        let request = Request::of(ctx, &call.id, false);
        let invocation = task.invocation.unwrap_or_else(|| request.invocation());
        let Some(id) = session_of(&invocation, &task.agent) else { return Ok(()) };
        cancel_left(agent, id, &request, cause).await
    }
}

async fn cancel_left(
    agent: &Agent,
    id: SessionId,
    request: &Request,
    cause: &CancelCause,
) -> Result<(), HookError> {
    let session = agent.open_session(id).await?;
    session.idle().await;
    // Another call of the parent's may have gone on with the invocation since.
    if session.is_parked() && Request::last(&session.messages()).as_ref() == Some(request) {
        session.cancel_parked(cause.clone())?.outcome().await;
    }
    Ok(())
}

impl FinallyGraph for SubagentEnd {
    async fn finally_graph(&self, ctx: &TurnContext, end: LegEnd<'_>) -> Result<(), HookError> {
        if is_suspend_leg(end.result(), end.error()) {
            return Ok(());
        }
        let told = end.result().and_then(|result| result.cancelled_by.clone());
        let cause = told.unwrap_or_else(|| {
            CancelCause::runtime(CancelKind::Superseded, "the turn that waited for it is over")
        });
        let messages = ctx.history().snapshot().messages;
        let calls = without_report(ctx, &messages);
        let ended = join_all(calls.iter().map(|call| self.end(ctx, call, &cause))).await;
        ended.into_iter().collect()
    }
}
