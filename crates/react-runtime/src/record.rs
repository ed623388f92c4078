//! Records: what observers of an agent are told of.

use std::sync::Arc;

use serde::Serialize;
use turnwright_core::{Message, SessionId, Timestamp, TokenUsage, TurnId};
use turnwright_hook::observe::Observed;

use crate::event::{FinishedError, TurnEventKind};

/// One record of a turn: a message that became history, an event, or a model call. Observers
/// ([`crate::Agent::observers`]) are told of each once, in this order:
///
/// - Without a store at once, outside of every lock.
/// - With a store after the change that stored it. What could not be stored is told all the same, at the end of the leg,
///   right before its last record, and says so.
///
/// Deltas and progress are none: messages and results hold them whole. The last record of a leg is that of its
/// [`TurnEventKind::TurnFinished`]; it is told before the session is free for the next turn. A leg that is resumed after its
/// process went away has no record of what was put together from the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The leg, from 1.
    pub leg: u32,
    /// Counts from 1 within the leg, without a gap as long as somebody observes.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Whether it is in the agent's store. Without one nothing is; model calls are not kept, and count as stored with what was
    /// recorded before them.
    pub stored: bool,
    /// What it is.
    pub kind: RecordKind,
}

/// What a record is of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RecordKind {
    /// A message became history: words of the user, an answer, the result of a call, a reminder, a summary.
    Message(Arc<Message>),
    /// A model is about to be asked, before the layers of `LlmCall`. Once a logical call, however often layers repeat it: each
    /// repetition is an event ([`TurnEventKind::Retry`]).
    ModelCallStarted {
        /// Who is asked: provider and model.
        model: String,
    },
    /// The model call came to an end, after whatever layers made of it. Follows each start.
    ModelCallFinished {
        /// Tokens of all model calls of the turn so far.
        usage: TokenUsage,
        /// Why it failed, or was cut; none when there is an answer.
        error: Option<FinishedError>,
    },
    /// An event of the turn that is recorded.
    Event(TurnEventKind),
}

/// The kinds of records, to subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the records and the events they are of")]
pub enum RecordName {
    Message,
    ModelCallStarted,
    ModelCallFinished,
    TurnStarted,
    IterationStarted,
    ToolCall,
    ToolResult,
    Usage,
    Retry,
    ApprovalRequested,
    ApprovalResolved,
    InDoubt,
    Command,
    HookFailed,
    IterationFinished,
    TurnFinished,
}

impl Observed for Record {
    type Name = RecordName;

    fn name(&self) -> RecordName {
        let event = match &self.kind {
            RecordKind::Message(_) => return RecordName::Message,
            RecordKind::ModelCallStarted { .. } => return RecordName::ModelCallStarted,
            RecordKind::ModelCallFinished { .. } => return RecordName::ModelCallFinished,
            RecordKind::Event(event) => event,
        };
        // Deltas and the like are never recorded; should one be, it is told as what it belongs to.
        match event {
            TurnEventKind::TurnStarted { .. } => RecordName::TurnStarted,
            TurnEventKind::IterationStarted { .. } => RecordName::IterationStarted,
            TurnEventKind::ToolCall(_) | TurnEventKind::ToolArgsDelta { .. } => RecordName::ToolCall,
            TurnEventKind::ToolResult(_) | TurnEventKind::ToolProgress { .. } => RecordName::ToolResult,
            TurnEventKind::Usage { .. } => RecordName::Usage,
            TurnEventKind::Retry { .. } => RecordName::Retry,
            TurnEventKind::ApprovalRequested(_) => RecordName::ApprovalRequested,
            TurnEventKind::ApprovalResolved { .. } => RecordName::ApprovalResolved,
            TurnEventKind::InDoubt { .. } => RecordName::InDoubt,
            TurnEventKind::Command { .. } => RecordName::Command,
            TurnEventKind::HookFailed(_) => RecordName::HookFailed,
            TurnEventKind::IterationFinished { .. } => RecordName::IterationFinished,
            TurnEventKind::TextDelta { .. } | TurnEventKind::ReasoningDelta { .. } => RecordName::Message,
            TurnEventKind::TurnFinished(_) | TurnEventKind::Lagged { .. } => RecordName::TurnFinished,
        }
    }
}

impl TurnEventKind {
    /// Whether it is recorded: everything but deltas and progress.
    pub(crate) fn is_recorded(&self) -> bool {
        !matches!(
            self,
            Self::TextDelta { .. }
                | Self::ReasoningDelta { .. }
                | Self::ToolArgsDelta { .. }
                | Self::ToolProgress { .. }
                | Self::Lagged { .. }
        )
    }
}
