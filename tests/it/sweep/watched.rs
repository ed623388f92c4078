//! What observers and instrumentation saw of a cut leg.

use std::{collections::HashMap, sync::Arc};

use opentelemetry::trace::Status;
use parking_lot::Mutex;
use turnwright_core::{LegOutcome, Outcome, Part, ToolCall, ToolResult};
use turnwright_hook::instrument::{Call, CallScope, Ended, Instrumentation};
use turnwright_llm_stream::{LlmRequest, LlmResponse};
use turnwright_react_runtime::{Agent, Record, RecordKind, TurnEventKind};
use turnwright_trace_spans::names;

use crate::traces::spans::{drawn, int, text};

use super::{cut::Mode, leg::Report, oracle::Cut, promises::ensure};

/// One callback.
#[derive(Debug, Clone, Copy)]
pub(super) enum Callback {
    Before(&'static str, CallScope),
    After(&'static str, CallScope, &'static str),
}

/// What was seen of a leg.
#[derive(Default, Clone)]
pub(super) struct Watched {
    callbacks: Arc<Mutex<Vec<Callback>>>,
    records: Arc<Mutex<Vec<Arc<Record>>>>,
}

impl Watched {
    pub(super) fn of(agent: &Agent) -> Self {
        let watched = Self::default();
        agent.instruments().register(watched.clone());
        let records = watched.records.clone();
        agent.observers().on_all(move |record: &Arc<Record>| records.lock().push(record.clone()));
        watched
    }

    pub(super) fn callbacks(&self) -> Vec<Callback> {
        self.callbacks.lock().clone()
    }

    pub(super) fn records(&self) -> Vec<Arc<Record>> {
        self.records.lock().clone()
    }

    fn before(&self, kind: &'static str, call: &Call<'_>) -> Option<CallScope> {
        self.callbacks.lock().push(Callback::Before(kind, call.scope));
        Some(call.scope)
    }

