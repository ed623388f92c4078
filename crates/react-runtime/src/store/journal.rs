//! What a leg notes between two changes of its session, and the events it leaves.

use serde::{Deserialize, Serialize};
use turnwright_core::{CallId, SessionId, Timestamp, ToolResult, TurnId};

use super::Fence;

/// Records for the journal of the leg that runs.
#[derive(Debug, Clone)]
pub struct JournalAppend {
    /// The session.
    pub session: SessionId,
    /// The revision they are made on.
    pub base: u64,
    /// The leg's lease.
    pub fence: Fence,
    /// What to note, in order.
    pub records: Vec<JournalRecord>,
}

/// One record. Names and fields are append-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum JournalRecord {
    /// A tool is about to be entered. Without a result after it, nobody knows whether the call took effect.
    Intent {
        /// The call.
        call: CallId,
        /// The arguments it is entered with, where they are not those the model asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_with: Option<String>,
    },
    /// What the call came to.
    Result {
        /// The result, with the id of its call.
        result: ToolResult,
    },
    /// More of an answer that is arriving was shown.
    Shown {
        /// Which answer of the leg, from 1.
        answer: u32,
        /// More text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// More reasoning.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
    },
}

/// An event of a turn, as it is recorded: everything but deltas and progress, which history and results hold whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// The turn.
    pub turn: TurnId,
    /// When it happened.
    pub at: Timestamp,
    /// The event in its JSON form, without `seq`, `session`, `turn` and `at`.
    pub event: serde_json::Value,
}

/// A recorded event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Counts from 1 within a session; retention leaves a gap at the beginning only.
    pub number: u64,
    /// The event.
    #[serde(flatten)]
    pub recorded: RecordedEvent,
}
