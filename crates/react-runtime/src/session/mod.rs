//! Sessions: one conversation, one turn at a time.

mod decide;
mod handle;
mod start;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use turnwright_core::{ApprovalRequest, ErrorInfo, Message, SessionId};

pub use decide::DecideError;
pub use handle::TurnHandle;
pub use start::{Input, StartError};

use crate::{
    agent::AgentInner,
    snapshot::TurnSnapshot,
    store::{SessionCommit, StoreError, StoredSession},
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
}

struct State {
    messages: Vec<Arc<Message>>,
    /// How many of the messages the store holds.
    stored: usize,
    /// The turn that waits, if one does.
    snapshot: Option<TurnSnapshot>,
    /// Whether a leg runs.
    busy: bool,
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

    /// Whether a turn is suspended or drained, so that it can be resumed.
    pub fn is_parked(&self) -> bool {
        self.0.state.lock().snapshot.is_some()
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
            stored: stored.messages.len(),
            messages: stored.messages,
            snapshot: stored.snapshot,
            busy: false,
        };
        Arc::new(Self { id, agent, state: Mutex::new(state), turnstile: tokio::sync::Mutex::default() })
    }

    /// Commits what the store does not hold yet. Without a store nothing is to be done.
    ///
    /// A commit whose future was dropped may have been applied all the same; the next one finds out.
    pub(crate) async fn save(
        &self,
        messages: Vec<Arc<Message>>,
        snapshot: Option<TurnSnapshot>,
    ) -> Result<(), StoreError> {
        let Some(store) = &self.agent.store else { return Ok(()) };
        let after = self.state.lock().stored;
        let commit = |after: usize, snapshot| SessionCommit {
            session: self.id.clone(),
            after,
            messages: messages.get(after..).unwrap_or_default().to_vec(),
            snapshot,
        };
        match store.commit(commit(after, snapshot.clone())).await {
            Err(StoreError::Conflict { found, .. }) if found > after => {
                let held = store.load(&self.id).await?.unwrap_or_default().messages;
                let ours = messages.get(..found).unwrap_or_default();
                let is_ours = ours.len() == held.len() && ours.iter().zip(&held).all(|(a, b)| a.id == b.id);
                if !is_ours {
                    return Err(StoreError::Conflict { session: self.id.clone(), expected: after, found });
                }
                store.commit(commit(found, snapshot)).await?;
            }
            other => other?,
        }
        self.state.lock().stored = messages.len();
        Ok(())
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
