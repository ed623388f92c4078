//! Tool calls, the agents they start, and approvals.

use std::time::SystemTime;

use opentelemetry::{
    KeyValue,
    trace::{Link, Span as _, SpanContext, SpanKind},
};
use opentelemetry_sdk::trace::Span;
use turnwright_core::{
    ApprovalTransaction, CallId, ErrorKind, Synthetic, ToolCall, ToolResult, TurnContext, Verdict,
};
use turnwright_hook::{
    DecidedCall, ToolDecision,
    instrument::{self, CallScope},
};

use super::{Ended, Fault, Leg, Scope, end_all, strings};
use crate::{conventions as names, kept::Kept};

/// What was decided about a call of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gated {
    /// By the gate: it runs.
    Allowed,
    /// It waits; its span is open.
    Pending,
    /// By a person: it runs.
    Approved,
    /// By the gate or by a person: it does not.
    Denied,
    /// There is nothing that could run.
    Unrunnable,
}

/// A call. Ended ones stay until the batch is closed, so that nothing is told twice.
pub(super) struct ToolSpan {
    /// None for one that waits and was not entered.
    scope: Option<Scope>,
    call: CallId,
    context: SpanContext,
    /// None once it is ended.
    span: Option<Span>,
    /// It was dropped, and what dropped it is not known yet.
    dropped: Option<(SystemTime, Fault)>,
    /// The agents it started.
    targets: Vec<String>,
    /// How many of them are not over yet.
    running: usize,
    /// When the last of them was.
    last_over: Option<SystemTime>,
}

impl ToolSpan {
    fn new(scope: Option<Scope>, call: &CallId, span: Span) -> Self {
        Self {
            scope,
            call: call.clone(),
            context: span.span_context().clone(),
            span: Some(span),
            dropped: None,
            targets: Vec::new(),
            running: 0,
            last_over: None,
        }
    }

    /// What the call handed on, and whether it waited for it.
    fn transfer(&self) -> Vec<KeyValue> {
        let target = match self.targets.as_slice() {
            [] => return Vec::new(),
            [one] => KeyValue::new(names::TRANSFER_TARGET, one.clone()),
            several => strings(names::TRANSFER_TARGET, several.to_vec()),
        };
        let waits = self.running == 0 || self.dropped.is_some();
        let mode = if waits { "return_to_caller" } else { "pass_control" };
        vec![target, KeyValue::new(names::TRANSFER_MODE, mode)]
    }
}

impl Leg {
    /// The gate has decided. What waits is visible from now on, and no failure.
    pub(crate) fn batch_begins(&self, ctx: &TurnContext, calls: &[DecidedCall]) {
        let Some(root) = self.open_root(ctx) else { return };
        for DecidedCall { call, decision } in calls {
            let gated = match decision {
                ToolDecision::Allowed => Gated::Allowed,
                ToolDecision::Denied(_) => Gated::Denied,
                ToolDecision::Pending(_) => Gated::Pending,
                ToolDecision::Unrunnable(_) => Gated::Unrunnable,
            };
            self.spans.lock().batch.insert(call.id.clone(), gated);
            if gated == Gated::Pending {
                let mut attributes = called(&call.name, Some(&call.id));
                attributes.push(state("pending"));
                let span = self.start(tool_name(&call.name), &root, self.now(), attributes, Vec::new());
                let tool = ToolSpan::new(None, &call.id, span);
                Kept::keep_call(ctx, &call.id, &tool.context);
                self.spans.lock().tools.push(tool);
            }
        }
    }

    /// People have decided: a span of no length each, and what becomes of the calls.
    pub(crate) fn decided(&self, ctx: &TurnContext, transaction: &ApprovalTransaction) {
        let Some(root) = self.open_root(ctx) else { return };
        for request in &transaction.requests {
            let Some(decision) = transaction.decision(&request.call.id) else { continue };
            let (word, gated) = match &decision.verdict {
                Verdict::Allow { edit: None } => ("allowed", Gated::Approved),
                Verdict::Allow { edit: Some(_) } => ("edited", Gated::Approved),
                Verdict::Deny { .. } => ("denied", Gated::Denied),
                Verdict::Answer { .. } => ("answered", Gated::Approved),
            };
            let (now, tool) = (self.now(), &request.call.name);
            let attributes = vec![
                KeyValue::new(names::TOOL, tool.clone()),
                KeyValue::new(names::TOOL_CALL, request.call.id.as_str().to_owned()),
                KeyValue::new(names::APPROVAL, transaction.id.to_string()),
                KeyValue::new(names::APPROVAL_DECISION, word),
                KeyValue::new(names::APPROVAL_ACTOR, self.shared.short(&decision.actor)),
            ];
            let name = (format!("approval {tool}"), SpanKind::Internal);
            end_all([(self.start(name, &root, now, attributes, Vec::new()), now)]);
            self.spans.lock().batch.insert(request.call.id.clone(), gated);
        }
    }

