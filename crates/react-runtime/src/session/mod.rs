//! Sessions: one conversation, one turn at a time.

mod beside;
mod decide;
mod handle;
mod next;
mod parent;
mod recover;
mod rules;
mod save;
mod start;
mod surface;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_control::Wakeup;
use turnwright_control::{Ack, ControlCommand, Fate};
use turnwright_core::{ApprovalRequest, CancelToken, ErrorInfo, LegOutcome, Message, SessionId, TurnContext};

use beside::Owned;
pub use beside::SummaryError;
pub use decide::DecideError;
pub use handle::{OnDrop, TurnHandle};
pub use parent::Parent;
pub use save::SAVE_TIMEOUT;
pub(crate) use save::Save;
use save::Stored;
pub(crate) use start::is_sayable;
pub use start::{Input, StartError};

use crate::{
    agent::AgentInner,
    approval::Rule,
    ledger::Ledger,
    snapshot::TurnSnapshot,
    store::{JournalRecord, StoreError, StoredSession},
};

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
    /// Held while the store is written: each change is made on top of the one before.
    writer: tokio::sync::Mutex<()>,
    owned: Owned,
}

struct State {
    messages: Vec<Arc<Message>>,
    stored: Stored,
    /// The turn that waits, if one does.
    snapshot: Option<TurnSnapshot>,
    /// What the leg noted that was cut off by the end of its process.
    journal: Vec<JournalRecord>,
    /// Whether a leg runs.
    busy: bool,
    /// The leg that runs.
    running: Option<Running>,
    /// Tools that somebody allowed for the session.
    rules: Vec<Rule>,
    /// Commands whose messages are history here, and not stored yet: the last leg could not. The next change stores them.
    landed: Vec<Landed>,
    /// Senders' ids of the last messages, oldest first.
    keys: VecDeque<String>,
    /// One more of it for each message that waits.
    places: Arc<()>,
}

/// A command whose message is history, and how its sender is told.
pub(crate) type Landed = (ControlCommand, Ack);

/// What others may do to the leg that runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) ctx: TurnContext,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) interrupt: CancelToken,
    pub(crate) outcome: watch::Receiver<Option<LegOutcome>>,
}

