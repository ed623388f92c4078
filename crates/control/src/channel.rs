//! The channel trait.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::watch;
use turnwright_core::{BoxFuture, CommandId, SessionId, Timestamp, panic::panic_text};

use crate::{CommandType, ControlCommand, ControlScope, Fate, Receipt};

/// Why a command was not accepted. Nothing was queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Too many commands wait.
    #[error("the control queue of {what} is full: {capacity} commands wait")]
    Full {
        /// Whose queue: a session or the channel.
        what: String,
        /// How many may wait.
        capacity: usize,
    },
    /// The type is reserved.
    #[error("APPROVAL_RESPONSE is no control command: decide through `Session::decide`, the approval API")]
    ApprovalReserved,
    /// The command contradicts itself, says nothing, or reuses the idempotency key of another one.
    #[error("invalid control command: {0}")]
    Invalid(String),
    /// The backing store failed.
    #[error("the control channel failed: {0}")]
    Backend(String),
}

/// A queue of commands, routed by session. One serves a whole deployment.
///
/// `take` and `settle` are synchronous and short, since they are called between the events of a stream; a channel with
/// a remote store keeps a local mirror.
///
/// # For implementers
/// - `send` refuses what [`validate`](crate::validate) refuses, before anything else.
/// - A command that waits and is sent again, by its id, is one command: the second send gets a receipt of the first. An id
///   that is another command's is [`SendError::Invalid`].
/// - A repeated idempotency key gets the receipt of the first command when body and scope are the same, and
///   [`SendError::Invalid`] when they are not.
/// - The queue is bounded; a full one refuses with [`SendError::Full`], and others never use up the room of an exit
///   ([`CommandType::is_exit`]).
/// - The time of acceptance is the channel's own, on the clock by which turns begin ([`Delivery::accepted_at`]).
/// - A command without a message that nobody took within its `ttl` ends as [`Fate::Expired`]; one with a message never
///   expires. Each accepted command is delivered once, and its receipt tells one fate.
/// - A scope fits when the sessions are equal, and agent and graph instance too where the command names them. Run and
///   turn are not compared: the drain gives a mismatch its fate.
/// - No lock is held while fates are told or wake-ups fire: both run code of whoever listens.
pub trait ControlChannel: Send + Sync {
    /// Accepts a command, or refuses it at once: a full queue never waits.
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the command may or may not be queued; send again with the same idempotency key.
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>>;

    /// Takes waiting commands of these types whose scope fits, highest priority first. Whoever takes a command owns
    /// its fate.
    ///
    /// # Cancel safety
    /// Synchronous. A delivery that is dropped by a caller that went away is returned to its sender.
    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery>;

    /// Takes this very command, if it waits and nobody has taken it, wherever: for a sender who wants it back. Whoever takes it owns
    /// its fate. Nothing else of the session is taken or held. A channel that cannot tell gives none, and the command waits as
    /// before.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the command is returned to its sender, or waits as before.
    fn withdraw<'a>(&'a self, session: &'a SessionId, command: CommandId) -> BoxFuture<'a, Option<Delivery>> {
        let _ = (session, command);
        Box::pin(std::future::ready(None))
    }

    /// Commands for the session that wait to be taken, as far as this channel knows of them here; in the order in which they
    /// would be. For reports: what is said may be over when it is read. A channel that cannot know says nothing.
    fn queued(&self, session: &SessionId) -> Vec<CommandId> {
        let _ = session;
        Vec::new()
    }

    /// Waits until what waits for the session, wherever it was sent, can be taken here: for whoever runs it from now on. Where all
    /// that was accepted can be taken at once, which is the default, it is ready at once.
    ///
    /// # Cancel safety
    /// Safe: what was fetched and is not taken waits for whoever listens next.
    fn fetch<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        Box::pin(std::future::ready(()))
    }

    /// A wake-up that fires when a command for the session arrives. Level-triggered from now on.
    fn wakeup(&self, session: &SessionId) -> Wakeup;
}

/// A command that was taken. Dropped without a fate it is returned, so that nothing is lost in silence.
#[derive(Debug)]
pub struct Delivery {
    /// The command.
    pub command: ControlCommand,
    accepted_at: Timestamp,
    ack: Ack,
}

impl Delivery {
    /// For channels: a command, when the channel accepted it by its own clock, and the way to tell its fate.
    pub fn new(command: ControlCommand, accepted_at: Timestamp, ack: Ack) -> Self {
        Self { command, accepted_at, ack }
    }

    /// When the channel accepted the command, by the channel's clock. An exit that names no turn is stale for turns
    /// that began later.
    pub fn accepted_at(&self) -> Timestamp {
        self.accepted_at
    }

    /// Tells the fate.
    pub fn settle(mut self, fate: Fate) {
        self.ack.tell(fate);
    }

    /// The command and its acknowledgement, apart: for whoever commits the one before telling the other.
    pub fn into_parts(self) -> (ControlCommand, Ack) {
        (self.command, self.ack)
    }
}

/// Tells the fate of one command, once.
pub struct Ack(Option<Box<dyn FnOnce(Fate) + Send + Sync>>);

impl Ack {
    /// For channels: what is called with the fate. A panic in it is caught and logged.
    pub fn new(tell: impl FnOnce(Fate) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// Tells the fate.
    pub fn settle(mut self, fate: Fate) {
        self.tell(fate);
    }

    fn tell(&mut self, fate: Fate) {
        let Some(tell) = self.0.take() else { return };
        // Whoever is told may be anybody's code: that it panics is not the turn's matter.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(fate))) {
            tracing::warn!("the sender of a command panicked when told its fate: {}", panic_text(&*panic));
        }
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        self.tell(Fate::returned("whoever took the command went away before it took effect"));
    }
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ack({})", if self.0.is_some() { "open" } else { "told" })
    }
}

/// Wakes when a command for a session arrives.
#[derive(Debug, Clone)]
pub struct Wakeup(watch::Receiver<u64>);

impl Wakeup {
    /// For channels: a wake-up and the counter that fires it.
    pub fn new(counter: &watch::Sender<u64>) -> Self {
        Self(counter.subscribe())
    }

    /// Waits for the next arrival since the last wait; for ever when the channel is gone.
    ///
    /// # Cancel safety
    /// Safe: an arrival that was not waited for is seen by the next wait.
    pub async fn arrived(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
