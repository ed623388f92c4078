//! What can be done with stored sessions beside running them: deciding, forking, exporting and importing. Any store will
//! do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnwright_core::{
    ApprovalRequest, Decision, HistoryFault, Message, MessageId, SessionId, Sources, history,
};

use super::{LeaseChange, SessionCommit, SessionStore, StoreError, StoredSession};
use crate::{DecideError, snapshot::TurnSnapshot};

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
    /// The document is no export of a session; the words name the field.
    #[error("the export cannot be read: {0}")]
    Malformed(String),
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
/// message, without one. To rewind a session is to fork it at a message and to go on there.
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

/// The version that [`export`] writes.
const EXPORT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Export {
    turnwright_session: u32,
    session: SessionId,
    messages: Vec<Arc<Message>>,
    /// In its own form, with version and checksum.
    turn: Option<String>,
    checksum: String,
}

#[derive(Deserialize)]
struct Head {
    turnwright_session: u32,
}

impl Export {
    /// Of everything but itself.
    fn checksum(&self) -> Result<String, SessionOpError> {
        let all = serde_json::to_vec(&(&self.turnwright_session, &self.session, &self.messages, &self.turn))
            .map_err(|e| SessionOpError::Malformed(e.to_string()))?;
        Ok(Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// A session at rest as one JSON document, with version and checksum: messages and open turn. Events and commands are not
/// in it.
///
/// # Errors
/// [`SessionOpError`].
///
/// # Cancel safety
/// Safe: it changes nothing.
pub async fn export(store: &dyn SessionStore, session: &SessionId) -> Result<String, SessionOpError> {
    let malformed = |e: String| SessionOpError::Malformed(e);
    let stored = at_rest(store, session).await?;
    let turn = stored
        .snapshot
        .map(|snapshot| snapshot.encode())
        .transpose()
        .map_err(|e| malformed(e.to_string()))?;
    let mut export = Export {
        turnwright_session: EXPORT,
        session: session.clone(),
        messages: stored.messages,
        turn,
        checksum: String::new(),
    };
    export.checksum = export.checksum()?;
    serde_json::to_string(&export).map_err(|e| malformed(e.to_string()))
}

/// Stores what [`export`] wrote, under its own id or another one. Under another one it is a fork, see [`fork`].
///
/// # Errors
/// [`SessionOpError`]; nothing was stored.
///
/// # Cancel safety
/// Dropped before it is ready, the session is there wholly or not at all.
pub async fn import(
    store: &dyn SessionStore,
    sources: &Sources,
    document: &str,
    to: Option<SessionId>,
) -> Result<SessionId, SessionOpError> {
    let malformed = |e: serde_json::Error| SessionOpError::Malformed(e.to_string());
    let Head { turnwright_session: version } = serde_json::from_str(document).map_err(malformed)?;
    if version > EXPORT {
        return Err(SessionOpError::Newer { found: version, known: EXPORT });
    }
    let export: Export = serde_json::from_str(document).map_err(malformed)?;
    if export.checksum()? != export.checksum {
        return Err(SessionOpError::Checksum);
    }
    let turn = export.turn.as_deref().map(TurnSnapshot::decode).transpose();
    let turn = turn.map_err(|e| SessionOpError::Malformed(e.to_string()))?;
    let session = to.unwrap_or_else(|| export.session.clone());
    let turn = match session == export.session {
        true => turn,
        false => turn.map(|turn| moved(turn, &session, sources)),
    };
    create(store, sources, session.clone(), export.messages, turn).await?;
    Ok(session)
}
