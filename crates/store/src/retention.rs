//! What is forgotten, and when.

use std::time::Duration;

use rusqlite::{Transaction, params};
use turnwright_react_runtime::store::StoreError;

use crate::write::{Now, sql};

/// What a store keeps. Sessions with an open turn are always kept, whatever their age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Events a session keeps; the oldest go first. 10,000 by default.
    pub events_per_session: u32,
    /// How long a session without an open turn is kept after its last change; for ever by default.
    pub idle_sessions: Option<Duration>,
    /// How long a command is kept for the audit after it has its fate; 30 days by default.
    pub settled_commands: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            events_per_session: 10_000,
            idle_sessions: None,
            settled_commands: Duration::from_secs(30 * 24 * 3_600),
        }
    }
}

/// What a sweep forgot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions.
    pub sessions: usize,
    /// Events.
    pub events: usize,
    /// Commands.
    pub commands: usize,
}

pub(crate) fn sweep(tx: &Transaction<'_>, keep: &Retention, now: &Now) -> Result<Swept, StoreError> {
    let before = |age: Duration| now.ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let mut swept = Swept::default();
    if let Some(age) = keep.idle_sessions {
        // A lease that lasts is a leg that has just begun or is just over.
        let idle =
            "FROM sessions WHERE snapshot IS NULL AND updated_at < ?1 AND (until IS NULL OR until < ?2)";
        let times = params![before(age), now.ms()];
        tx.execute(&format!("DELETE FROM mail WHERE session IN (SELECT id {idle})"), times).map_err(sql)?;
        swept.sessions = tx.execute(&format!("DELETE {idle}"), times).map_err(sql)?;
    }
    swept.events = tx
        .execute(
            "DELETE FROM events WHERE number <= (SELECT last_event FROM sessions WHERE id = events.session) - ?1",
            [i64::from(keep.events_per_session)],
        )
        .map_err(sql)?;
    swept.commands = tx
        .execute(
            "DELETE FROM commands WHERE fate IS NOT NULL AND settled_at < ?1",
            [before(keep.settled_commands)],
        )
        .map_err(sql)?;
    Ok(swept)
}
