//! One change of a session.

use std::sync::Arc;

use turnwright_core::{CommandId, Id, Message, SessionId};

use super::{Fence, LeaseChange, RecordedEvent};
use crate::{approval::Rule, snapshot::TurnSnapshot};

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
    /// The session's rules from now on; none when they stay as they are.
    pub rules: Option<Vec<Rule>>,
    /// By what right, and who may write from now on.
    pub lease: LeaseChange,
    /// Events of the turn since the last change, to be read again with [`super::SessionStore::events`].
    pub events: Vec<RecordedEvent>,
    /// Commands whose messages are among these. A store that keeps the control channel too marks them as applied in the
    /// same step; others have nothing to do.
    pub applied: Vec<CommandId>,
    /// How many records the writer read from the journal of a leg that was another's. Where there are more by now, that leg
    /// went on, and the change is refused with [`StoreError::Grown`](super::StoreError::Grown). None where nobody else can have
    /// written one on this revision.
    pub journal_read: Option<usize>,
    /// Whether the journal stays: a change beside an interrupted turn, which does not take it up. Else what the journal says is
    /// in the change, or of no use any more, and it is emptied.
    pub keeps_journal: bool,
}

impl SessionCommit {
    /// A change that appends nothing and leaves no turn open, under nobody's lease.
    pub fn new(session: SessionId, id: CommitId, base: u64) -> Self {
        Self {
            session,
            id,
            base,
            messages: Vec::new(),
            snapshot: None,
            rules: None,
            lease: LeaseChange::None,
            events: Vec::new(),
            applied: Vec::new(),
            journal_read: None,
            keeps_journal: false,
        }
    }
}

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The revision from now on.
    pub revision: u64,
    /// The lease from now on; none for a session that nobody holds.
    pub fence: Option<Fence>,
}
