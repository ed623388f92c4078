//! Writing a session to its store.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use turnwright_core::{CommandId, Message, panic::panic_text};

use super::SessionInner;
use crate::{
    approval::Rule,
    snapshot::TurnSnapshot,
    store::{
        CommitId, Fence, JournalAppend, JournalRecord, LeaseChange, RecordedEvent, SessionCommit,
        SessionStore, StoreError, StoredSession,
    },
};

/// How long a store may take over one change.
pub const SAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// What is known of the session in the store.
#[derive(Clone, Default)]
pub(super) struct Stored {
    /// How many of the messages it holds.
    messages: usize,
    rules: Vec<Rule>,
    pub(super) revision: u64,
    /// How many records its journal had when it was read; none since this process wrote it, which empties the journal.
    pub(super) journal: Option<usize>,
    /// The lease of the leg that runs.
    fence: Option<Fence>,
    /// Changes whose outcome is not known, since nobody waited for them.
    in_flight: Vec<InFlight>,
}

#[derive(Clone)]
struct InFlight {
    id: CommitId,
    /// How many events are in it.
    events: usize,
}

impl Stored {
    pub(super) fn of(stored: &StoredSession) -> Self {
        let messages = stored.messages.len();
        let rules = stored.rules.clone();
        let journal = Some(stored.journal.len());
        Self { messages, rules, revision: stored.revision, journal, fence: None, in_flight: Vec::new() }
    }
}

/// What is to be stored.
#[derive(Default)]
pub(crate) struct Save {
    /// All messages of the session; those the store has already are not sent again.
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) snapshot: Option<TurnSnapshot>,
    /// Whether a leg writes, under its lease, and not somebody beside legs.
    pub(crate) by_leg: bool,
    pub(crate) events: Vec<RecordedEvent>,
    pub(crate) applied: Vec<CommandId>,
}

impl SessionInner {
    /// Commits what the store does not hold yet. Without a store nothing is to be done.
    ///
    /// A change whose future was dropped may have been applied all the same; the next one finds out by its id. A store
    /// that panics, or takes longer than [`SAVE_TIMEOUT`], has failed.
    pub(crate) async fn save(&self, save: Save) -> Result<(), StoreError> {
        self.save_then(save, || {}).await
    }

    /// As [`Self::save`], with something to do once it is stored, before anything else is written.
    pub(crate) async fn save_then(&self, save: Save, then: impl FnOnce() + Send) -> Result<(), StoreError> {
        let Some(store) = &self.agent.store else { return Ok(()) };
        within(self.save_to(&**store, save, then)).await
    }

    async fn save_to(
        &self,
        store: &dyn SessionStore,
        save: Save,
        then: impl FnOnce() + Send,
    ) -> Result<(), StoreError> {
        let _writer = self.writer.lock().await;
        let id = self.agent.sources.id();
        let (before, rules) = {
            let mut state = self.state.lock();
            let before = state.stored.clone();
            state.stored.in_flight.push(InFlight { id, events: save.events.len() });
            (before, state.rules.clone())
        };
        let saved = self.commit_on(store, id, (before, rules), save).await;
        match saved {
            Ok(stored) => {
                self.state.lock().stored = stored;
                then();
                Ok(())
            }
            Err(e) => {
                // The store says that nothing was changed: this one is not in flight.
                self.state.lock().stored.in_flight.retain(|other| other.id != id);
                Err(e)
            }
        }
    }

    async fn commit_on(
        &self,
        store: &dyn SessionStore,
        id: CommitId,
        (before, rules): (Stored, Vec<Rule>),
        save: Save,
    ) -> Result<Stored, StoreError> {
        let lease = self.right(&before, save.by_leg);
        // Whoever takes the session up has read all that was noted. Beside legs nobody takes up a turn that was cut off.
        let takes_up = matches!(lease, LeaseChange::Acquire { .. });
        let keeps_journal = !save.by_leg && save.snapshot.as_ref().is_some_and(|snapshot| snapshot.running);
        let change = |stored: &Stored, events: &[RecordedEvent]| SessionCommit {
            messages: save.messages.get(stored.messages..).unwrap_or_default().to_vec(),
            snapshot: save.snapshot.clone(),
            rules: (rules != stored.rules).then(|| rules.clone()),
            lease: lease.clone(),
            journal_read: stored.journal.filter(|_| takes_up),
            keeps_journal,
            events: events.to_vec(),
            applied: save.applied.clone(),
            ..SessionCommit::new(self.id.clone(), id, stored.revision)
        };
        let committed = match store.commit(change(&before, &save.events)).await {
            Err(conflict @ StoreError::Conflict { .. }) => {
                let (held, events) = self.own_change(store, &before, conflict).await?;
                store.commit(change(&held, save.events.get(events..).unwrap_or_default())).await?
            }
            done => done?,
        };
        Ok(Stored {
            messages: save.messages.len(),
            rules,
            revision: committed.revision,
            journal: before.journal.filter(|_| keeps_journal),
            fence: committed.fence.filter(|_| save.by_leg),
            in_flight: Vec::new(),
        })
    }