    /// A tool is entered. Says whether the call has a span.
    pub(crate) fn tool_begins(&self, ctx: &TurnContext, scope: CallScope, call: &ToolCall) -> bool {
        let Some(root) = self.open_root(ctx) else { return false };
        let (outer, gated) = {
            let spans = self.spans.lock();
            if spans.tools.iter().any(|tool| tool.scope == Some(scope.id)) {
                return false;
            }
            let around = |tool: &&ToolSpan| tool.scope.is_some() && tool.scope == scope.parent;
            let outer = spans.tools.iter().find(around).map(|tool| tool.context.clone());
            (outer, spans.batch.get(&call.id).copied())
        };
        // Only a model's id is told, not one that was made for a call of a call.
        let mut attributes = called(&call.name, outer.is_none().then_some(&call.id));
        attributes.extend(self.shared.settings.content.arguments(&call.arguments, self.shared.redactor()));
        let mut links = Vec::new();
        if gated == Some(Gated::Approved) {
            attributes.push(state("approved"));
            links.extend(waited_as(ctx, &call.id));
        }
        let parent = outer.unwrap_or(root);
        let span = self.start(tool_name(&call.name), &parent, self.now(), attributes, links);
        let tool = ToolSpan::new(Some(scope.id), &call.id, span);
        let mut spans = self.spans.lock();
        spans.calls.insert(call.id.clone(), tool.context.clone());
        spans.tools.push(tool);
        true
    }

    /// A tool returned, or was left.
    pub(crate) fn tool_ends(
        &self,
        ctx: &TurnContext,
        scope: Scope,
        ended: &instrument::Ended<'_, ToolResult>,
    ) {
        use instrument::Ended::*;
        let now = self.now();
        let (mut span, context, call, transfer) = {
            let mut spans = self.spans.lock();
            let Some(tool) = spans.tools.iter_mut().find(|tool| tool.scope == Some(scope)) else { return };
            if let Cancelled(cause) = ended {
                // Whether it was a time limit is told by the result; and agents that it started end after it.
                tool.dropped = Some((now, Fault::of_cause(cause.as_ref())));
                return;
            }
            let transfer = tool.transfer();
            let Some(span) = tool.span.take() else { return };
            (span, tool.context.clone(), tool.call.clone(), transfer)
        };
        span.set_attributes(transfer);
        match ended {
            Done(result) => match (result.synthetic, &result.error) {
                (Some(Synthetic::Pending), _) => {
                    span.set_attribute(state("pending"));
                    Kept::keep_call(ctx, &call, &context);
                }
                (Some(Synthetic::Interrupted), _) => {
                    span.set_attribute(KeyValue::new(names::TOOL_STOPPED, true));
                }
                (_, Some(error)) => self.mark(&mut span, &Fault::of_kind(error.kind)),
                (_, None) => {
                    let content = &self.shared.settings.content;
                    span.set_attributes(content.result(&result.content, self.shared.redactor()));
                }
            },
            Failed(error) => self.mark(&mut span, &Fault::of_kind(error.kind)),
            Left(control) => self.mark(&mut span, &Fault::of_kind(control.info().kind)),
            Panicked => self.mark(&mut span, &Fault::of_kind(ErrorKind::Panic)),
            _ => self.mark(&mut span, &Fault::Error(names::OTHER.into())),
        }
        end_all([(span, now)]);
    }

    /// Every call of the batch has a result: what dropped a tool is known now, and calls that no tool was entered for are
    /// told.
    pub(crate) fn batch_ends(&self, ctx: &TurnContext, results: &[ToolResult]) {
        let Some(root) = self.open_root(ctx) else { return };
        let now = self.now();
        let (mut ended, mut untold) = (Vec::new(), Vec::new());
        {
            let mut spans = self.spans.lock();
            let batch = std::mem::take(&mut spans.batch);
            for result in results {
                match spans.tools.iter_mut().find(|tool| tool.call == *result.call_id()) {
                    Some(tool) => {
                        let limit =
                            result.error.as_ref().filter(|error| error.kind == ErrorKind::ToolTimeout);
                        if let (Some((_, fault)), Some(error)) = (&mut tool.dropped, limit) {
                            *fault = Fault::of_kind(error.kind);
                        }
                    }
                    None => untold.extend(batch.get(result.call_id()).map(|gated| (result, *gated))),
                }
            }
            for tool in std::mem::take(&mut spans.tools) {
                // Those with agents that still run wait for them, and at most for the leg's end.
                if tool.span.is_some() && tool.running > 0 {
                    spans.tools.push(tool);
                } else {
                    ended.extend(self.close_tool(tool, now));
                }
            }
        }
        end_all(ended);
        for (result, gated) in untold {
            self.never_entered(&root, result, gated);
        }
    }

