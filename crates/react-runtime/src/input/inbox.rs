//! Submitting messages.

use std::time::Duration;

use turnwright_control::{CommandBody, ControlCommand, ControlScope, SendError};
use turnwright_core::{Part, SessionId};

use super::{
    Ticket,
    command::{self, Command, CommandDone},
};
use crate::{
    Agent, DecideError, Input, Session, StartError, TurnHandle, approval::Unclear, store::StoreError,
};

/// How long a turn that is interrupted may take to end before the message that took its place is refused.
const LET_GO: Duration = Duration::from_secs(10);

/// What a message means to a turn that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BusyMode {
    /// It drops the turn and starts another one.
    Interrupt,
    /// It waits until the turn would end: a follow-up.
    #[default]
    Queue,
    /// It guides the turn.
    Steer,
    /// It is refused.
    Reject,
}

/// What somebody says.
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    /// Text and images.
    pub parts: Vec<Part>,
    /// The sender's own id: a second message of the session with it is a duplicate. Without one none is.
    pub id: Option<String>,
    /// Who says it.
    pub actor: String,
    /// What it means to a turn that runs, where it is not what it usually means.
    pub mode: Option<BusyMode>,
}

impl UserMessage {
    /// Text of somebody.
    pub fn text(text: impl Into<String>, actor: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], id: None, actor: actor.into(), mode: None }
    }

    /// The same, with the sender's own id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The same, in another mode.
    #[must_use]
    pub fn mode(mut self, mode: BusyMode) -> Self {
        self.mode = Some(mode);
        self
    }

    fn input(&self) -> Input {
        Input { parts: self.parts.clone(), key: self.id.clone() }
    }
}

/// What became of a message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Submitted {
    /// It started a turn.
    Started(TurnHandle),
    /// It waits to land in the turn that runs or waits. The ticket says what becomes of it.
    Waits(Ticket),
    /// It was a command.
    Command(CommandDone),
    /// A message with this id came before.
    Duplicate,
}

/// Why a message was refused: it is the caller's again, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A turn runs, and the mode is to refuse; or another message was quicker.
    #[error("a turn of the session runs")]
    Busy,
    /// So many messages wait already.
    #[error("{capacity} messages wait for the session already")]
    Full {
        /// How many may wait.
        capacity: usize,
    },
    /// It cannot wait: the agent takes no commands.
    #[error("the agent has no control channel, so that nothing can wait for a turn")]
    NoChannel,
    /// The turn that was to be interrupted did not end in time.
    #[error("the turn that runs did not let go within {0:?}")]
    Stuck(Duration),
    /// It reads as a decision, and is none.
    #[error(transparent)]
    Unclear(#[from] Unclear),
    /// The decision was not taken.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// No turn was started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The channel did not take it.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The session could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A sender's id, which may come again unless its message was taken: also when nobody waits for that any more.
struct Remembered<'a> {
    session: &'a Session,
    id: Option<&'a str>,
}

impl Drop for Remembered<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.session.0.forget_key(id);
        }
    }
}

/// The door of an agent for messages. Cheap to clone; it keeps nothing but what waits.
#[derive(Debug, Clone)]
pub struct Inbox {
    agent: Agent,
    mode: BusyMode,
    capacity: usize,
    commands: bool,
}

impl Inbox {
    /// Messages that may wait for a session, unless [`Inbox::capacity`] says otherwise.
    pub const DEFAULT_CAPACITY: usize = 50;

    /// The door of this agent. Messages for a running turn wait; words that are commands are taken as such.
    pub fn new(agent: Agent) -> Self {
        Self { agent, mode: BusyMode::default(), capacity: Self::DEFAULT_CAPACITY, commands: true }
    }

    /// What a message means to a turn that runs. It waits, by default.
    #[must_use]
    pub fn mode(mut self, mode: BusyMode) -> Self {
        self.mode = mode;
        self
    }