/// Senders' ids that a session remembers.
pub(crate) const KEYS: usize = 256;

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

    /// Waits until no leg of the session runs in this process; at once where none does.
    ///
    /// # Cancel safety
    /// Safe: wait again.
    pub async fn idle(&self) {
        while let Some(running) = self.0.running() {
            let mut outcome = running.outcome;
            if outcome.wait_for(Option::is_some).await.is_err() {
                // Whoever was to tell is gone.
                return;
            }
        }
    }

    /// Whether a turn of the session is not over although no leg runs: suspended, drained, or interrupted (see
    /// [`Session::is_interrupted`]). It must be resumed or cancelled before the next one starts.
    pub fn is_parked(&self) -> bool {
        let state = self.0.state.lock();
        !state.busy && state.snapshot.is_some()
    }

    /// Whether the process that ran the turn's last leg went away in the middle of it, or still runs it elsewhere.
    /// [`Session::resume`] goes on from the last checkpoint and the journal, and [`Session::cancel_parked`] ends it; where
    /// it still runs, both end as failed with the kind `session_held`, and nothing is changed.
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

    /// Reads again what is stored: for sessions that other processes write too. Without a store, and while a turn runs,
    /// nothing is done.
    ///
    /// # Errors
    /// [`StoreError`]; the session is as it was.
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        if let Some(store) = &self.0.agent.store
            && let Some(stored) = store.load(&self.0.id).await?
        {
            self.0.refresh(stored);
        }
        Ok(())
    }

    /// A wake-up that fires after the session was changed in its store, by whatever process; none without a store.
    /// [`Session::refresh`] reads what there is then.
    pub fn watch(&self) -> Option<Wakeup> {
        self.0.agent.store.as_ref().map(|store| store.watch(&self.0.id))
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
        let mut state = State {
            messages: Vec::new(),
            stored: Stored::default(),
            snapshot: None,
            journal: Vec::new(),
            busy: false,
            running: None,
            rules: Vec::new(),
            landed: Vec::new(),
            keys: VecDeque::new(),
            places: Arc::default(),
        };
        state.read(stored);
        let state = Mutex::new(state);
        let (turnstile, writer) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { id, agent, state, turnstile, writer, owned: Owned::default() })
    }

    /// Takes over what is stored, where nothing of our own is under way and the store is ahead.
    pub(crate) fn refresh(&self, stored: StoredSession) {
        let mut state = self.state.lock();
        // Of a leg that runs elsewhere only the journal grows.
        let has_grown = state.stored.journal.is_some_and(|read| read < stored.journal.len());
        let is_ahead = stored.revision > state.stored.revision
            || (stored.revision == state.stored.revision && has_grown);
        if state.busy || !is_ahead {
            return;
        }
        state.read(stored);
        let landed = std::mem::take(&mut state.landed);
        drop(state);
        // What is history now does not have them.
        for (_, ack) in landed {
            ack.settle(Fate::returned(
                "it was said in a turn that could not be stored, and another writer came first",
            ));
        }
    }

    /// Keeps commands of a leg that could not be stored, for the next one.
    pub(crate) fn keep_landed(&self, landed: Vec<Landed>) {
        self.state.lock().landed.extend(landed);
    }

    pub(crate) fn take_landed(&self) -> Vec<Landed> {
        std::mem::take(&mut self.state.lock().landed)
    }

    /// The leg that runs.
    pub(crate) fn running(&self) -> Option<Running> {
        self.state.lock().running.clone()
    }

    pub(crate) fn runs(&self, running: Running) {
        let mut state = self.state.lock();
        if state.busy {
            state.running = Some(running);
        }
    }

    /// Remembers a sender's id. Says whether it is new.
    pub(crate) fn is_new(&self, key: &str) -> bool {
        let mut state = self.state.lock();
        if state.keys.iter().any(|known| known == key) {
            return false;
        }
        if state.keys.len() >= KEYS {
            state.keys.pop_front();
        }
        state.keys.push_back(key.to_owned());
        true
    }

    /// Room for one more message that waits; none where so many wait already. It lasts as long as what is given.
    pub(crate) fn queue_for(&self, capacity: usize) -> Option<Arc<()>> {
        let place = self.state.lock().places.clone();
        (Arc::strong_count(&place) <= capacity + 1).then_some(place)
    }

    /// What was remembered came to nothing: it may come again.
    pub(crate) fn forget_key(&self, key: &str) {
        self.state.lock().keys.retain(|known| known != key);
    }

    /// A leg could not be spawned: the session is as it was.
    pub(crate) fn not_started(&self) {
        let mut state = self.state.lock();
        (state.busy, state.running) = (false, None);
    }

    /// The leg is over: the session is free for the next one.
    pub(crate) fn leg_ended(&self, messages: Vec<Arc<Message>>, snapshot: Option<TurnSnapshot>) {
        let mut state = self.state.lock();
        state.messages = messages;
        state.snapshot = snapshot;
        state.journal = Vec::new();
        (state.busy, state.running) = (false, None);
    }
}

impl State {
    fn read(&mut self, stored: StoredSession) {
        self.stored = Stored::of(&stored);
        self.messages = stored.messages;
        self.snapshot = stored.snapshot;
        self.journal = stored.journal;
        self.rules = stored.rules;
        let known = self.messages.iter().rev().filter_map(|m| m.key.clone()).take(KEYS);
        let known: Vec<_> = known.filter(|key| !self.keys.contains(key)).collect();
        for key in known {
            self.keys.push_front(key);
        }
        let surplus = self.keys.len().saturating_sub(KEYS);
        self.keys.drain(..surplus);
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

    /// The legs that run.
    pub(crate) fn running(&self) -> Vec<Running> {
        let open: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        open.iter().filter_map(|session| session.running()).collect()
    }
}

pub(crate) fn unreadable(e: impl std::fmt::Display) -> ErrorInfo {
    ErrorInfo::new(turnwright_core::ErrorKind::Corrupt, e.to_string())
}
