//! The calls of an answer and their results.

use std::sync::Arc;

use turnwright_core::{
    ApprovalRequest, CallId, ErrorInfo, ErrorKind, Message, Synthetic, Timestamp, ToolCall, ToolResult, Wants,
};
use turnwright_hook::ToolDecision;
use turnwright_interceptor::builtin::ToolResultLimit;

use super::leg::Leg;
use crate::{event::TurnEventKind, snapshot::BatchCall};

impl Leg {
    pub(crate) fn batch_call(&mut self, id: &CallId) -> Option<&mut BatchCall> {
        self.batch.as_mut()?.calls.iter_mut().find(|c| c.call.id == *id)
    }

    /// What the tool of a call came to in a process that went away. Once: a layer that calls again runs it.
    pub(crate) fn take_recovered(&mut self, id: &CallId) -> Option<ToolResult> {
        self.batch_call(id)?.recovered.take()
    }

    /// The arguments a call is entered with, where they are not those the model asked for.
    pub(crate) fn ran_with(&self, call: &ToolCall) -> Option<String> {
        let entry = self.batch.as_ref()?.calls.iter().find(|entry| entry.call.id == call.id)?;
        (call.arguments != entry.call.arguments).then(|| call.arguments.clone())
    }

    /// Commits a result and shows it. A late one is refused.
    pub(crate) fn tool_done(&mut self, id: &CallId, mut result: ToolResult) -> bool {
        match self.batch_call(id) {
            Some(entry) if entry.result.is_none() => {
                // What ran is the ledger's to say: a layer may have made a result of its own.
                result.ran_with.clone_from(&entry.ran_with);
                entry.result = Some(result.clone());
            }
            _ => return false,
        }
        self.emit(TurnEventKind::ToolResult(result));
        true
    }

    pub(crate) fn tool_progress(&mut self, id: &CallId, text: String) -> bool {
        let open = self.batch_call(id).is_some_and(|entry| entry.result.is_none());
        if open {
            self.emit(TurnEventKind::ToolProgress { id: id.clone(), text });
        }
        open
    }

    /// A layer rewrote a call, and the gate asks about the rewrite: nothing ran, and this is what is asked.
    pub(crate) fn tool_asks(&mut self, call: ToolCall, reason: String, expires_at: Option<Timestamp>) {
        if let Some(entry) = self.batch_call(&call.id.clone()) {
            entry.decision = Some(ToolDecision::Pending(reason));
            entry.expires_at = expires_at;
            entry.allowed = None;
            entry.rewritten = Some(call);
        }
    }

    /// One call of a batch that stands or falls together was denied: none of the others runs.
    pub(crate) fn preempt(&mut self, limit: &ToolResultLimit) {
        let open = self.batch.iter().flat_map(|b| &b.calls).filter(|c| c.result.is_none());
        let answers: Vec<_> =
            open.map(|c| (c.call.id.clone(), known_or(c, |c| preempted(&c.call)))).collect();
        for (id, result) in answers {
            self.tool_done(&id, limit.limited(result));
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.seal();
        }
    }

    /// A tool waits for somebody outside.
    pub(crate) fn tool_waits(&mut self, id: &CallId, wants: Wants) {
        if let Some(entry) = self.batch_call(id) {
            entry.waits = Some(wants);
            // How long somebody had to approve of the call says nothing about this.
            entry.expires_at = None;
        }
    }

    /// An agent that a call started asks. What was decided before is used up.
    pub(crate) fn tool_forwards(&mut self, id: &CallId, requests: Vec<ApprovalRequest>) {
        if let Some(entry) = self.batch_call(id) {
            (entry.asks, entry.decided) = (requests, Vec::new());
        }
    }

    /// A call stopped with its turn, and is entered again when that goes on.
    pub(crate) fn tool_stopped(&mut self, id: &CallId) {
        if let Some(entry) = self.batch_call(id) {
            entry.stopped = true;
        }
    }

    /// Whether calls stopped with their turn. Asked once.
    pub(crate) fn take_stopped(&mut self) -> bool {
        let calls = self.batch.iter_mut().flat_map(|batch| &mut batch.calls);
        calls.fold(false, |any, entry| std::mem::take(&mut entry.stopped) | any)
    }

    /// A call of the batch failed, and the batch ends with the first failure: every call that is open is answered.
    pub(crate) fn siblings_failed(&mut self) {
        let open: Vec<_> = self.batch.iter().flat_map(|b| &b.calls).filter(|c| c.result.is_none()).collect();
        let answers: Vec<_> =
            open.into_iter().map(|c| (c.call.id.clone(), known_or(c, sibling_failed))).collect();
        for (id, result) in answers {
            self.tool_done(&id, result);
        }
        // Questions that were open have their answer: a turn at rest must not ask them again.
        if let Some(transaction) = &mut self.transaction {
            transaction.seal();
        }
    }

    /// Every call has a result: they become history, in model order.
    pub(crate) fn close_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let mut results = Vec::with_capacity(batch.calls.len());
        for mut entry in batch.calls {
            let result = entry.result.take().unwrap_or_else(|| interrupted_result(&entry));
            let id = self.id();
            self.push(Message::tool(id, result.clone()));
            results.push(result);
        }
        self.results = results.into();
        self.flush_deferred();
        // Each question has its answer, if only that it expired: a turn at rest must not ask it again.
        if let Some(transaction) = &mut self.transaction {
            transaction.seal();
        }
    }

    pub(crate) fn results(&self) -> Arc<[ToolResult]> {
        self.results.clone()
    }
}

/// What a call is answered with that is not run any more: what is known of it already, or this.
fn known_or(entry: &BatchCall, other: impl FnOnce(&BatchCall) -> ToolResult) -> ToolResult {
    entry.recovered.clone().unwrap_or_else(|| other(entry))
}

pub(super) fn interrupted_result(entry: &BatchCall) -> ToolResult {
    known_or(entry, interrupted)
}

fn interrupted(entry: &BatchCall) -> ToolResult {
    let message = match entry.entered {
        true => "not finished: the turn was interrupted. It may have had effects",
        false => "not run: the turn was interrupted before it could",
    };
    let error = ErrorInfo::new(ErrorKind::NotRun, message);
    let mut result = ToolResult::synthetic(&entry.call, Synthetic::Interrupted, error);
    result.ran_with.clone_from(&entry.ran_with);
    result
}

fn preempted(call: &ToolCall) -> ToolResult {
    let message = "not run: another call of the same answer was denied, and they stand or fall together. The tool is not banned";
    ToolResult::synthetic(call, Synthetic::Denied, ErrorInfo::new(ErrorKind::Denied, message))
}

fn sibling_failed(entry: &BatchCall) -> ToolResult {
    let message = match entry.entered {
        true => "stopped: another call of the batch failed. It may have had effects",
        false => "not run: another call of the batch failed",
    };
    ToolResult::synthetic(&entry.call, Synthetic::SiblingFailed, ErrorInfo::new(ErrorKind::NotRun, message))
}
