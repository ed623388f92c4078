//! The batch of one answer: asking the gate, running what may run, committing in model order.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use turnwright_core::{
    ApprovalRequest, ApprovalTransaction, CallDigest, Concurrency, ErrorInfo, ErrorKind, Synthetic,
    Timestamp, ToolCall, ToolResult, Wants, panic::panic_text,
};
use turnwright_hook::ToolDecision;
use turnwright_interceptor::Exit;

use super::{LegRt, tools::ToolCore};
use crate::{
    agent::RegisteredTool, approval::BatchVerdict, event::TurnEventKind, gate::GateDecision, ledger::Leg,
    machine::Fed, snapshot::BatchCall, tool::OnToolFailure,
};

/// How long a gate may take about one call before it fails closed.
const GATE_TIMEOUT: Duration = Duration::from_secs(60);

/// What is to become of a call.
pub(crate) struct Classified {
    pub(crate) decision: ToolDecision,
    /// What stands in for the result of a call that does not run.
    pub(crate) result: Option<ToolResult>,
    /// When the question about it expires.
    pub(crate) expires_at: Option<Timestamp>,
}

impl LegRt {
    /// Decides about every call of the batch, once each.
    pub(crate) async fn gate_batch(&self) -> Result<(), Exit> {
        let undecided: Vec<ToolCall> = self.ledger.with(|leg| {
            let calls = leg.batch.iter().flat_map(|b| &b.calls);
            calls.filter(|c| c.decision.is_none()).map(|c| c.call.clone()).collect()
        });
        for call in undecided {
            let classified = self.classify(&call).await?;
            let allowed = matches!(classified.decision, ToolDecision::Allowed).then(|| self.digest(&call));
            self.ledger.with(|leg| {
                if let Some(entry) = leg.batch_call(&call.id) {
                    (entry.decision, entry.allowed) = (Some(classified.decision), allowed);
                    entry.expires_at = classified.expires_at;
                }
                if let Some(result) = classified.result {
                    leg.tool_done(&call.id, self.agent.tool_result_limit.limited(result));
                }
            });
        }
        self.feed(Fed::Done)
    }

    pub(crate) fn digest(&self, call: &ToolCall) -> CallDigest {
        self.agent.digest(call)
    }

    /// What is to become of a call.
    pub(crate) async fn classify(&self, call: &ToolCall) -> Result<Classified, Exit> {
        let decided = |decision, result| Classified { decision, result, expires_at: None };
        let unrunnable = |error: ErrorInfo| {
            let words = ToolDecision::Unrunnable(error.message.clone());
            decided(words, Some(ToolResult::synthetic(call, Synthetic::Unrunnable, error)))
        };
        let Some(tool) = self.agent.tools.get(&call.name) else {
            let known: Vec<_> = self.agent.tools.keys().map(String::as_str).collect();
            let message = format!("there is no tool {:?}; the tools are: {}", call.name, known.join(", "));
            return Ok(unrunnable(ErrorInfo::new(ErrorKind::UnknownTool, message)));
        };
        if let Err(broken) = call.arguments_value() {
            return Ok(unrunnable(broken));
        }
        Ok(match self.ask_gate(call, tool).await? {
            Ok(GateDecision::Allow) => decided(ToolDecision::Allowed, None),
            Ok(GateDecision::Deny { reason }) => {
                let result = denied(call, &reason);
                decided(ToolDecision::Denied(reason), Some(result))
            }
            Ok(GateDecision::Ask { .. }) if self.session.is_allowed(&tool.definition) => {
                decided(ToolDecision::Allowed, None)
            }
            Ok(GateDecision::Ask { reason, expires_at }) => {
                Classified { expires_at, ..decided(ToolDecision::Pending(reason), None) }
            }
            Err(failed) => unrunnable(failed),
        })
    }

    /// A person edited a call while approving it. That answers a question the gate asks about the edit, but not a
    /// denial: those never ask.
    async fn classify_edits(&self) -> Result<(), Exit> {
        let edits: Vec<ToolCall> = self.ledger.with(|leg| {
            let calls = leg.batch.iter().flat_map(|b| &b.calls);
            let fresh = calls.filter(|c| c.is_open() && c.allowed.is_none() && !c.is_pending());
            fresh.filter_map(|c| c.edited.clone()).collect()
        });
        for edit in edits {
            let classified = self.classify(&edit).await?;
            self.ledger.with(|leg| match classified.result {
                Some(result) => {
                    leg.tool_done(&edit.id, self.agent.tool_result_limit.limited(result));
                }
                None => {
                    if let Some(entry) = leg.batch_call(&edit.id) {
                        entry.allowed = Some(self.digest(&edit));
                    }
                }
            });
        }
        Ok(())
    }