    /// How many messages may wait for a session. 50 by default; the bounds of the channel hold beside it.
    #[must_use]
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Takes every text as a message, also one that reads as a command.
    #[must_use]
    pub fn without_commands(mut self) -> Self {
        self.commands = false;
        self
    }

    /// Takes a message for a session.
    ///
    /// # Errors
    /// [`Refused`]; the message is the caller's again.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the message may be on its way to a turn that runs, and nothing else has become of it: submit it
    /// again with the same id. The channel knows it by that id, and it is queued once.
    pub async fn submit(&self, session: &SessionId, message: UserMessage) -> Result<Submitted, Refused> {
        let session = self.agent.open_session(session.clone()).await?;
        if self.commands
            && let [Part::Text { text }] = &message.parts[..]
            && let Some(command) = Command::parse(text, &session.pending())?
        {
            return command::run(&session, command, &message.actor).await.map(Submitted::Command);
        }
        if let Some(id) = &message.id
            && !session.0.is_new(id)
        {
            return Ok(Submitted::Duplicate);
        }
        let mut remembered = Remembered { session: &session, id: message.id.as_deref() };
        let taken = self.take(&session, &message).await?;
        remembered.id = None;
        Ok(taken)
    }

    async fn take(&self, session: &Session, message: &UserMessage) -> Result<Submitted, Refused> {
        let mode = message.mode.unwrap_or(self.mode);
        // Whether a turn runs and the start of one are one step: of many at once, one starts.
        match (session.start(message.input()), mode) {
            (Ok(turn), _) => Ok(Submitted::Started(turn)),
            (Err(StartError::Busy | StartError::Parked), BusyMode::Reject) => Err(Refused::Busy),
            (Err(StartError::Busy), BusyMode::Interrupt) => {
                let Some(running) = session.0.running() else { return Err(Refused::Busy) };
                running.interrupt.cancel(command::superseded(&message.actor));
                let mut outcome = running.outcome.clone();
                let ended = tokio::time::timeout(LET_GO, outcome.wait_for(Option::is_some)).await;
                ended.map_err(|_| Refused::Stuck(LET_GO))?.ok();
                self.start_anew(session, message).await
            }
            (Err(StartError::Parked), BusyMode::Interrupt) => {
                session.cancel_parked(command::superseded(&message.actor))?.outcome().await;
                self.start_anew(session, message).await
            }
            (Err(StartError::Busy | StartError::Parked), BusyMode::Queue | BusyMode::Steer) => {
                self.wait(session, message, mode).await.map(Submitted::Waits)
            }
            (Err(e), _) => Err(e.into()),
        }
    }

    /// The session is free, unless another message was quicker.
    async fn start_anew(&self, session: &Session, message: &UserMessage) -> Result<Submitted, Refused> {
        match session.start(message.input()) {
            Ok(turn) => Ok(Submitted::Started(turn)),
            Err(StartError::Busy) => Err(Refused::Busy),
            Err(e) => Err(e.into()),
        }
    }

    async fn wait(
        &self,
        session: &Session,
        message: &UserMessage,
        mode: BusyMode,
    ) -> Result<Ticket, Refused> {
        let inner = &self.agent.0;
        let channel = inner.channel.clone().ok_or(Refused::NoChannel)?;
        let place = session.0.queue_for(self.capacity).ok_or(Refused::Full { capacity: self.capacity })?;
        let parts = message.parts.clone();
        let body = match mode {
            BusyMode::Steer => CommandBody::InjectSteer { parts },
            _ => CommandBody::InjectUserMessage { parts },
        };
        let scope = ControlScope::session(session.id().clone());
        let mut command = ControlCommand::new(&inner.sources, scope, &message.actor, body);
        command.idempotency_key.clone_from(&message.id);
        let receipt = channel.send(command).await?;
        Ok(Ticket::new(session.clone(), message.input(), receipt, place))
    }
}
