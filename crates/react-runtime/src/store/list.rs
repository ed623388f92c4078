//! Listing sessions.

use serde::{Deserialize, Serialize};
use turnwright_core::{SessionId, Timestamp};

use super::StoredSession;
use crate::snapshot::TurnSnapshot;

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    /// Those with a greater id than this one.
    pub after: Option<SessionId>,
    /// At most so many. 100 by default.
    pub limit: usize,
    /// Those that stand so; all by default.
    pub status: Option<SessionStatus>,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self { after: None, limit: 100, status: None }
    }
}

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No turn is open.
    Idle,
    /// A leg runs: its lease lasts.
    Running,
    /// A turn waits for decisions, answers or results.
    Suspended,
    /// A turn was stopped at a step boundary.
    Drained,
    /// The process that ran the leg is gone, or has not written since its lease ended.
    Interrupted,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id.
    pub session: SessionId,
    /// How it stands.
    pub status: SessionStatus,
    /// How many messages it has.
    pub messages: usize,
    /// Counts its changes.
    pub revision: u64,
    /// The agent of the open turn.
    pub agent: Option<String>,
    /// How many calls of the open turn wait.
    pub pending: usize,
    /// When it was changed last, by the store's clock.
    pub updated_at: Timestamp,
}

impl StoredSession {
    /// How it stands.
    pub fn status(&self) -> SessionStatus {
        match (&self.snapshot, &self.lease) {
            (_, Some(_)) => SessionStatus::Running,
            (None, None) => SessionStatus::Idle,
            (Some(snapshot), None) if snapshot.running => SessionStatus::Interrupted,
            (Some(snapshot), None) if snapshot.pending() > 0 => SessionStatus::Suspended,
            (Some(_), None) => SessionStatus::Drained,
        }
    }

    /// As a line of a list.
    pub fn summary(&self, session: SessionId, updated_at: Timestamp) -> SessionSummary {
        SessionSummary {
            session,
            status: self.status(),
            messages: self.messages.len(),
            revision: self.revision,
            agent: self.snapshot.as_ref().map(|s| s.agent.clone()),
            pending: self.snapshot.as_ref().map_or(0, TurnSnapshot::pending),
            updated_at,
        }
    }
}
