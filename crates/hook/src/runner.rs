//! The runner: one prebuilt list a point.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use serde::Serialize;
use turnwright_control::ControlError;
use turnwright_core::{
    AgentResult, ApprovalTransaction, BoxFuture, ToolResult, TurnContext, error::with_causes,
    panic::panic_text,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{
    Dispatch, ErrorPolicy, HookError, HookFailure, HookFailureKind, HookPoint, HookSpec, LegEnd,
    erased::*,
    error::Kind,
    limit::{Limit, Limited},
    point::{DecidedCall, FinalizeContent, TurnAnswer},
};

/// Fires points. Built once; a point nobody listens to costs a length check.
///
/// # Cancel safety
/// Dropping a firing drops the hook that runs and begins no further one. With a [`crate::DispatchLog`] the same firing
/// can be taken up again: hooks that were begun are not called twice.
#[derive(Default)]
pub struct HookRunner {
    specs: Vec<HookSpec>,
    lists: Lists,
}

struct Entry<D: ?Sized> {
    name: Arc<str>,
    policy: ErrorPolicy,
    timeout: Duration,
    hook: Arc<D>,
}

#[derive(Default)]
struct Lists {
    before_graph: List<dyn DynBeforeGraph>,
    after_graph: List<dyn DynAfterGraph>,
    finally_graph: List<dyn DynFinallyGraph>,
    start_node_turn: List<dyn DynStartNodeTurn>,
    end_node_turn: List<dyn DynEndNodeTurn>,
    before_turn: List<dyn DynBeforeTurn>,
    after_turn: List<dyn DynAfterTurn>,
    before_iteration: List<dyn DynBeforeIteration>,
    after_iteration: List<dyn DynAfterIteration>,
    before_tool_execution: List<dyn DynBeforeToolExecution>,
    after_tool_execution: List<dyn DynAfterToolExecution>,
    before_llm: List<dyn DynBeforeLlm>,
    after_llm_response: List<dyn DynAfterLlmResponse>,
    finalize_content: List<dyn FinalizeContent>,
    after_approval: List<dyn DynAfterApproval>,
}

type List<D> = Box<[Entry<D>]>;

/// One row of [`HookRunner::plan`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedHook {
    /// Its name.
    pub name: String,
    /// Its priority; lower runs first.
    pub priority: i32,
    /// Its points.
    pub points: Vec<HookPoint>,
    /// What happens when it fails.
    pub on_error: ErrorPolicy,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
}

