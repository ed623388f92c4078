//! The ledger: what must survive the work being dropped.
//!
//! Text, calls and results are committed here in the same synchronous step that shows them, so that whatever was
//! visible is recorded. Commits are short, run no user code, and hold one lock; the reader is woken after it is gone.

mod leg;

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright_core::{CallId, History, HistoryError, HistorySnapshot, Message, Sources, history};
use turnwright_hook::{DispatchLog, HookFailure, HookPoint};

pub(crate) use leg::{Leg, LegParts};

use crate::{event::TurnEventKind, queue::EventQueue, tool::CallSink};

pub(crate) struct Ledger {
    leg: Mutex<Leg>,
    queue: Arc<EventQueue>,
    #[cfg(feature = "commit-probe")]
    probe: Option<crate::agent::CommitProbe>,
}

impl Ledger {
    pub(crate) fn new(parts: LegParts, queue: Arc<EventQueue>, sources: Sources) -> Self {
        Self {
            leg: Mutex::new(Leg::new(parts, queue.clone(), sources)),
            queue,
            #[cfg(feature = "commit-probe")]
            probe: None,
        }
    }

    #[cfg(feature = "commit-probe")]
    pub(crate) fn probed(mut self, probe: Option<crate::agent::CommitProbe>) -> Self {
        self.probe = probe;
        self
    }

    /// One commit.
    pub(crate) fn with<R>(&self, commit: impl FnOnce(&mut Leg) -> R) -> R {
        #[cfg(feature = "commit-probe")]
        if let Some(probe) = &self.probe {
            probe();
        }
        let out = commit(&mut self.leg.lock());
        self.queue.wake();
        out
    }
}

impl History for Ledger {
    fn append(&self, message: Message) -> Result<u64, HistoryError> {
        history::appendable(&message)?;
        self.with(|leg| leg.append(message))
    }

    fn snapshot(&self) -> HistorySnapshot {
        self.leg.lock().history()
    }

    fn revision(&self) -> u64 {
        self.leg.lock().revision()
    }
}

impl DispatchLog for Ledger {
    fn resume_at(&self, point: HookPoint) -> usize {
        self.with(|leg| leg.hook_to_resume(point))
    }

    fn begun(&self, point: HookPoint, index: usize) {
        self.with(|leg| leg.hook_begun(point, index));
    }

    fn failed(&self, failure: HookFailure) {
        self.with(|leg| leg.emit(TurnEventKind::HookFailed(failure)));
    }
}

impl CallSink for Ledger {
    fn progress(&self, call: &CallId, text: String) -> bool {
        self.with(|leg| leg.tool_progress(call, text))
    }
}