    /// Outer error: control. Inner error: the gate could not decide, and the call does not run.
    async fn ask_gate(
        &self,
        call: &ToolCall,
        tool: &RegisteredTool,
    ) -> Result<Result<GateDecision, ErrorInfo>, Exit> {
        let failed = |why: String| {
            let message = format!("not run: the approval gate failed ({why})");
            Ok(Err(ErrorInfo::new(ErrorKind::Internal, message)))
        };
        let asked =
            AssertUnwindSafe(async { self.agent.gate.dyn_decide(&self.ctx, call, &tool.definition).await });
        let limited = tokio::time::timeout(GATE_TIMEOUT, asked.catch_unwind());
        match self.or_cancel(limited).await? {
            Ok(Ok(Ok(decision))) => Ok(Ok(decision)),
            Ok(Ok(Err(Exit::Failed(error)))) => failed(error.message),
            Ok(Ok(Err(control))) => Err(control),
            Ok(Err(panic)) => failed(format!("it panicked: {}", panic_text(&*panic))),
            Err(_) => failed(format!("it took longer than {GATE_TIMEOUT:?}")),
        }
    }

    /// Runs the calls that may run: consecutive parallel tools beside each other, exclusive ones alone. Each result is
    /// shown when it is there; history gets them in model order, once none is missing.
    pub(crate) async fn run_batch(&self) -> Result<(), Exit> {
        self.classify_edits().await?;
        match self.agent.approval_batch.verdict(self) {
            BatchVerdict::Run => {}
            BatchVerdict::Wait => return self.feed(Fed::Tools { pending: true }),
            BatchVerdict::Preempt => self.ledger.with(|leg| leg.preempt(&self.agent.tool_result_limit)),
        }
        let mut calls: Vec<ToolCall> = self.ledger.with(|leg| {
            let calls = leg.batch.iter().flat_map(|b| &b.calls);
            let may_run = |c: &&BatchCall| c.recovered.is_some() || (c.allowed.is_some() && !c.is_pending());
            let runnable = calls.filter(|c| c.result.is_none()).filter(may_run);
            runnable.map(|c| c.edited.as_ref().unwrap_or(&c.call).clone()).collect()
        });
        calls.reverse();
        let mut ended = false;
        while !ended
            && self.abort.lock().is_none()
            && let Some(first) = calls.pop()
        {
            let mut segment = vec![first];
            while segment.last().is_some_and(|c| self.is_parallel(c))
                && calls.last().is_some_and(|c| self.is_parallel(c))
            {
                segment.extend(calls.pop());
            }
            ended = self.run_segment(segment).await?;
        }
        if ended {
            self.ledger.with(Leg::siblings_failed);
        }
        if let Some(error) = self.abort.lock().take() {
            return Err(Exit::Failed(error));
        }
        let (pending, stopped) = self.ledger.with(|leg| {
            let stopped = leg.take_stopped();
            let pending = leg.batch.iter().flat_map(|b| &b.calls).any(BatchCall::is_pending);
            if !pending && !stopped {
                leg.close_batch();
            }
            (pending, stopped)
        });
        if stopped && !pending {
            // The machine stands before the batch, which is a boundary, and the drain is asked for: it parks there.
            return Ok(());
        }
        if !pending && let Some(breach) = self.breach() {
            return Err(Exit::Control(breach));
        }
        self.feed(Fed::Tools { pending })
    }

    fn is_parallel(&self, call: &ToolCall) -> bool {
        let tool = self.agent.tools.get(&call.name);
        tool.is_some_and(|t| t.definition.concurrency == Concurrency::Parallel)
    }