    /// A change of our own, which nobody waited for, may have been applied after all: the next one goes on top. Gives what
    /// the store holds, and how many events were in that change.
    async fn own_change(
        &self,
        store: &dyn SessionStore,
        before: &Stored,
        conflict: StoreError,
    ) -> Result<(Stored, usize), StoreError> {
        let held = store.load(&self.id).await?.unwrap_or_default();
        let ours = before.in_flight.iter().find(|change| held.last_commit == Some(change.id));
        let events = ours.map(|change| change.events).ok_or(conflict)?;
        Ok((Stored { fence: before.fence, ..Stored::of(&held) }, events))
    }

    /// A leg that does not know its lease (nobody waited for the change that took it) takes it again.
    fn right(&self, stored: &Stored, by_leg: bool) -> LeaseChange {
        match stored.fence {
            Some(fence) if by_leg => LeaseChange::Keep(fence),
            None if by_leg => {
                LeaseChange::Acquire { holder: self.agent.holder.to_string(), ttl: self.agent.lease }
            }
            _ => LeaseChange::None,
        }
    }

    /// Notes something in the journal of the leg that runs: what there is to note when it is this one's turn to write.
    /// Without a store nothing is to be done.
    pub(crate) async fn note(
        &self,
        records: impl FnOnce() -> Vec<JournalRecord> + Send,
    ) -> Result<(), StoreError> {
        let Some(store) = &self.agent.store else { return Ok(()) };
        within(self.note_in(&**store, records)).await
    }

    async fn note_in(
        &self,
        store: &dyn SessionStore,
        records: impl FnOnce() -> Vec<JournalRecord> + Send,
    ) -> Result<(), StoreError> {
        let _writer = self.writer.lock().await;
        let records = records();
        if records.is_empty() {
            return Ok(());
        }
        let before = self.state.lock().stored.clone();
        let Some(fence) = before.fence else {
            return Err(StoreError::Backend("the leg has no lease to write its journal under".into()));
        };
        let append = |stored: &Stored| JournalAppend {
            session: self.id.clone(),
            base: stored.revision,
            fence,
            records: records.clone(),
        };
        match store.append(append(&before)).await {
            Err(conflict @ StoreError::Conflict { .. }) => {
                let (held, _) = self.own_change(store, &before, conflict).await?;
                store.append(append(&held)).await
            }
            done => done,
        }
    }

    /// Makes the lease of the leg that runs last on.
    pub(crate) async fn renew(&self) -> Result<(), StoreError> {
        let (Some(store), Some(fence)) = (&self.agent.store, self.state.lock().stored.fence) else {
            return Ok(());
        };
        within(store.renew(&self.id, fence, self.agent.lease)).await
    }

    /// Gives the lease back, and records the last events. Should that fail, it ends by itself. Says whether it was done.
    pub(crate) async fn release(&self, events: Vec<RecordedEvent>) -> bool {
        let Some(store) = &self.agent.store else { return false };
        let Some(fence) = self.state.lock().stored.fence.take() else { return false };
        let released = within(store.release(&self.id, fence, events)).await;
        if let Err(e) = &released {
            tracing::warn!("the lease of session {} could not be released: {e}", self.id);
        }
        released.is_ok()
    }
}

async fn within(work: impl Future<Output = Result<(), StoreError>>) -> Result<(), StoreError> {
    let work = AssertUnwindSafe(Box::pin(work)).catch_unwind();
    match tokio::time::timeout(SAVE_TIMEOUT, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => Err(StoreError::Backend(format!("it panicked: {}", panic_text(&*panic)))),
        Err(_) => Err(StoreError::Backend(format!("it did not answer within {SAVE_TIMEOUT:?}"))),
    }
}
