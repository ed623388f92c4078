//! What can be done with stored sessions beside running them: deciding, forking, exporting and importing. Any store will
//! do.

mod document;

use std::sync::Arc;

use turnwright_core::{
    ApprovalRequest, Decision, HistoryFault, Message, MessageId, SessionId, Sources, history,
};

pub use document::{export, import};

use super::{LeaseChange, SessionCommit, SessionStore, StoreError, StoredSession};
use crate::{
    DecideError,
    snapshot::{SnapshotError, TurnSnapshot},
};

/// How often a change is tried again when another writer came first.
const TRIES: usize = 8;

/// Records a decision about calls of a suspended turn, without an agent: for whoever decides in another process. Returns
/// what is still undecided. As [`crate::Session::decide`], which a process that has the session open uses.
///
/// # Errors
/// [`DecideError`]; the turn is as it was.
///
/// # Cancel safety
/// Dropped before it is ready, the decision may be recorded or not: decide again, and be told that it is decided already.
pub async fn decide(
    store: &dyn SessionStore,
    sources: &Sources,
    session: &SessionId,
    decision: &Decision,
) -> Result<Vec<ApprovalRequest>, DecideError> {
    let mut tries = 0;
    loop {
        let stored = store.load(session).await?.unwrap_or_default();
        let Some(mut snapshot) = stored.snapshot.filter(|snapshot| !snapshot.running) else {
            return Err(DecideError::NothingPending);
        };
        let transaction = snapshot.transaction.as_mut().ok_or(DecideError::NothingPending)?;
        transaction.apply(decision, sources.clock.now())?;
        let pending = transaction.pending().cloned().collect();
        let change = SessionCommit {
            snapshot: Some(snapshot),
            lease: LeaseChange::None,
            ..SessionCommit::new(session.clone(), sources.id(), stored.revision)
        };
        tries += 1;
        match store.commit(change).await {
            Ok(_) => return Ok(pending),
            Err(StoreError::Conflict { .. }) if tries < TRIES => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Why sessions were not forked, exported or imported. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionOpError {
    /// The session was never stored.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// A session of this id is stored already.
    #[error("there is a session {0} already")]
    Exists(SessionId),
    /// A leg of it runs, or was cut off: what is stored is a moment in the middle.
    #[error("a turn of session {0} runs, or was interrupted: wait for its end, resume it or end it first")]
    Running(SessionId),
    /// No message of the session has this id.
    #[error("session {0} has no message {1}")]
    NoMessage(SessionId, MessageId),
    /// After this message calls would be left without their results.
    #[error("the session cannot end after message {0}: {1}")]
    Splits(MessageId, HistoryFault),
    /// A call of the history has no result, and no open turn has yet to answer it; or another fault.
    #[error("the history is not legal: {0}")]
    Illegal(HistoryFault),
    /// The document is no export of a session.
    #[error("the export cannot be read: {field}: {why}")]
    Malformed {
        /// The field, or `the document`.
        field: String,
        /// Why.
        why: String,
    },
    /// The open turn in the document, or in the store, cannot be read or written.
    #[error("the open turn: {0}")]
    Turn(#[from] SnapshotError),
    /// The document was written by a newer program.
    #[error("the export has version {found}, this program reads up to {known}")]
    Newer {
        /// Its version.
        found: u32,
        /// The newest one this program knows.
        known: u32,
    },
    /// The document is not what was written.
    #[error("the checksum of the export is wrong: it was changed or cut")]
    Checksum,
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

async fn at_rest(store: &dyn SessionStore, session: &SessionId) -> Result<StoredSession, SessionOpError> {
    let stored = store.load(session).await?.ok_or_else(|| SessionOpError::Unknown(session.clone()))?;
    match stored.lease.is_some() || stored.snapshot.as_ref().is_some_and(|snapshot| snapshot.running) {
        true => Err(SessionOpError::Running(session.clone())),
        false => Ok(stored),
    }
}

/// Whether a session may go on from here: each call has its result, but for those that the open turn has yet to answer.
fn check(messages: &[Arc<Message>], turn: Option<&TurnSnapshot>) -> Result<(), SessionOpError> {
    let open = turn.and_then(|turn| turn.batch.as_ref());
    match history::check(messages.iter().map(|message| &**message)) {
        Err(HistoryFault::Unanswered { call, next: None, .. })
            if open.is_some_and(|batch| batch.calls.iter().any(|entry| entry.call.id == call)) =>
        {
            Ok(())
        }
        checked => checked.map_err(SessionOpError::Illegal),
    }
}

async fn create(
    store: &dyn SessionStore,
    sources: &Sources,
    session: SessionId,
    messages: Vec<Arc<Message>>,
    snapshot: Option<TurnSnapshot>,
) -> Result<(), SessionOpError> {
    let change = SessionCommit { messages, snapshot, ..SessionCommit::new(session.clone(), sources.id(), 0) };
    match store.commit(change).await {
        Ok(_) => Ok(()),
        Err(StoreError::Conflict { .. }) => Err(SessionOpError::Exists(session)),
        Err(e) => Err(e.into()),
    }
}

/// Makes a new session of what another one has, which stays as it is: whole with its open turn, or up to and with one
/// message, without one. History only grows: to rewind a session is to fork it at a message and to go on there, and a
/// branch is a fork as well.
///
/// An open turn gets a turn id of its own, and with it its calls get other idempotency keys: the fork's answers are not
/// taken for the original's, and both can be resumed, with other decisions.
///
/// # Errors
/// [`SessionOpError`]; nothing was stored.
///
/// # Cancel safety
/// Dropped before it is ready, the fork is there wholly or not at all.
pub async fn fork(
    store: &dyn SessionStore,
    sources: &Sources,
    session: &SessionId,
    after: Option<MessageId>,
    to: SessionId,
) -> Result<(), SessionOpError> {
    let stored = at_rest(store, session).await?;
    let Some(after) = after else {
        check(&stored.messages, stored.snapshot.as_ref())?;
        let snapshot = stored.snapshot.map(|snapshot| moved(snapshot, &to, sources));
        return create(store, sources, to, stored.messages, snapshot).await;
    };
    let found = stored.messages.iter().position(|message| message.id == after);
    let end = found.ok_or_else(|| SessionOpError::NoMessage(session.clone(), after))?;
    let mut messages = stored.messages;
    messages.truncate(end + 1);
    history::check(messages.iter().map(|m| &**m)).map_err(|fault| SessionOpError::Splits(after, fault))?;
    create(store, sources, to, messages, None).await
}

/// The open turn as one of another session.
fn moved(mut snapshot: TurnSnapshot, to: &SessionId, sources: &Sources) -> TurnSnapshot {
    snapshot.session = to.clone();
    (snapshot.run, snapshot.turn) = (sources.id(), sources.id());
    if let Some(transaction) = &mut snapshot.transaction {
        (transaction.id, transaction.turn) = (sources.id(), snapshot.turn);
    }
    snapshot
}