    /// Says whether the batch ends here, with the failure of a call.
    async fn run_segment(&self, segment: Vec<ToolCall>) -> Result<bool, Exit> {
        let mut waiting = segment.into_iter();
        let mut running: FuturesUnordered<_> =
            waiting.by_ref().take(self.agent.parallel_tools).map(|call| self.run_call(call)).collect();
        while let Some(done) = running.next().await {
            let failed = done?;
            if failed && self.agent.on_tool_failure == OnToolFailure::CancelSiblings {
                // A destructor of a sibling that panics changes nothing.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(running))) {
                    tracing::warn!("a destructor panicked while a call was stopped: {}", panic_text(&*panic));
                }
                return Ok(true);
            }
            // A tool that aborts the turn lets its running siblings finish, and no further one starts.
            if self.abort.lock().is_none() {
                running.extend(waiting.next().map(|call| self.run_call(call)));
            }
        }
        Ok(false)
    }

    /// Says whether the call failed. A denial and an open question are no failure.
    async fn run_call(&self, call: ToolCall) -> Result<bool, Exit> {
        let id = call.id.clone();
        let idempotent = self.agent.tools.get(&call.name).is_some_and(|t| t.definition.idempotent);
        let no_replay = (!idempotent).then_some("the tool is not idempotent");
        let core = ToolCore::new(self);
        let result = self.agent.interceptors.tool_call.call(&self.ctx, call, &core, no_replay).await?;
        // Inherited layers stand outside the chain's own limit.
        let result = self.agent.tool_result_limit.limited(result);
        let failed = result.is_error() && result.synthetic != Some(Synthetic::Denied);
        Ok(self.ledger.with(|leg| {
            // Whether the call waits is the ledger's to know, not the result's: layers may rewrite a result.
            let waits = leg.batch_call(&id).is_some_and(|entry| entry.stopped || entry.is_pending());
            if !waits {
                leg.tool_done(&id, result);
            }
            failed && !waits
        }))
    }

    /// The questions of a batch that cannot go on without answers.
    pub(crate) fn open_transaction(&self) {
        let id = self.ctx.sources().id();
        self.ledger.with(|leg| {
            let pending = leg.batch.iter().flat_map(|b| &b.calls).filter(|c| c.is_pending());
            let requests: Vec<ApprovalRequest> = pending
                .flat_map(|entry| {
                    if !entry.asks.is_empty() {
                        return entry.surfaced().collect();
                    }
                    let call = asked_about(entry);
                    let call = &*call;
                    let tool = self.agent.tools.get(&call.name);
                    let wants = entry.waits.clone().unwrap_or_default();
                    let reason = match (&entry.decision, &wants) {
                        (_, Wants::Answer { .. }) => "the tool asks".into(),
                        (_, Wants::Result) => "the result comes from outside".into(),
                        (Some(ToolDecision::Pending(reason)), _) => reason.clone(),
                        _ => String::new(),
                    };
                    vec![ApprovalRequest {
                        call: call.clone(),
                        source: tool.map(|t| t.definition.source.clone()).unwrap_or_default(),
                        agent: None,
                        digest: self.digest(call),
                        wants,
                        reason,
                        expires_at: entry.expires_at,
                    }]
                })
                .collect();
            for request in &requests {
                leg.emit(TurnEventKind::ApprovalRequested(request.clone()));
            }
            leg.transaction = Some(ApprovalTransaction::open(id, self.ctx.turn(), requests));
        });
    }
}

/// What a question about a call shows, and what a decision lets run: the call as a layer or a person made it; of one in doubt,
/// what it ran with.
fn asked_about(entry: &BatchCall) -> Cow<'_, ToolCall> {
    let call = entry.rewritten.as_ref().or(entry.edited.as_ref()).unwrap_or(&entry.call);
    match &entry.ran_with {
        Some(arguments) if entry.in_doubt => {
            Cow::Owned(ToolCall { arguments: arguments.clone(), ..call.clone() })
        }
        _ => Cow::Borrowed(call),
    }
}

/// What a call that policy denies is answered with.
fn denied(call: &ToolCall, reason: &str) -> ToolResult {
    let message = format!("denied by policy: {reason}");
    ToolResult::synthetic(call, Synthetic::Denied, ErrorInfo::new(ErrorKind::Denied, message))
}

/// What a call that a person refused, or did not answer for, is answered with.
pub(crate) fn refused(call: &ToolCall, reason: &str) -> ToolResult {
    let message =
        format!("denied: {reason}. The tool is not banned, but do not ask for this very call again");
    ToolResult::synthetic(call, Synthetic::Denied, ErrorInfo::new(ErrorKind::Denied, message))
}
