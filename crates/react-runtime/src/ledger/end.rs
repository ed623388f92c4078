//! How a leg ends: the history made legal, the result, the last event.

use std::sync::Arc;

use turnwright_core::{
    AgentResult, CancelKind, ErrorInfo, ErrorKind, LegOutcome, Message, Part, Role, StopReason,
};

use super::{calls::interrupted_result, leg::Leg};
use crate::{
    event::{TurnEventKind, TurnFinished},
    machine::Stop,
    store::RecordedEvent,
};

impl Leg {
    /// Makes the history legal, whatever happened: the partial answer is kept, open calls are answered.
    pub(crate) fn seal(&mut self) {
        self.record_input();
        let reason = interrupt_reason(self.machine.stop_reason());
        if let Some(stream) = self.stream.take() {
            let mut response = self.keep_shown(stream, reason);
            response.error = self.machine.stop_reason().and_then(|s| s.error.clone()).or(response.error);
            self.response = Some(Arc::new(response));
        }
        let why = self.machine.stop_reason().map(cut_call);
        self.record_model_end(why.as_ref());
        if let Some(batch) = &mut self.batch {
            let mut answered = Vec::new();
            for entry in batch.calls.iter_mut().filter(|e| e.result.is_none()) {
                let result = interrupted_result(entry);
                answered.push(result.clone());
                entry.result = Some(result);
            }
            for result in answered {
                self.emit(TurnEventKind::ToolResult(result));
            }
        }
        self.close_batch();
        self.flush_deferred();
        if let Some(transaction) = &mut self.transaction {
            transaction.seal();
        }
        if let Some(words) = self.machine.stop_reason().and_then(|s| s.user_content.clone())
            && self.machine.was_cut()
            && self.result.is_none()
        {
            self.tell_user(words);
        }
    }

    /// Shows the user words that are not the model's: they are history too. Once a turn.
    pub(crate) fn tell_user(&mut self, words: String) {
        if !std::mem::replace(&mut self.told, true) {
            self.emit(TurnEventKind::TextDelta { text: words.clone() });
            self.push_parts(vec![Part::text(words)], None);
        }
    }

    /// What the turn, as far as it went, comes to.
    pub(crate) fn attempt_result(&self) -> AgentResult {
        let stop = self.machine.stop_reason().cloned().unwrap_or_else(|| Stop::reason(StopReason::Completed));
        let mut result = AgentResult::new(self.visible_text(stop.reason), stop.reason);
        result.error = stop.error;
        result.cancelled_by = stop.cancelled_by;
        result.streamed.clone_from(&self.streamed);
        if let Some(words) = stop.user_content {
            result.replace_content(words);
        }
        self.fill(&mut result);
        result
    }

    /// Figures that only the ledger knows.
    pub(crate) fn fill(&self, result: &mut AgentResult) {
        result.usage = self.usage;
        result.iterations = self.machine.iterations();
        result.attempts = self.machine.attempt();
    }

    /// The final answer is the last response's own; a turn that was cut or stopped shows its last words.
    pub(crate) fn visible_text(&self, reason: StopReason) -> String {
        let turn = self.messages.get(self.turn_start..).unwrap_or_default();
        let mut answers = turn.iter().rev().filter(|m| m.role == Role::Assistant);
        if reason == StopReason::Completed {
            return answers.next().map(|m| m.text()).unwrap_or_default();
        }
        answers.map(|m| m.text()).find(|t| !t.trim().is_empty()).unwrap_or_default()
    }

    /// Nothing more is taken from now on; these are the messages.
    pub(crate) fn close(&mut self) -> Vec<Arc<Message>> {
        self.closed = true;
        self.messages.clone()
    }

    /// The leg's last event. After it nothing can follow.
    pub(crate) fn finish(&mut self, outcome: &LegOutcome) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let finished = self.finished(outcome);
        self.emit(finished);
    }

    pub(super) fn finished(&self, outcome: &LegOutcome) -> TurnEventKind {
        let content = self.visible_text(StopReason::Cancelled);
        let mut finished = TurnFinished::of(outcome, content, self.usage, self.machine.iterations());
        finished.returned.clone_from(&self.returned);
        finished.queued.clone_from(&self.queued);
        TurnEventKind::TurnFinished(Box::new(finished))
    }

    /// Notes the end of the turn among the events, once: it is stored together with what ends it.
    pub(crate) fn note_end(&mut self, outcome: &LegOutcome) {
        let finished = self.finished(outcome);
        let now = self.now;
        if let Some(unsaved) = &mut self.unsaved
            && unsaved.take_end()
        {
            unsaved.note(now, &finished, None);
        }
    }

    /// The events that are not stored, with the end of the leg, and how much waits with them.
    pub(crate) fn last_events(&mut self, outcome: &LegOutcome) -> (Vec<RecordedEvent>, usize) {
        self.note_end(outcome);
        self.unsaved_events()
    }
}

/// Why a model call that was under way has no answer.
fn cut_call(stop: &Stop) -> ErrorInfo {
    let kind = || stop.reason.error_kind().unwrap_or(ErrorKind::Cancelled);
    stop.error.clone().unwrap_or_else(|| ErrorInfo::new(kind(), "the turn ended while the model was asked"))
}

fn interrupt_reason(stop: Option<&Stop>) -> &'static str {
    let Some(stop) = stop else { return "cancelled" };
    match stop.reason {
        StopReason::Cancelled => match stop.cancelled_by.as_ref().map(|cause| cause.kind) {
            Some(CancelKind::Requested) => "user_stop",
            _ => "cancelled",
        },
        StopReason::Timeout => "timeout",
        StopReason::PolicyViolation => "policy",
        StopReason::LoopDetected => "loop_detected",
        StopReason::Error => "error",
        _ => "cancelled",
    }
}
