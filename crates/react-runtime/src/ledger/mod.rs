//! The ledger: what must survive the work being dropped.
//!
//! Text, calls and results are committed here in the same synchronous step that shows them, so that whatever was
//! visible is recorded. Commits are short, run no user code, and hold one lock; the reader is woken after it is gone.

mod answer;
mod calls;
mod end;
mod leg;
mod records;
mod unsaved;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use turnwright_core::{
    CallId, CountUsage, History, HistoryError, HistorySnapshot, Message, MessageId, Origin, Sources,
    TokenUsage, TurnId, history,
};
use turnwright_hook::{DispatchLog, HookFailure, HookPoint};

pub(crate) use leg::{Leg, LegParts};
pub(crate) use records::RecordsOf;

use crate::{
    event::TurnEventKind,
    queue::EventQueue,
    record::RecordKind,
    store::{JournalRecord, RecordedEvent},
    tool::CallSink,
};

pub(crate) struct Ledger {
    leg: Mutex<Leg>,
    queue: Arc<EventQueue>,
    sources: Sources,
    /// How many ids the next commits may need.
    ids_wanted: AtomicUsize,
    /// Wakes whoever stores what is shown.
    shown: Notify,
    #[cfg(feature = "commit-probe")]
    probe: Option<crate::agent::CommitProbe>,
}

impl Ledger {
    pub(crate) fn new(parts: LegParts, whose: RecordsOf, queue: Arc<EventQueue>, sources: Sources) -> Self {
        Self {
            leg: Mutex::new(Leg::new(parts, whose, queue.clone(), sources.clone())),
            queue,
            sources,
            ids_wanted: AtomicUsize::new(Leg::SPARE_IDS),
            shown: Notify::new(),
            #[cfg(feature = "commit-probe")]
            probe: None,
        }
    }

    #[cfg(feature = "commit-probe")]
    pub(crate) fn probed(mut self, probe: Option<crate::agent::CommitProbe>) -> Self {
        self.probe = probe;
        self
    }

    /// The same for a turn whose session is stored: what is shown and not stored is known.
    pub(crate) fn stored(mut self, turn: TurnId) -> Self {
        self.leg.get_mut().unsaved = Some(unsaved::Unsaved::of(turn));
        self
    }

    /// The same for a turn with a budget: what model calls use is known until it is charged.
    pub(crate) fn charged(mut self) -> Self {
        self.leg.get_mut().uncharged = Some(Vec::new());
        self
    }

    /// Waits until something was shown that is not stored, or much of it.
    pub(crate) async fn something_shown(&self) {
        self.shown.notified().await;
    }

    /// One commit. The time and the ids it may need are drawn before the lock is taken: their sources are the embedder's. What
    /// it recorded observers are told after it, unless it has to be stored first.
    pub(crate) fn with<R>(&self, commit: impl FnOnce(&mut Leg) -> R) -> R {
        let (out, is_news) = self.commit(commit);
        if is_news {
            self.tell();
        }
        out
    }

    /// The same by somebody who holds a lock: what it recorded is told with [`Ledger::tell`].
    pub(crate) fn with_quietly<R>(&self, commit: impl FnOnce(&mut Leg) -> R) -> R {
        self.commit(commit).0
    }

    /// Says whether there is something new to tell observers of.
    fn commit<R>(&self, commit: impl FnOnce(&mut Leg) -> R) -> (R, bool) {
        #[cfg(feature = "commit-probe")]
        if let Some(probe) = &self.probe {
            probe();
        }
        let now = self.sources.clock.now();
        let wanted = self.ids_wanted.swap(0, Relaxed);
        let ids: Vec<MessageId> = (0..wanted).map(|_| self.sources.id()).collect();
        let (out, is_news, call) = {
            let mut leg = self.leg.lock();
            leg.prepare(now, ids);
            let before = leg.records.waiting();
            let out = commit(&mut leg);
            self.ids_wanted.store(leg.ids_wanted(), Relaxed);
            (
                out,
                leg.records.waiting() > before,
                leg.unsaved.as_mut().is_some_and(unsaved::Unsaved::take_call),
            )
        };
        self.queue.wake();
        if call {
            self.shown.notify_one();
        }
        (out, is_news)
    }

    /// A look that changes nothing.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Leg) -> R) -> R {
        look(&self.leg.lock())
    }
}

/// What is shown and not stored.
impl Leg {
    pub(crate) fn is_much_shown(&self) -> bool {
        self.unsaved.as_ref().is_some_and(unsaved::Unsaved::is_much)
    }

    /// What is shown and not stored, and a mark of when it was taken.
    pub(crate) fn take_shown(&mut self) -> (Vec<JournalRecord>, u64) {
        self.unsaved.as_mut().map(|unsaved| (unsaved.take_shown(), unsaved.changes())).unwrap_or_default()
    }

    pub(crate) fn put_back_shown(&mut self, (shown, taken_at): (Vec<JournalRecord>, u64)) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.put_back(shown, taken_at);
        }
    }

    /// The events that wait to be stored, and how much waits with them.
    pub(crate) fn unsaved_events(&self) -> (Vec<RecordedEvent>, usize) {
        self.unsaved.as_ref().map(|unsaved| (unsaved.events(), unsaved.len())).unwrap_or_default()
    }

    /// The history of this revision is stored, and so many of what waits.
    pub(crate) fn stored(&mut self, revision: u64, how_many: usize) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.stored(revision, how_many);
        }
        self.tell_waiting(how_many, |_| true);
    }

    /// The last events of the leg are stored, so many of what waits; not the messages that wait with them.
    pub(crate) fn last_stored(&mut self, how_many: usize) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.note_stored(how_many);
        }
        self.tell_waiting(how_many, |kind| !matches!(kind, RecordKind::Message(_)));
    }

    /// Whether the history as it is was stored in this leg.
    pub(crate) fn is_stored(&self) -> bool {
        self.unsaved.as_ref().is_some_and(|unsaved| unsaved.is_stored(self.revision))
    }
}

impl History for Ledger {
    fn append(&self, message: Message) -> Result<u64, HistoryError> {
        history::appendable(&message)?;
        self.with(|leg| leg.append(message))
    }

    fn collapse(&self, through: MessageId, summary: Message, revision: u64) -> Result<u64, HistoryError> {
        history::appendable(&summary)?;
        // What is before `through` never changes: looked at without the lock of the commit.
        let now = self.read(Leg::history);
        if now.revision != revision {
            return Err(HistoryError::Changed { expected: revision, found: now.revision });
        }
        history::collapsible(&now.messages, through)?;
        self.with(|leg| leg.collapse(summary.origin(Origin::Summary { through }), revision))
    }

    fn snapshot(&self) -> HistorySnapshot {
        self.read(Leg::history)
    }

    fn revision(&self) -> u64 {
        self.read(Leg::revision)
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

impl CountUsage for Ledger {
    fn count_usage(&self, usage: TokenUsage, purpose: &str) {
        self.with(|leg| {
            if !leg.closed {
                leg.count_charged(usage, Some(purpose));
            }
        });
    }
}
