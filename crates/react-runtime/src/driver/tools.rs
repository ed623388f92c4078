//! The core of a tool call: the deadline, the check of the decision, the tool.

use std::{pin::pin, time::Duration};

use turnwright_core::{ErrorInfo, ErrorKind, Synthetic, ToolCall, ToolResult, TurnContext, Wants};
use turnwright_hook::{ToolDecision, instrument::kind};
use turnwright_interceptor::{CallState, Core, Exit, builtin::ToolTimeout, scope};

use super::{
    LegRt, failure,
    inner::{InnerCall, refused_inside},
};
use crate::{
    agent::RegisteredTool,
    store::JournalRecord,
    tool::{Fence, ToolContext, ToolErrorKind},
};

/// What the chain wraps: the innermost layer (the deadline, always there) and inside it the executor.
pub(super) struct ToolCore<'a>(Executor<'a>);

impl<'a> ToolCore<'a> {
    /// Of a call of the model.
    pub(super) fn new(rt: &'a LegRt) -> Self {
        Self(Executor { rt, inner: None })
    }

    /// Of a call that another call made.
    pub(super) fn inner(rt: &'a LegRt, inner: &'a InnerCall<'a>) -> Self {
        Self(Executor { rt, inner: Some(inner) })
    }
}

impl Core<scope::ToolCall> for ToolCore<'_> {
    async fn call(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        _: &CallState<scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        self.0.rt.agent.tool_deadline.call(ctx, call, &self.0, None).await
    }
}

struct Executor<'a> {
    rt: &'a LegRt,
    inner: Option<&'a InnerCall<'a>>,
}

impl Core<scope::ToolCall> for Executor<'_> {
    async fn call(
        &self,
        _: &TurnContext,
        call: ToolCall,
        _: &CallState<scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let rt = self.rt;
        if self.inner.is_none()
            && let Some(result) = rt.ledger.with(|leg| leg.take_recovered(&call.id))
        {
            return Ok(result);
        }
        let call = match self.check(call).await? {
            Checked::Run(call) => call,
            Checked::Answered(result) => return Ok(result),
        };
        let Some(tool) = rt.agent.tools.get(&call.name) else {
            let message = format!("there is no tool {:?}", call.name);
            return Err(Exit::failed(ErrorKind::UnknownTool, message));
        };
        let ctx = match self.inner {
            None => {
                let decided = rt.ledger.with(|leg| leg.batch_call(&call.id).map(|e| e.decided.clone()));
                let decided = decided.unwrap_or_default();
                ToolContext::new(&rt.ctx, call.id.clone(), rt.ledger.clone(), &rt.agent, decided)
            }
            Some(inner) => inner.outer.inner(call.id.clone()),
        };
        let _fence = Fence(ctx.clone());
        let arguments = call.arguments_json().into_owned();
        if let Err(error) = rt.take_tool_call() {
            return Ok(ToolResult::synthetic(&call, Synthetic::Unrunnable, error));
        }
        // Before the tool is entered: should the process go away now, the call is known to be in doubt. Of an inner call
        // the outer one tells.
        let is_noted = rt.is_kept() && self.inner.is_none();
        if is_noted {
            let ran_with = rt.ledger.read(|leg| leg.ran_with(&call));
            let intent = JournalRecord::Intent { call: call.id.clone(), ran_with };
            if let Err(e) = rt.or_cancel(Box::pin(rt.note(intent))).await? {
                let error = ErrorInfo::from(e);
                rt.abort.lock().get_or_insert_with(|| error.clone());
                return Ok(ToolResult::synthetic(&call, Synthetic::Unrunnable, error));
            }
        }
        rt.ledger.with(|leg| {
            let ran_with = leg.ran_with(&call);
            if let Some(entry) = leg.batch_call(&call.id) {
                (entry.entered, entry.ran_with) = (true, ran_with);
            }
        });
        let entered = self.enter(&ctx, tool, &call, arguments);
        let instruments = &rt.agent.instruments;
        let result = instruments.watch::<kind::Tool, _>(&rt.ctx, &call, failure, entered).await?;
        // A call that waits, or stopped with its turn, has no result yet.
        if matches!(result.synthetic, Some(Synthetic::Pending | Synthetic::Interrupted)) {
            return Ok(result);
        }
        // Should this fail the result is still here, and the next checkpoint stores it.
        if is_noted && let Err(e) = Box::pin(rt.note(JournalRecord::Result { result: result.clone() })).await
        {
            tracing::warn!("the result of call {} is not in the journal: {e}", call.id);
        }
        Ok(result)
    }
}