    fn after<T>(
        &self,
        kind: &'static str,
        call: &Call<'_>,
        ended: &Ended<'_, T>,
        context: Option<CallScope>,
    ) {
        let how = if context == Some(call.scope) { ended.word() } else { "another's" };
        self.callbacks.lock().push(Callback::After(kind, call.scope, how));
    }
}

impl Instrumentation for Watched {
    type Context = CallScope;
    fn before_agent_run(&self, call: &Call<'_>, _: &[Part]) -> Option<CallScope> {
        self.before("run", call)
    }
    fn after_agent_run(&self, call: &Call<'_>, ended: Ended<'_, LegOutcome>, context: Option<CallScope>) {
        self.after("run", call, &ended, context);
    }
    fn before_model_call(&self, call: &Call<'_>, _: &LlmRequest) -> Option<CallScope> {
        self.before("model", call)
    }
    fn after_model_call(
        &self,
        call: &Call<'_>,
        _: &LlmRequest,
        ended: Ended<'_, LlmResponse>,
        context: Option<CallScope>,
    ) {
        self.after("model", call, &ended, context);
    }
    fn before_tool_call(&self, call: &Call<'_>, _: &ToolCall) -> Option<CallScope> {
        self.before("tool", call)
    }
    fn after_tool_call(
        &self,
        call: &Call<'_>,
        _: &ToolCall,
        ended: Ended<'_, ToolResult>,
        context: Option<CallScope>,
    ) {
        self.after("tool", call, &ended, context);
    }
}

/// Each before has its one after, with its own context, inside of the call it is a part of.
pub(super) fn callbacks(_: &Cut<'_>, report: &Report) -> Result<(), String> {
    let mut open = HashMap::new();
    for callback in &report.callbacks {
        let wrong = || format!("{callback:?} of {:?}", report.callbacks);
        match callback {
            Callback::Before(kind, scope) => {
                let is_inside = scope.parent.is_none_or(|parent| open.contains_key(&parent));
                ensure(is_inside && (scope.parent.is_none() == (*kind == "run")), wrong)?;
                ensure(open.insert(scope.id, *kind).is_none(), wrong)?;
            }
            Callback::After(kind, scope, how) => {
                ensure(open.remove(&scope.id) == Some(*kind) && *how != "another's", wrong)?;
            }
        }
    }
    ensure(open.is_empty(), || format!("no end of {open:?}"))
}

/// Observers are told of each event and message once, in order, of a model call's end for each of its starts, and of the end
/// last; all of it stored, unless nothing could be.
pub(super) fn records(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    let all = &report.records;
    let gap = all.iter().zip(1..).find(|(record, seq)| record.seq != *seq);
    ensure(gap.is_none(), || format!("a gap before {gap:?}"))?;
    let events: Vec<_> = all.iter().filter_map(|record| event(record)).collect();
    let is_last = |kind: &TurnEventKind| matches!(kind, TurnEventKind::TurnFinished(_));
    let ends = events.iter().filter(|kind| is_last(kind)).count();
    ensure(ends == 1 && all.last().and_then(|r| event(r)).is_some_and(is_last), || format!("{ends} ends"))?;
    // A dropped handle has nobody to see the events.
    if cut.mode != Mode::DropHandle {
        let shown: Vec<_> = report.kinds.iter().filter(|kind| is_recorded(kind)).collect();
        ensure(events == shown, || format!("told {events:#?}"))?;
    }
    let (mut in_call, mut calls) = (false, true);
    for record in all {
        match record.kind {
            RecordKind::ModelCallStarted { .. } => (calls, in_call) = (calls && !in_call, true),
            RecordKind::ModelCallFinished { .. } => (calls, in_call) = (calls && in_call, false),
            _ => {}
        }
    }
    ensure(calls && !in_call, || format!("model calls have no ends: {all:#?}"))?;
    let before = cut.earlier.last().map_or(0, |report| report.messages.len());
    let said: Vec<_> = all.iter().filter_map(|record| message(record)).collect();
    let kept: Vec<_> = report.messages[before..].iter().map(|message| message.id).collect();
    ensure(said == kept, || format!("messages {said:?} of {kept:?}"))?;
    // What becomes of commands that the end leaves over is known when the lease is given back already.
    let is_leftover = |record: &Record| matches!(event(record), Some(TurnEventKind::Command { .. }));
    let unstored = all.iter().find(|record| !record.stored && !is_leftover(record));
    ensure(cut.mode == Mode::RuntimeDrop || unstored.is_none(), || format!("not stored: {unstored:?}"))
}

/// Each span that was opened is ended, inside of its parent; there is one root, it says how the leg ended, and what all model calls
/// of the turn used is what the turn used.
pub(super) fn spans(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    report.spans_checked.clone()?;
    let wrong = |what: &str| format!("{what}: {}", drawn(&report.spans));
    let roots: Vec<_> = report.spans.iter().filter(|span| span.name == "invoke_agent sweep").collect();
    // A leg that was cut before its first point has none.
    ensure(roots.len() == usize::from(!report.spans.is_empty()), || wrong("one root"))?;
    if let (Some(root), Some(finished)) = (roots.first(), report.finished()) {
        let outcome = serde_json::to_value(finished.outcome).unwrap();
        ensure(text(root, names::OUTCOME) == outcome, || wrong("the outcome"))?;
        let is_error = matches!(root.status, Status::Error { .. });
        let may_be = finished.outcome.is_terminal() && finished.outcome != Outcome::Completed;
        ensure(is_error == may_be, || wrong("the status"))?;
    }
    let all = cut.earlier.iter().flat_map(|report| &report.spans).chain(&report.spans);
    let used: i64 = all.map(|span| int(span, names::INPUT_TOKENS)).sum();
    let total = report.finished().and_then(|finished| finished.usage.input_tokens);
    // A dropped handle has nobody to see the total; of a runtime that went away no point says what a cut call used.
    let is_known = cut.mode != Mode::RuntimeDrop;
    let total_is = |total: i64| used == total || (!is_known && used < total);
    ensure(total.and_then(|total| i64::try_from(total).ok()).is_none_or(total_is), || {
        wrong(&format!("{used} of {total:?} tokens"))
    })
}

fn event(record: &Record) -> Option<&TurnEventKind> {
    match &record.kind {
        RecordKind::Event(event) => Some(event),
        _ => None,
    }
}

fn message(record: &Record) -> Option<turnwright_core::MessageId> {
    match &record.kind {
        RecordKind::Message(message) => Some(message.id),
        _ => None,
    }
}

fn is_recorded(kind: &TurnEventKind) -> bool {
    use TurnEventKind::*;
    !matches!(
        kind,
        TextDelta { .. } | ReasoningDelta { .. } | ToolArgsDelta { .. } | ToolProgress { .. } | Lagged { .. }
    )
}
