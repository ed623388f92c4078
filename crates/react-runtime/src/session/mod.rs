//! Sessions: one conversation, one turn at a time.

mod decide;
mod handle;
mod start;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::FutureExt;
use parking_lot::Mutex;
use turnwright_core::{ApprovalRequest, ErrorInfo, Message, SessionId, panic::panic_text};

pub use decide::DecideError;
pub use handle::TurnHandle;
pub(crate) use start::is_sayable;
pub use start::{Input, StartError};

use crate::{
    agent::AgentInner,
    snapshot::TurnSnapshot,
    store::{CommitId, SessionCommit, SessionStore, StoreError, StoredSession},
};

/// How long a store may take over one change.
pub const SAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A conversation with an agent. Clones, and what [`crate::Agent::open_session`] returns for the same id while one is
/// alive, are the same session; it is forgotten when the last one is dropped.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<SessionInner>);

pub(crate) struct SessionInner {
    pub(crate) id: SessionId,
    pub(crate) agent: Arc<AgentInner>,
    state: Mutex<State>,
    /// Held while a decision is recorded: no other decision and no leg gets in between.
    turnstile: tokio::sync::Mutex<()>,
}

struct State {
    messages: Vec<Arc<Message>>,
    stored: Stored,
    /// The turn that waits, if one does.
    snapshot: Option<TurnSnapshot>,
    /// Whether a leg runs.
    busy: bool,
}

/// What is known of the session in the store.
#[derive(Clone, Default)]
struct Stored {
    /// How many of the messages it holds.
    messages: usize,
    revision: u64,
    /// Changes whose outcome is not known, since nobody waited for them.
    in_flight: Vec<CommitId>,
}

impl Session {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// Its messages, as of the end of the last leg.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.0.state.lock().messages.clone()
    }

    /// Whether a turn runs now.
    pub fn is_busy(&self) -> bool {
        self.0.state.lock().busy
    }

    /// Whether a turn of the session is not over although no leg runs: suspended, drained, or interrupted (see
    /// [`Session::is_interrupted`]). It must be resumed or cancelled before the next one starts.
    pub fn is_parked(&self) -> bool {
        let state = self.0.state.lock();
        !state.busy && state.snapshot.is_some()
    }

    /// Whether the process that ran the turn's last leg went away in the middle of it. Which of its calls took effect is
    /// not known, so it is not resumed: [`Session::cancel_parked`] ends it.
    pub fn is_interrupted(&self) -> bool {
        let state = self.0.state.lock();
        !state.busy && state.snapshot.as_ref().is_some_and(|s| s.running)
    }

    /// What the suspended turn waits for.
    pub fn pending(&self) -> Vec<ApprovalRequest> {
        let state = self.0.state.lock();
        let transaction = state.snapshot.as_ref().and_then(|s| s.transaction.as_ref());
        transaction.iter().flat_map(|t| t.pending().cloned()).collect()
    }

    /// The suspended or drained turn as a value.
    pub fn snapshot(&self) -> Option<TurnSnapshot> {
        self.0.state.lock().snapshot.clone()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.0.id).finish()
    }
}

impl SessionInner {
    pub(crate) fn new(id: SessionId, agent: Arc<AgentInner>, stored: StoredSession) -> Arc<Self> {
        let state = State {
            stored: Stored {
                messages: stored.messages.len(),
                revision: stored.revision,
                in_flight: Vec::new(),
            },
            messages: stored.messages,
            snapshot: stored.snapshot,
            busy: false,
        };
        Arc::new(Self { id, agent, state: Mutex::new(state), turnstile: tokio::sync::Mutex::default() })
    }

    /// Commits what the store does not hold yet. Without a store nothing is to be done.
    ///
    /// A change whose future was dropped may have been applied all the same; the next one finds out by its id. A store
    /// that panics, or takes longer than [`SAVE_TIMEOUT`], has failed.
    pub(crate) async fn save(
        &self,
        messages: Vec<Arc<Message>>,
        snapshot: Option<TurnSnapshot>,
    ) -> Result<(), StoreError> {
        let Some(store) = &self.agent.store else { return Ok(()) };
        let saving = AssertUnwindSafe(Box::pin(self.save_to(&**store, messages, snapshot))).catch_unwind();
        match tokio::time::timeout(SAVE_TIMEOUT, saving).await {
            Ok(Ok(saved)) => saved,
            Ok(Err(panic)) => Err(StoreError::Backend(format!("it panicked: {}", panic_text(&*panic)))),
            Err(_) => Err(StoreError::Backend(format!("it did not answer within {SAVE_TIMEOUT:?}"))),
        }
    }

