//! Where sessions live between turns.

mod memory;

use std::sync::Arc;

use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, Id, Message, SessionId};

pub use memory::MemoryStore;

use crate::snapshot::TurnSnapshot;

/// A session as it is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredSession {
    /// Its messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Its suspended or drained turn.
    pub snapshot: Option<TurnSnapshot>,
    /// Counts changes: 0 for a session that was never stored.
    pub revision: u64,
    /// The last change that was applied.
    pub last_commit: Option<CommitId>,
}

/// Names a change, so that its writer can find out whether it was applied.
pub type CommitId = Id<Commit>;

/// What a [`CommitId`] names.
#[derive(Debug)]
pub enum Commit {}

/// One atomic change of a session: messages appended and the snapshot replaced, together or not at all.
#[derive(Debug, Clone)]
pub struct SessionCommit {
    /// The session; created when it does not exist.
    pub session: SessionId,
    /// Its id.
    pub id: CommitId,
    /// The revision it is made on: another one means that another writer came first.
    pub base: u64,
    /// The messages to append.
    pub messages: Vec<Arc<Message>>,
    /// The snapshot from now on.
    pub snapshot: Option<TurnSnapshot>,
}

/// Why a store did not do it. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer came first.
    #[error("session {session} is at revision {found}, not {expected}: another writer came first")]
    Conflict {
        /// The session.
        session: SessionId,
        /// The revision the writer expected.
        expected: u64,
        /// The revision there is.
        found: u64,
    },
    /// The store itself failed.
    #[error("the session store failed: {0}")]
    Backend(String),
}

impl From<StoreError> for ErrorInfo {
    fn from(e: StoreError) -> Self {
        let kind = match e {
            StoreError::Conflict { .. } => ErrorKind::Conflict,
            StoreError::Backend(_) => ErrorKind::Store,
        };
        Self::new(kind, e.to_string())
    }
}

/// Keeps sessions. Every change names the revision it is made on, so that two writers cannot overwrite each other.
pub trait SessionStore: Send + Sync {
    /// Reads a session; none when it was never stored.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    fn load<'a>(&'a self, session: &'a SessionId)
    -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>>;

    /// Applies one change, atomically.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the change is applied wholly or not at all, and not later than the next change of the
    /// session. The next writer finds out by the id of the last change.
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Forgets a session.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the session is there wholly or not at all; delete again.
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>>;
}
