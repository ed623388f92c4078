//! Commands and whom they are for.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use turnwright_core::{CommandId, Part, RunId, SessionId, Sources, Timestamp, TurnId};

/// The type of a command. Names in JSON are the ones of the protocol, for example `CANCEL_TURN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CommandType {
    /// End the running turn at once.
    CancelTurn,
    /// End the whole agent run and its children.
    CancelRun,
    /// Stop the running turn at its next step boundary, resumable. The fate [`Applied`](crate::Fate::Applied) means
    /// that the turn was asked: it may still end another way before it gets there, and its last event says how it did.
    DrainTurn,
    /// Guidance for the running turn, before its next model call.
    InjectSteer,
    /// A follow-up, when the running turn would end.
    InjectUserMessage,
    /// Pause a graph instance.
    PauseGraph,
    /// Stop a graph instance.
    StopGraph,
    /// Resume a paused graph instance.
    ResumeGraph,
    /// Deliver a message to a node of a graph instance.
    DeliverToNode,
    /// Reserved: refused by every channel. Decisions go through the approval API.
    ApprovalResponse,
}

impl CommandType {
    /// Whether it carries a message. Such a command never expires: it is applied or returned.
    pub fn carries_message(self) -> bool {
        matches!(self, Self::InjectSteer | Self::InjectUserMessage | Self::DeliverToNode)
    }

    /// Whether it ends, drains or pauses something. Channels keep room for such a command when others fill the queue.
    pub fn is_exit(self) -> bool {
        matches!(
            self,
            Self::CancelTurn | Self::CancelRun | Self::DrainTurn | Self::PauseGraph | Self::StopGraph
        )
    }

    /// Whether it is for a graph instance.
    pub fn is_for_graph(self) -> bool {
        matches!(self, Self::PauseGraph | Self::StopGraph | Self::ResumeGraph | Self::DeliverToNode)
    }
}

/// What a command asks, with its payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CommandBody {
    /// End the running turn at once.
    CancelTurn {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// End the whole agent run and its children.
    CancelRun {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Stop at the next step boundary, resumable. Applied means asked, see [`CommandType::DrainTurn`].
    DrainTurn,
    /// Guidance for the running turn.
    InjectSteer {
        /// The message: text and images, at least one part.
        parts: Vec<Part>,
    },
    /// A follow-up.
    InjectUserMessage {
        /// The message: text and images, at least one part.
        parts: Vec<Part>,
    },
    /// Pause a graph instance.
    PauseGraph,
    /// Stop a graph instance.
    StopGraph,
    /// Resume a paused graph instance.
    ResumeGraph,
    /// Deliver a message to a node.
    DeliverToNode {
        /// The node.
        node: String,
        /// The message: text and images, at least one part.
        parts: Vec<Part>,
    },
    /// Reserved.
    ApprovalResponse,
}

impl CommandBody {
    /// What it says, if it carries a message.
    pub fn message(&self) -> Option<&[Part]> {
        match self {
            Self::InjectSteer { parts }
            | Self::InjectUserMessage { parts }
            | Self::DeliverToNode { parts, .. } => Some(parts),
            _ => None,
        }
    }

    /// The type of the command.
    pub fn command_type(&self) -> CommandType {
        match self {
            Self::CancelTurn { .. } => CommandType::CancelTurn,
            Self::CancelRun { .. } => CommandType::CancelRun,
            Self::DrainTurn => CommandType::DrainTurn,
            Self::InjectSteer { .. } => CommandType::InjectSteer,
            Self::InjectUserMessage { .. } => CommandType::InjectUserMessage,
            Self::PauseGraph => CommandType::PauseGraph,
            Self::StopGraph => CommandType::StopGraph,
            Self::ResumeGraph => CommandType::ResumeGraph,
            Self::DeliverToNode { .. } => CommandType::DeliverToNode,
            Self::ApprovalResponse => CommandType::ApprovalResponse,
        }
    }
}

/// Whom a command is for, or who drains. What a command leaves out matches everything; the session always matches
/// exactly.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ControlScope {
    /// The session.
    pub session: SessionId,
    /// The agent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The graph instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_instance: Option<String>,
}

impl ControlScope {
    /// Everything of a session.
    pub fn session(session: SessionId) -> Self {
        Self { session, run: None, agent: None, turn: None, graph_instance: None }
    }

    /// One turn of a session.
    pub fn turn(session: SessionId, turn: TurnId) -> Self {
        Self { turn: Some(turn), ..Self::session(session) }
    }

    /// For channels: whether a command with this scope is for whoever drains with that one. Agent and graph instance are
    /// compared when the command names them; run and turn are the drain's to judge, since a mismatch there has a fate of
    /// its own.
    pub fn fits(&self, drainer: &Self) -> bool {
        fn same<T: PartialEq>(command: &Option<T>, drainer: &Option<T>) -> bool {
            command.is_none() || command == drainer
        }
        self.session == drainer.session
            && same(&self.agent, &drainer.agent)
            && same(&self.graph_instance, &drainer.graph_instance)
    }

    /// A graph instance.
    pub fn graph(session: SessionId, instance: impl Into<String>) -> Self {
        Self { graph_instance: Some(instance.into()), ..Self::session(session) }
    }
}

impl fmt::Debug for ControlScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.session)?;
        if let Some(turn) = self.turn {
            write!(f, "/{turn}")?;
        }
        Ok(())
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlCommand {
    /// Its id.
    pub id: CommandId,
    /// What is asked.
    pub body: CommandBody,
    /// Whom it is for.
    pub scope: ControlScope,
    /// Who asks; carried into the terminal event of what it ends.
    pub actor: String,
    /// Higher goes first; equal ones in the order they were sent. 0 by default.
    pub priority: i32,
    /// How long it may wait to be taken; 300 s by default. Not read on commands that carry a message.
    pub ttl: Duration,
    /// A second command of the session with the same key, body and scope is the same command: it is not queued again
    /// and gets the receipt of the first. With another body or scope it is refused.
    pub idempotency_key: Option<String>,
    /// Ties the command to whatever the sender likes.
    pub correlation_id: Option<String>,
    /// When it was made, by the sender's clock. For people and logs: whether a command is too old is decided by
    /// [`Delivery::accepted_at`](crate::Delivery::accepted_at).
    pub created_at: Timestamp,
}

impl ControlCommand {
    /// How long a command without a message waits, unless it says otherwise (the seed's 300 s).
    pub const DEFAULT_TTL: Duration = Duration::from_secs(300);

    /// A command made now by this actor.
    pub fn new(sources: &Sources, scope: ControlScope, actor: impl Into<String>, body: CommandBody) -> Self {
        Self {
            id: sources.id(),
            body,
            scope,
            actor: actor.into(),
            priority: 0,
            ttl: Self::DEFAULT_TTL,
            idempotency_key: None,
            correlation_id: None,
            created_at: sources.clock.now(),
        }
    }

    /// The same command with another priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The same command with another lifetime.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The same command with an idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Its type.
    pub fn command_type(&self) -> CommandType {
        self.body.command_type()
    }
}