    /// A call that was refused, could not run, or was answered by a layer: a span of no length. One that its turn's end
    /// overtook was none.
    fn never_entered(&self, root: &SpanContext, result: &ToolResult, gated: Gated) {
        let now = self.now();
        let is_unknown = result.error.as_ref().is_some_and(|error| error.kind == ErrorKind::UnknownTool);
        // The name of a tool that is not there is the model's own word.
        let name = if is_unknown { names::OTHER } else { result.tool() };
        let mut attributes = called(name, Some(result.call_id()));
        let mut fault = result.error.as_ref().map(|error| Fault::of_kind(error.kind));
        match (gated, result.synthetic) {
            (Gated::Denied, _) | (_, Some(Synthetic::Denied)) => {
                attributes.push(state("denied"));
                fault = None;
            }
            (_, None) => attributes.push(KeyValue::new(names::SHORT_CIRCUITED, true)),
            (_, Some(Synthetic::Unrunnable)) => {}
            _ => return,
        }
        let mut span = self.start(tool_name(name), root, now, attributes, Vec::new());
        if let Some(fault) = fault {
            self.mark(&mut span, &fault);
        }
        end_all([(span, now)]);
    }

    /// Ends what is open of a call. One that was not told to have ended waits, or was dropped.
    pub(super) fn close_tool(&self, mut tool: ToolSpan, now: SystemTime) -> Option<Ended> {
        let mut span = tool.span.take()?;
        span.set_attributes(tool.transfer());
        let at = match (tool.dropped.take(), tool.scope) {
            (Some((at, fault)), _) => {
                self.mark(&mut span, &fault);
                // An agent that it started ended after it.
                tool.last_over.map_or(at, |last| last.max(at))
            }
            (None, Some(_)) => {
                self.mark(&mut span, &Fault::Cancelled);
                now
            }
            (None, None) => now,
        };
        Some((span, at))
    }

    /// A call starts an agent: gives the span of the call.
    pub(super) fn agent_begins(&self, call: &CallId, agent: &str) -> Option<SpanContext> {
        let mut spans = self.spans.lock();
        if let Some(tool) = spans.tools.iter_mut().rfind(|tool| tool.call == *call) {
            if tool.span.is_some() {
                tool.targets.push(agent.to_owned());
            }
            tool.running += 1;
        }
        spans.calls.get(call).cloned()
    }

    /// An agent that a call started is over: a call that was dropped meanwhile ends with it.
    pub(super) fn agent_over(&self, call: &CallId, at: SystemTime) {
        let ended = {
            let mut spans = self.spans.lock();
            let Some(n) = spans.tools.iter().rposition(|tool| tool.call == *call && tool.running > 0) else {
                return;
            };
            // Until the batch is closed it is not known what dropped it.
            let is_closed = spans.batch.is_empty();
            let tool = &mut spans.tools[n];
            tool.running -= 1;
            tool.last_over = tool.last_over.max(Some(at));
            let is_last = tool.running == 0 && tool.dropped.is_some() && is_closed;
            if is_last { self.close_tool(spans.tools.remove(n), at) } else { None }
        };
        end_all(ended);
    }

    /// The span that code runs in: of the tool call, else the leg's.
    pub(crate) fn span_in(&self, scope: Option<Scope>) -> Option<SpanContext> {
        let spans = self.spans.lock();
        let tool = scope.and_then(|scope| spans.tools.iter().find(|tool| tool.scope == Some(scope)));
        tool.map(|tool| tool.context.clone()).or_else(|| spans.root_context.clone())
    }
}

/// The span of the same call in a leg before.
fn waited_as(ctx: &TurnContext, call: &CallId) -> Option<Link> {
    let waited = Kept::of_leg_before(ctx)?.calls.get(call)?.span()?;
    Some(Link::new(waited, vec![KeyValue::new(names::LINK_REASON, "resume")], 0))
}

fn tool_name(tool: &str) -> (String, SpanKind) {
    let name =
        if tool == names::OTHER { names::OP_TOOL.into() } else { format!("{} {tool}", names::OP_TOOL) };
    (name, SpanKind::Internal)
}

fn called(tool: &str, call: Option<&CallId>) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(names::OPERATION, names::OP_TOOL),
        KeyValue::new(names::TOOL, tool.to_owned()),
        KeyValue::new(names::TOOL_TYPE, "function"),
    ];
    attributes.extend(call.map(|call| KeyValue::new(names::TOOL_CALL, call.as_str().to_owned())));
    attributes
}

fn state(word: &'static str) -> KeyValue {
    KeyValue::new(names::APPROVAL_STATE, word)
}