macro_rules! fire {
    ($($(#[$doc:meta])* $method:ident: $point:ident ($($arg:ident: $ty:ty)?);)*) => {
        impl HookRunner {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The control error a hook raised, or the policy violation of a failed hook whose policy is to abort.
                #[inline]
                pub fn $method<'f>(
                    &'f self,
                    ctx: &'f TurnContext
                    $(, $arg: $ty)?,
                    dispatch: Dispatch<'f>,
                ) -> impl Future<Output = Result<(), ControlError>> + Send + 'f {
                    let list = &self.lists.$method;
                    if list.is_empty() {
                        return Firing { fire: None };
                    }
                    let fire = fire_all(list, HookPoint::$point, ctx, dispatch, move |hook| hook.call(ctx $(, $arg)?));
                    Firing { fire: Some(fire) }
                }
            )*
        }
    };
}
fire! {
    /// Fires BEFORE_GRAPH.
    before_graph: BeforeGraph ();
    /// Fires AFTER_GRAPH.
    after_graph: AfterGraph (result: &'f AgentResult);
    /// Fires FINALLY_GRAPH.
    finally_graph: FinallyGraph (end: LegEnd<'f>);
    /// Fires START_NODE_TURN.
    start_node_turn: StartNodeTurn ();
    /// Fires END_NODE_TURN.
    end_node_turn: EndNodeTurn ();
    /// Fires BEFORE_TURN.
    before_turn: BeforeTurn ();
    /// Fires BEFORE_ITERATION.
    before_iteration: BeforeIteration ();
    /// Fires AFTER_ITERATION.
    after_iteration: AfterIteration ();
    /// Fires BEFORE_TOOL_EXECUTION.
    before_tool_execution: BeforeToolExecution (calls: &'f [DecidedCall]);
    /// Fires AFTER_TOOL_EXECUTION.
    after_tool_execution: AfterToolExecution (results: &'f [ToolResult]);
    /// Fires BEFORE_LLM.
    before_llm: BeforeLlm (request: &'f LlmRequest);
    /// Fires AFTER_LLM_RESPONSE.
    after_llm_response: AfterLlmResponse (response: &'f LlmResponse);
    /// Fires AFTER_APPROVAL.
    after_approval: AfterApproval (transaction: &'f ApprovalTransaction);
}

impl HookRunner {
    /// A runner of these hooks: ascending by priority, equal ones in the order given.
    pub fn new(specs: impl IntoIterator<Item = HookSpec>) -> Self {
        let mut specs: Vec<_> = specs.into_iter().collect();
        specs.sort_by_key(|s| s.priority);
        let lists = Lists {
            before_graph: list(&specs, |s| &s.slots.before_graph),
            after_graph: list(&specs, |s| &s.slots.after_graph),
            finally_graph: list(&specs, |s| &s.slots.finally_graph),
            start_node_turn: list(&specs, |s| &s.slots.start_node_turn),
            end_node_turn: list(&specs, |s| &s.slots.end_node_turn),
            before_turn: list(&specs, |s| &s.slots.before_turn),
            after_turn: list(&specs, |s| &s.slots.after_turn),
            before_iteration: list(&specs, |s| &s.slots.before_iteration),
            after_iteration: list(&specs, |s| &s.slots.after_iteration),
            before_tool_execution: list(&specs, |s| &s.slots.before_tool_execution),
            after_tool_execution: list(&specs, |s| &s.slots.after_tool_execution),
            before_llm: list(&specs, |s| &s.slots.before_llm),
            after_llm_response: list(&specs, |s| &s.slots.after_llm_response),
            finalize_content: list(&specs, |s| &s.slots.finalize_content),
            after_approval: list(&specs, |s| &s.slots.after_approval),
        };
        Self { specs, lists }
    }

    /// Fires AFTER_TURN. Each hook works on a copy of the result that is taken over only when it succeeds.
    ///
    /// # Errors
    /// As for the other points.
    pub async fn after_turn(
        &self,
        ctx: &TurnContext,
        result: &mut AgentResult,
        dispatch: Dispatch<'_>,
    ) -> Result<TurnAnswer, ControlError> {
        let list = &self.lists.after_turn;
        let mut answer = TurnAnswer::Done;
        for (index, entry) in unbegun(list, HookPoint::AfterTurn, dispatch) {
            let mut copy = result.clone();
            let given = &mut copy;
            let call = call_one(entry, HookPoint::AfterTurn, index, ctx, dispatch, move || {
                entry.hook.call(ctx, given)
            });
            if let Some(wanted) = call.await? {
                answer = answer.max(wanted);
                *result = copy;
            }
        }
        Ok(answer)
    }

    /// Runs the FINALIZE_CONTENT chain. A hook that fails leaves the content as it was. The first control error is
    /// returned beside the content, which must not be lost; the later hooks still run. In a turn that was
    /// cut it is recorded.
    pub fn finalize_content(
        &self,
        ctx: &TurnContext,
        content: String,
        dispatch: Dispatch<'_>,
    ) -> (String, Option<ControlError>) {
        let point = HookPoint::FinalizeContent;
        let (mut content, mut raised) = (content, None);
        for (index, entry) in unbegun(&self.lists.finalize_content, point, dispatch) {
            if let Some(log) = dispatch.log {
                log.begun(point, index);
            }
            let given = content.clone();
            let call = AssertUnwindSafe(|| entry.hook.finalize_content(ctx, given));
            let outcome = match catch_unwind(call) {
                Ok(Ok(new)) => {
                    content = new;
                    continue;
                }
                // An answer that was whole can still be refused here; a turn that was cut has had its last word.
                Ok(Err(HookError(Kind::Control(control)))) if dispatch.until.is_none() => Err(control),
                Ok(Err(error)) => settle(entry, point, dispatch, error),
                Err(panic) => {
                    fail(entry, point, dispatch, HookFailureKind::Panic, panic_text(&*panic).to_owned())
                }
            };
            raised = raised.or(outcome.err());
        }
        (content, raised)
    }

    /// Whether anybody listens to a point.
    pub fn is_heard(&self, point: HookPoint) -> bool {
        let l = &self.lists;
        !match point {
            HookPoint::BeforeGraph => l.before_graph.is_empty(),
            HookPoint::AfterGraph => l.after_graph.is_empty(),
            HookPoint::FinallyGraph => l.finally_graph.is_empty(),
            HookPoint::StartNodeTurn => l.start_node_turn.is_empty(),
            HookPoint::EndNodeTurn => l.end_node_turn.is_empty(),
            HookPoint::BeforeTurn => l.before_turn.is_empty(),
            HookPoint::AfterTurn => l.after_turn.is_empty(),
            HookPoint::BeforeIteration => l.before_iteration.is_empty(),
            HookPoint::AfterIteration => l.after_iteration.is_empty(),
            HookPoint::BeforeToolExecution => l.before_tool_execution.is_empty(),
            HookPoint::AfterToolExecution => l.after_tool_execution.is_empty(),
            HookPoint::BeforeLlm => l.before_llm.is_empty(),
            HookPoint::AfterLlmResponse => l.after_llm_response.is_empty(),
            HookPoint::FinalizeContent => l.finalize_content.is_empty(),
            HookPoint::AfterApproval => l.after_approval.is_empty(),
        }
    }

    /// What is registered, in the order it runs.
    pub fn plan(&self) -> Vec<PlannedHook> {
        let row = |s: &HookSpec| PlannedHook {
            name: s.name.to_string(),
            priority: s.priority,
            points: s.points(),
            on_error: s.policy,
            timeout_ms: u64::try_from(s.timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.specs.iter().map(row).collect()
    }
}

impl std::fmt::Debug for HookRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.specs).finish()
    }
}

fn list<D: ?Sized>(specs: &[HookSpec], face: impl Fn(&HookSpec) -> &Option<Arc<D>>) -> List<D> {
    let entry = |s: &HookSpec| {
        let hook = face(s).clone()?;
        Some(Entry { name: s.name.clone(), policy: s.policy, timeout: s.timeout, hook })
    };
    specs.iter().filter_map(entry).collect()
}

/// The hooks that were not begun yet, with their index in the whole list.
fn unbegun<'l, D: ?Sized>(
    list: &'l [Entry<D>],
    point: HookPoint,
    dispatch: Dispatch<'_>,
) -> impl Iterator<Item = (usize, &'l Entry<D>)> {
    let from = match dispatch.log {
        Some(log) if !list.is_empty() => log.resume_at(point),
        _ => 0,
    };
    list.iter().enumerate().skip(from)
}

async fn fire_all<'h, D: ?Sized>(
    list: &'h [Entry<D>],
    point: HookPoint,
    ctx: &TurnContext,
    dispatch: Dispatch<'_>,
    call: impl Fn(&'h D) -> BoxFuture<'h, Result<(), HookError>>,
) -> Result<(), ControlError> {
    for (index, entry) in unbegun(list, point, dispatch) {
        call_one(entry, point, index, ctx, dispatch, || call(&entry.hook)).await?;
    }
    Ok(())
}

pin_project! {
    /// The firing of a point; none when nobody listens, which costs no call.
    struct Firing<F> {
        #[pin]
        fire: Option<F>,
    }
}

impl<F: Future<Output = Result<(), ControlError>>> Future for Firing<F> {
    type Output = Result<(), ControlError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().fire.as_pin_mut() {
            Some(fire) => fire.poll(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// Calls one hook: guarded, limited, its failure judged by its policy. `None` when it failed and the turn goes on.
async fn call_one<'h, D: ?Sized, T>(
    entry: &Entry<D>,
    point: HookPoint,
    index: usize,
    ctx: &TurnContext,
    dispatch: Dispatch<'_>,
    call: impl FnOnce() -> BoxFuture<'h, Result<T, HookError>>,
) -> Result<Option<T>, ControlError> {
    let mut limit = dispatch.timeout.unwrap_or(entry.timeout);
    if let Some(until) = dispatch.until {
        limit = limit.min(until.saturating_duration_since(ctx.sources().clock.instant()));
    }
    // From here to the hook's first poll nothing waits: a hook is noted as begun in the poll that begins it.
    if let Some(log) = dispatch.log {
        log.begun(point, index);
    }
    let ended = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(future) => Limit::new(future, limit).await,
        Err(panic) => Limited::Panicked(panic_text(&*panic).to_owned()),
    };
    match ended {
        Limited::Done(Ok(out)) => return Ok(Some(out)),
        Limited::Done(Err(error)) => settle(entry, point, dispatch, error)?,
        Limited::Panicked(message) => fail(entry, point, dispatch, HookFailureKind::Panic, message)?,
        Limited::TimedOut => {
            let message = format!("did not finish within {limit:?}");
            fail(entry, point, dispatch, HookFailureKind::Timeout(limit), message)?;
        }
    }
    Ok(None)
}

/// A control error is no failure and passes; while unwinding it is recorded.
fn settle<D: ?Sized>(
    entry: &Entry<D>,
    point: HookPoint,
    dispatch: Dispatch<'_>,
    error: HookError,
) -> Result<(), ControlError> {
    match error.0 {
        Kind::Control(control) if dispatch.unwinding => {
            fail(entry, point, dispatch, HookFailureKind::ControlWhileUnwinding, control.to_string())
        }
        Kind::Control(control) => Err(control),
        Kind::Failed(error) => fail(entry, point, dispatch, HookFailureKind::Error, with_causes(&*error)),
    }
}

fn fail<D: ?Sized>(
    entry: &Entry<D>,
    point: HookPoint,
    dispatch: Dispatch<'_>,
    kind: HookFailureKind,
    message: String,
) -> Result<(), ControlError> {
    let failure = HookFailure { hook: entry.name.to_string(), point, kind, message };
    if entry.policy == ErrorPolicy::Ignore {
        tracing::debug!(hook = %entry.name, %point, "{failure}");
    } else {
        tracing::warn!(hook = %entry.name, %point, "{failure}");
    }
    let abort = entry.policy == ErrorPolicy::Abort && !dispatch.unwinding;
    let words = failure.to_string();
    if let Some(log) = dispatch.log
        && entry.policy != ErrorPolicy::Ignore
    {
        log.failed(failure);
    }
    if abort { Err(ControlError::policy_violation(words)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