impl Executor<'_> {
    /// Runs the tool, and makes a result of whatever comes of it.
    async fn enter(
        &self,
        ctx: &ToolContext,
        tool: &RegisteredTool,
        call: &ToolCall,
        arguments: String,
    ) -> Result<ToolResult, Exit> {
        let rt = self.rt;
        let clock = &rt.ctx.sources().clock;
        let started = clock.instant();
        // The tool's own code runs in the polls of this await and nowhere else.
        let body = async { tool.tool.dyn_call(ctx.clone(), arguments).await };
        let body = while_active(ctx, tool.idle_timeout, body);
        let ended = rt.or_cancel(rt.while_serving(ctx, tool, body)).await??;
        let elapsed = clock.instant().saturating_duration_since(started);
        let ended = match ended {
            Ok(ended) => ended,
            Err(limit) => return Ok(ToolTimeout::idle_result(call, limit, elapsed)),
        };
        let result = match ended {
            Ok(output) => {
                let mut result = ToolResult::ok(call, output.content);
                result.images = output.images;
                result
            }
            Err(error) => match error.0 {
                ToolErrorKind::Control(control) => return Err(Exit::Control(control)),
                ToolErrorKind::Waits(wants) if self.inner.is_some() => {
                    refused_inside(call, waits_for(&wants))
                }
                ToolErrorKind::Stopped if self.inner.is_none() && rt.ctx.is_drain_requested() => {
                    rt.ledger.with(|leg| leg.tool_stopped(&call.id));
                    let error = ErrorInfo::new(ErrorKind::NotRun, "stopped with its turn");
                    return Ok(ToolResult::synthetic(call, Synthetic::Interrupted, error));
                }
                ToolErrorKind::Stopped => {
                    let words = "the tool stopped half-way, though nobody asked the turn to stop";
                    ToolResult::error(call, ErrorInfo::new(ErrorKind::ToolFailed, words))
                }
                ToolErrorKind::Asks(_) if self.inner.is_some() => {
                    refused_inside(call, "waits for decisions about calls of another agent")
                }
                ToolErrorKind::Asks(requests) => {
                    let words = "waits for decisions about calls of another agent";
                    rt.ledger.with(|leg| leg.tool_forwards(&call.id, requests));
                    let error = ErrorInfo::new(ErrorKind::ApprovalRequired, words);
                    return Ok(ToolResult::synthetic(call, Synthetic::Pending, error));
                }
                ToolErrorKind::Waits(wants) => {
                    let error = ErrorInfo::new(ErrorKind::ApprovalRequired, waits_for(&wants));
                    rt.ledger.with(|leg| leg.tool_waits(&call.id, wants));
                    return Ok(ToolResult::synthetic(call, Synthetic::Pending, error));
                }
                ToolErrorKind::Model(error) => ToolResult::error(call, error),
                ToolErrorKind::Abort(error) => {
                    rt.abort.lock().get_or_insert_with(|| error.clone());
                    ToolResult::error(call, error)
                }
            },
        };
        Ok(result.with_elapsed(elapsed))
    }
}

/// Runs the body of a call for as long as it shows progress; gives back the limit that it did not keep.
async fn while_active<T>(
    call: &ToolContext,
    limit: Option<Duration>,
    body: impl Future<Output = T>,
) -> Result<T, Duration> {
    let Some(limit) = limit else { return Ok(body.await) };
    let mut body = pin!(body);
    loop {
        let active = call.active_at();
        // A limit beyond the end of time is none.
        let Some(until) = active.checked_add(limit) else { return Ok(body.await) };
        if let Ok(out) = tokio::time::timeout_at(until, &mut body).await {
            return Ok(out);
        }
        if call.active_at() == active {
            return Err(limit);
        }
    }
}

fn waits_for(wants: &Wants) -> &'static str {
    match wants {
        Wants::Approval => "waits for a decision",
        Wants::Answer { .. } => "waits for an answer",
        Wants::Result => "waits for its result, which comes from outside",
    }
}

enum Checked {
    Run(ToolCall),
    Answered(ToolResult),
}

impl Executor<'_> {
    /// The last check before a tool runs: a decision covers one digest. Arguments that a layer rewrote are classified
    /// anew, so that no layer can make a denied or undecided call run.
    async fn check(&self, call: ToolCall) -> Result<Checked, Exit> {
        let rt = self.rt;
        let (asked, allowed, rewritten) = match self.inner {
            Some(inner) => (inner.tool.to_owned(), Some(inner.allowed), None),
            None => rt
                .ledger
                .with(|leg| {
                    leg.batch_call(&call.id).map(|e| (e.call.name.clone(), e.allowed, e.rewritten.clone()))
                })
                .ok_or_else(|| Exit::failed(ErrorKind::Interceptor, "a layer changed the id of the call"))?,
        };
        if asked != call.name {
            let message = format!("a layer changed the tool of the call from {asked:?} to {:?}", call.name);
            return Err(Exit::failed(ErrorKind::Interceptor, message));
        }
        // The approved rewrite resumes here: what a person approved runs, whatever the layers make of the call now.
        if let Some(rewritten) = rewritten
            && allowed == Some(rt.digest(&rewritten))
        {
            return Ok(Checked::Run(rewritten));
        }
        if allowed == Some(rt.digest(&call)) {
            return Ok(Checked::Run(call));
        }
        let classified = rt.classify(&call).await?;
        match (classified.decision, classified.result) {
            (ToolDecision::Allowed, _) => Ok(Checked::Run(call)),
            (ToolDecision::Pending(reason), _) if self.inner.is_some() => {
                Ok(Checked::Answered(refused_inside(&call, &format!("waits for a decision: {reason}"))))
            }
            (ToolDecision::Pending(reason), _) => {
                let error =
                    ErrorInfo::new(ErrorKind::ApprovalRequired, format!("waits for a decision: {reason}"));
                let result = ToolResult::synthetic(&call, Synthetic::Pending, error);
                rt.ledger.with(|leg| leg.tool_asks(call, reason, classified.expires_at));
                Ok(Checked::Answered(result))
            }
            (_, Some(result)) => Ok(Checked::Answered(result)),
            (decision, None) => {
                Err(Exit::failed(ErrorKind::Internal, format!("{decision:?} without a result")))
            }
        }
    }
}
