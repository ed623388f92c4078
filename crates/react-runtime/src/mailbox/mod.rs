//! Mail between agents: a durable inbox a session, delivered at least once.
//!
//! Whoever has something to say to a session that is not its own posts it, and is done when it is stored. The receiver
//! *claims* what waits, for a time; what it has made its own (in its history, and stored) it *acknowledges*, and what it
//! has not, comes again. So mail is lost by nobody's crash, and may come twice: its id says so.
//!
//! What people say to an agent goes through [`crate::input`]; what ends or guides a turn, through its control channel.

mod memory;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, CallId, SessionId};

pub use memory::MemoryMailbox;

use crate::store::StoreError;

/// What a piece of mail is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailKind {
    /// Words of another agent.
    AgentMessage,
    /// What another agent's work came to.
    AgentResult,
    /// Something from outside that wants a turn of its own: it is not folded into one that runs.
    ExternalInput,
}

impl MailKind {
    /// Those that may be folded into a turn that runs.
    pub const FOLDED: [Self; 2] = [Self::AgentMessage, Self::AgentResult];

    /// The name, for example `agent_result`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentMessage => "agent_message",
            Self::AgentResult => "agent_result",
            Self::ExternalInput => "external_input",
        }
    }
}

/// One piece of mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The sender's own id of it, 1 to 256 bytes: a second one with it, for the same session, is a duplicate.
    pub id: String,
    /// The session it is for.
    pub to: SessionId,
    /// Who sends it, in words for its reader; at most 256 bytes.
    pub from: String,
    /// What it is.
    pub kind: MailKind,
    /// What it says, 1 byte to [`Mail::MAX_TEXT`].
    pub text: String,
    /// The call of the receiver's that it answers, if it answers one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<CallId>,
}

impl Mail {
    /// The longest text, in bytes.
    pub const MAX_TEXT: usize = 64 * 1024;
    /// The longest id, and the longest name of a sender, in bytes.
    pub const MAX_ID: usize = 256;

    /// For mailboxes: whether it may be posted.
    ///
    /// # Errors
    /// [`MailError::Invalid`] saying what is wrong with it.
    pub fn check(&self) -> Result<(), MailError> {
        let invalid = |why: String| Err(MailError::Invalid(why));
        if self.id.is_empty() || self.id.len() > Self::MAX_ID {
            return invalid(format!("its id has {} bytes, not 1 to {}", self.id.len(), Self::MAX_ID));
        }
        if self.from.len() > Self::MAX_ID {
            return invalid(format!(
                "its sender has {} bytes, not at most {}",
                self.from.len(),
                Self::MAX_ID
            ));
        }
        if self.text.is_empty() || self.text.len() > Self::MAX_TEXT {
            return invalid(format!("its text has {} bytes, not 1 to {}", self.text.len(), Self::MAX_TEXT));
        }
        Ok(())
    }
}

/// Whether mail is new to its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It waits for its receiver.
    New,
    /// One with its id came before, whether that waits or was acknowledged: nothing was changed.
    Duplicate,
}

/// The right to acknowledge one piece of mail, or to give it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailClaim {
    /// The session it is for.
    pub to: SessionId,
    /// Its id.
    pub id: String,
    /// The number of the claim: another one of the same mail has a greater one.
    pub number: u64,
}

/// Mail that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The mail.
    pub mail: Mail,
    /// What it is acknowledged with.
    pub claim: MailClaim,
    /// How often it was claimed, this time included.
    pub times: u32,
}

/// Why a mailbox did not do it. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// It is no mail.
    #[error("the mail cannot be posted: {0}")]
    Invalid(String),
    /// So much mail waits for the session already.
    #[error("{capacity} pieces of mail wait for session {session} already")]
    Full {
        /// The session.
        session: SessionId,
        /// How many may wait.
        capacity: usize,
    },
    /// The store behind it failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps mail until its receiver has acknowledged it.
///
/// # For implementers
/// - Mail of a session comes in the order it was posted. What is claimed is skipped, by whoever asks.
/// - Ids of acknowledged mail are remembered, the last [`MAX_REMEMBERED`] a session; their texts are not.
/// - Each method changes all it says or nothing, and what was acknowledged survives the end of the process as far as the
///   mailbox does.
/// - Time is the mailbox's own. No waker runs under a lock of its.
/// - The methods do not block the thread that polls them.
/// - The kit in `turnwright-testkit` (`mailbox_conformance`) checks these.
pub trait Mailbox: Send + Sync {
    /// Leaves mail for a session, which need not exist yet.
    ///
    /// # Errors
    /// [`MailError::Invalid`] as [`Mail::check`] says, [`MailError::Full`] when [`MAX_WAITING`] pieces wait.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it may be posted or not: post it again, with the same id.
    fn post(&self, mail: Mail) -> BoxFuture<'_, Result<Posted, MailError>>;

    /// Takes mail of these kinds for so long, oldest first and at most `limit` pieces. Nobody else is given it meanwhile;
    /// what is neither acknowledged nor released until then is anybody's again.
    ///
    /// # Errors
    /// [`MailError::Store`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, mail may be claimed by nobody: it comes again when the time is over.
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        kinds: &'a [MailKind],
        limit: usize,
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Delivered>, MailError>>;

    /// The receiver has it: it does not come again. Says how many of these were acknowledged; a claim whose time is over
    /// counts for as long as nobody claimed the mail anew, and one that somebody did changes nothing.
    ///
    /// # Errors
    /// [`MailError::Store`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, all are acknowledged or none: acknowledge again.
    fn acknowledge<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<usize, MailError>>;

    /// Gives mail back before its time is over. Claims that somebody else has meanwhile are left alone.
    ///
    /// # Errors
    /// [`MailError::Store`].
    ///
    /// # Cancel safety
    /// As [`Mailbox::acknowledge`].
    fn release<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<(), MailError>>;

    /// Looks at one piece of mail that waits, claimed or not, and leaves it as it is; none when it was acknowledged or never
    /// posted.
    ///
    /// # Errors
    /// [`MailError::Store`].
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    fn find<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Mail>, MailError>>;

    /// Forgets a session's mail and the ids that are remembered of it.
    ///
    /// # Errors
    /// [`MailError::Store`].
    ///
    /// # Cancel safety
    /// Dropped before it is ready, all of it is forgotten or nothing; forget again.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), MailError>>;

    /// A wake-up that fires after mail for the session was posted, by whatever process. Level-triggered from now on; it may
    /// fire without need. For whoever starts a turn when mail comes.
    fn watch(&self, session: &SessionId) -> Wakeup;
}

/// Mail that may wait for one session.
pub const MAX_WAITING: usize = 1_000;
/// Ids of acknowledged mail that are remembered for one session; the oldest go first.
pub const MAX_REMEMBERED: usize = 1_000;
