//! Where sessions live between turns.

mod change;
mod journal;
mod lease;
mod list;
mod memory;
pub mod ops;

use std::sync::Arc;

use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, Message, SessionId, Timestamp};

pub use change::{Commit, CommitId, Committed, SessionCommit};
pub use journal::{JournalAppend, JournalRecord, RecordedEvent, StoredEvent};
pub use lease::{Fence, LeaseChange, LeaseInfo};
pub use list::{SessionQuery, SessionStatus, SessionSummary};
pub use memory::MemoryStore;

use crate::{approval::Rule, snapshot::TurnSnapshot};

/// A session as it is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredSession {
    /// Its messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Its turn that is not over.
    pub snapshot: Option<TurnSnapshot>,
    /// Tools that somebody allowed for the session.
    pub rules: Vec<Rule>,
    /// What the leg that runs, or died, noted since the last change.
    pub journal: Vec<JournalRecord>,
    /// Who may write it now, if somebody may.
    pub lease: Option<LeaseInfo>,
    /// Counts changes: 0 for a session that was never stored.
    pub revision: u64,
    /// The last change that was applied.
    pub last_commit: Option<CommitId>,
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
    /// The leg that was interrupted when the session was read went on since.
    #[error("the turn of session {session} went on elsewhere since it was read: read it again")]
    Grown {
        /// The session.
        session: SessionId,
    },
    /// Somebody else runs a leg of the session.
    #[error("session {session} is being written by {holder} until {until}, unless it is renewed")]
    Held {
        /// The session.
        session: SessionId,
        /// Who holds its lease.
        holder: String,
        /// When the lease ends unless it is renewed, by the store's clock.
        until: Timestamp,
    },
    /// The writer's lease was taken over, or has ended: it must stop.
    #[error("the lease of session {session} (fence {fence}) is lost: its writer must stop")]
    LeaseLost {
        /// The session.
        session: SessionId,
        /// The fence of the writer.
        fence: Fence,
    },
    /// What is stored cannot be read. Only this session, or this row, is concerned.
    #[error("{what} cannot be read: {why}")]
    Corrupt {
        /// What: the session, the table and the row.
        what: String,
        /// Why.
        why: String,
    },
    /// What is stored was written by a newer program.
    #[error("{what} has version {found}, this program reads up to {known}: use a newer program")]
    Newer {
        /// What.
        what: String,
        /// The version there is.
        found: u32,
        /// The newest one this program knows.
        known: u32,
    },
    /// The store itself failed.
    #[error("the session store failed: {0}")]
    Backend(String),
}

impl StoreError {
    /// Whether another writer has the session: whoever gets this stops writing it.
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. } | Self::Grown { .. } | Self::Held { .. } | Self::LeaseLost { .. }
        )
    }
}

impl From<StoreError> for ErrorInfo {
    fn from(e: StoreError) -> Self {
        let kind = match e {
            StoreError::Conflict { .. } | StoreError::Grown { .. } => ErrorKind::Conflict,
            StoreError::Held { .. } => ErrorKind::SessionHeld,
            StoreError::LeaseLost { .. } => ErrorKind::LeaseLost,
            StoreError::Corrupt { .. } => ErrorKind::Corrupt,
            StoreError::Newer { .. } => ErrorKind::UnsupportedVersion,
            StoreError::Backend(_) => ErrorKind::Store,
        };
        Self::new(kind, e.to_string())
    }
}

/// Keeps sessions: their messages, the turn that is not over, the journal of the leg that runs, and who may write them.
///
/// Every change names the revision it is made on, so that two writers cannot overwrite each other; a leg writes under a
/// lease, so that a second process does not start what runs already, and a fence, so that a writer which lost its lease
/// is refused.
///
/// # For implementers
/// - Each method changes all it says or nothing, and a change that was acknowledged survives the end of the process.
/// - Time is the store's own: a lease ends by its clock, never by the writer's.
/// - A future that was dropped may have made its change: wholly, and not later than the next change of the session.
/// - The methods do not block the thread that polls them.
/// - The kit in `turnwright-testkit` (`store_conformance`) checks these.
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

    /// Applies one change, atomically: messages, snapshot, rules, lease, events and applied commands. The journal so far is
    /// superseded and gone.
    ///
    /// The lease is checked first ([`LeaseChange`]), then the revision.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the change is applied wholly or not at all, and not later than the next change of the
    /// session. The next writer finds out by the id of the last change.
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>>;

    /// Adds records to the journal of the leg that runs. The revision stays.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] for a fence that is not the session's, [`StoreError::Conflict`] for another revision.
    ///
    /// # Cancel safety
    /// As [`SessionStore::commit`].
    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes a lease last so long from now on. One that has ended and that nobody took over is renewed too.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`].
    ///
    /// # Cancel safety
    /// Safe: renew again.
    fn renew<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        ttl: std::time::Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends a lease, and records the leg's last events in the same step. The revision stays. Of a lease that is lost
    /// already nothing is released or recorded, and that is no error.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the lease may last until it ends by itself.
    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets a session and all that belongs to it. One that was never stored is no error.
    ///
    /// # Errors
    /// [`StoreError::Held`] while a leg runs.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the session is there wholly or not at all; delete again.
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Lists sessions by id, at most as many as asked for; the next page begins after the last one.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>>;

    /// Reads recorded events of a session with numbers greater than `after`, oldest first, at most so many.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;

    /// A wake-up that fires after the session was changed, by whatever process. Level-triggered from now on; it may fire
    /// without need.
    fn watch(&self, session: &SessionId) -> Wakeup;
}