    async fn save_to(
        &self,
        store: &dyn SessionStore,
        messages: Vec<Arc<Message>>,
        snapshot: Option<TurnSnapshot>,
    ) -> Result<(), StoreError> {
        let id = self.agent.sources.id();
        let before = {
            let mut state = self.state.lock();
            let before = state.stored.clone();
            state.stored.in_flight.push(id);
            before
        };
        let saved = self.commit_on(store, id, before, messages, snapshot).await;
        let mut state = self.state.lock();
        match saved {
            Ok(stored) => {
                state.stored = stored;
                Ok(())
            }
            Err(e) => {
                // The store says that nothing was changed: this one is not in flight.
                state.stored.in_flight.retain(|other| *other != id);
                Err(e)
            }
        }
    }

    async fn commit_on(
        &self,
        store: &dyn SessionStore,
        id: CommitId,
        before: Stored,
        messages: Vec<Arc<Message>>,
        snapshot: Option<TurnSnapshot>,
    ) -> Result<Stored, StoreError> {
        let change = |stored: &Stored, snapshot| SessionCommit {
            session: self.id.clone(),
            id,
            base: stored.revision,
            messages: messages.get(stored.messages..).unwrap_or_default().to_vec(),
            snapshot,
        };
        let done = |base: u64| Stored { messages: messages.len(), revision: base + 1, in_flight: Vec::new() };
        match store.commit(change(&before, snapshot.clone())).await {
            Ok(()) => Ok(done(before.revision)),
            Err(conflict @ StoreError::Conflict { .. }) => {
                let held = store.load(&self.id).await?.unwrap_or_default();
                // A change of our own, which nobody waited for, was applied after all: this one goes on top.
                if !held.last_commit.is_some_and(|last| before.in_flight.contains(&last)) {
                    return Err(conflict);
                }
                let held =
                    Stored { messages: held.messages.len(), revision: held.revision, in_flight: Vec::new() };
                store.commit(change(&held, snapshot)).await?;
                Ok(done(held.revision))
            }
            Err(other) => Err(other),
        }
    }

    /// A leg could not be spawned: the session is as it was.
    pub(crate) fn not_started(&self) {
        self.state.lock().busy = false;
    }

    /// The leg is over: the session is free for the next one.
    pub(crate) fn leg_ended(&self, messages: Vec<Arc<Message>>, snapshot: Option<TurnSnapshot>) {
        let mut state = self.state.lock();
        state.messages = messages;
        state.snapshot = snapshot;
        state.busy = false;
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.agent.forget_session(&self.id);
    }
}

/// The sessions of an agent that are alive, so that one id is one session. Holds nothing once a session is dropped.
#[derive(Default)]
pub(crate) struct OpenSessions(Mutex<std::collections::HashMap<SessionId, Weak<SessionInner>>>);

impl OpenSessions {
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<SessionInner>> {
        self.0.lock().get(id).and_then(Weak::upgrade)
    }

    /// Registers a session, unless somebody else opened it meanwhile: then that one counts.
    pub(crate) fn open(&self, session: Arc<SessionInner>) -> Arc<SessionInner> {
        let mut open = self.0.lock();
        if let Some(first) = open.get(&session.id).and_then(Weak::upgrade) {
            return first;
        }
        open.insert(session.id.clone(), Arc::downgrade(&session));
        session
    }

    pub(crate) fn forget(&self, id: &SessionId) {
        let mut open = self.0.lock();
        if open.get(id).is_some_and(|s| s.strong_count() == 0) {
            open.remove(id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

pub(crate) fn unreadable(e: impl std::fmt::Display) -> ErrorInfo {
    ErrorInfo::new(turnwright_core::ErrorKind::Corrupt, e.to_string())
}
