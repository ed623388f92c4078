//! Changes, each inside a transaction that the writer's thread makes.

use std::{sync::Arc, time::Duration};

use rusqlite::{OptionalExtension, Transaction, params};
use turnwright_core::{SessionId, Timestamp};
use turnwright_react_runtime::{
    snapshot::TurnSnapshot,
    store::{Committed, Fence, JournalAppend, LeaseChange, RecordedEvent, SessionCommit, StoreError},
};

use crate::{
    error::{corrupt, store_error},
    owner::Owner,
};

/// The time of a change, and whose leases last.
pub(crate) struct Now {
    pub(crate) time: Timestamp,
    pub(crate) owner: Arc<Owner>,
    /// Events a session keeps.
    pub(crate) events: u32,
}

/// Events beyond those a session keeps before they are looked for: not with each change.
const EVENTS_BEYOND: i64 = 256;

impl Now {
    pub(crate) fn ms(&self) -> i64 {
        self.time.as_millisecond()
    }

    pub(crate) fn after(&self, ttl: Duration) -> i64 {
        self.ms().saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A lease as its row has it, whether it lasts or not.
#[derive(Default)]
pub(crate) struct LeaseRow {
    pub(crate) holder: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) fence: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl LeaseRow {
    /// Whether it lasts: by the clock, and by the sign of life of the process that took it.
    pub(crate) fn lasts(&self, now: &Now) -> bool {
        let (Some(_), Some(until)) = (self.fence, self.until) else { return false };
        until > now.ms() && !self.owner.as_deref().is_some_and(|owner| now.owner.is_dead(owner))
    }

    pub(crate) fn until(&self) -> Timestamp {
        Timestamp::from_millisecond(self.until.unwrap_or_default()).unwrap_or_default()
    }

    fn held(self, session: &SessionId) -> StoreError {
        let until = self.until();
        StoreError::Held { session: session.clone(), holder: self.holder.unwrap_or_default(), until }
    }
}

/// A session as it is before a change.
#[derive(Default)]
struct Before {
    revision: i64,
    messages: i64,
    last_event: i64,
    lease: LeaseRow,
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
pub(crate) fn sql(e: rusqlite::Error) -> StoreError {
    store_error(&e)
}

fn before(tx: &Transaction<'_>, session: &SessionId) -> Result<Option<Before>, StoreError> {
    let mut find = tx
        .prepare_cached(
            "SELECT revision, messages, last_event, holder, owner, fence, until FROM sessions WHERE id = ?1",
        )
        .map_err(sql)?;
    let row = find.query_row([session.as_str()], |row| {
        let lease =
            LeaseRow { holder: row.get(3)?, owner: row.get(4)?, fence: row.get(5)?, until: row.get(6)? };
        Ok(Before { revision: row.get(0)?, messages: row.get(1)?, last_event: row.get(2)?, lease })
    });
    row.optional().map_err(sql)
}

pub(crate) fn commit(
    tx: &Transaction<'_>,
    change: SessionCommit,
    now: &Now,
) -> Result<Committed, StoreError> {
    let SessionCommit {
        session,
        id,
        base,
        messages,
        snapshot,
        rules,
        lease,
        events,
        applied,
        journal_read,
        keeps_journal,
    } = change;
    let found = before(tx, &session)?;
    let is_new = found.is_none();
    let before = found.unwrap_or_default();
    let lease = next_lease(tx, &session, before.lease, lease, now)?;
    let revision = u64::try_from(before.revision).unwrap_or_default();
    if revision != base {
        return Err(StoreError::Conflict { session, expected: base, found: revision });
    }
    if let Some(read) = journal_read {
        let records: i64 = tx
            .prepare_cached("SELECT count(*) FROM journal WHERE session = ?1")
            .and_then(|mut count| count.query_row([session.as_str()], |row| row.get(0)))
            .map_err(sql)?;
        if usize::try_from(records).is_ok_and(|records| records > read) {
            return Err(StoreError::Grown { session });
        }
    }
    if is_new {
        tx.execute(
            "INSERT INTO sessions (id, revision, messages, last_event, updated_at, running, pending)
             VALUES (?1, 0, 0, 0, 0, 0, 0)",
            [session.as_str()],
        )
        .map_err(sql)?;
    }
    let mut insert = tx
        .prepare_cached("INSERT INTO messages (session, position, id, body) VALUES (?1, ?2, ?3, ?4)")
        .map_err(sql)?;
    for (message, position) in messages.iter().zip(before.messages..) {
        let body = json(&**message)?;
        insert.execute(params![session.as_str(), position, message.id.to_string(), body]).map_err(sql)?;
    }
    if !keeps_journal {
        tx.prepare_cached("DELETE FROM journal WHERE session = ?1")
            .and_then(|mut delete| delete.execute([session.as_str()]))
            .map_err(sql)?;
    }
    let last_event = record(tx, &session, before.last_event, &events, now)?;
    approvals(tx, &session, snapshot.as_ref(), now)?;
    let form = match &snapshot {
        Some(snapshot) => {
            Some(snapshot.encode().map_err(|e| corrupt("the snapshot that is to be stored", e))?)
        }
        None => None,
    };
    let count = before.messages + i64::try_from(messages.len()).unwrap_or_default();
    let (running, pending) = snapshot.as_ref().map_or((false, 0), |s| (s.running, s.pending()));
    tx.prepare_cached(
        "UPDATE sessions SET revision = ?2, last_commit = ?3, messages = ?4, last_event = ?5, updated_at = ?6,
         snapshot = ?7, running = ?8, pending = ?9, agent = ?10, holder = ?11, owner = ?12, fence = ?13, until = ?14
         WHERE id = ?1",
    )
    .and_then(|mut update| {
        update.execute(params![
            session.as_str(),
            before.revision + 1,
            id.to_string(),
            count,
            last_event,
            now.ms(),
            form,
            running,
            i64::try_from(pending).unwrap_or(i64::MAX),
            snapshot.as_ref().map(|s| s.agent.as_str()),
            lease.holder,
            lease.owner,
            lease.fence,
            lease.until,
        ])
    })
    .map_err(sql)?;
    if let Some(rules) = rules {
        let rules = json(&rules)?;
        tx.prepare_cached("UPDATE sessions SET rules = ?2 WHERE id = ?1")
            .and_then(|mut update| update.execute([session.as_str(), &rules]))
            .map_err(sql)?;
    }
    for command in applied {
        crate::commands::settle(tx, &command.to_string(), &turnwright_control::Fate::Applied, now.ms())?;
    }
    let fence = lease.fence.and_then(|fence| u64::try_from(fence).ok()).map(Fence);
    Ok(Committed { revision: revision + 1, fence })
}

/// The lease as it is after a change, if the change may be made.
fn next_lease(
    tx: &Transaction<'_>,
    session: &SessionId,
    lease: LeaseRow,
    change: LeaseChange,
    now: &Now,
) -> Result<LeaseRow, StoreError> {
    match change {
        LeaseChange::Keep(fence) if lease.fence == i64::try_from(fence.0).ok() => Ok(lease),
        LeaseChange::Keep(fence) => Err(StoreError::LeaseLost { session: session.clone(), fence }),
        LeaseChange::None if lease.lasts(now) => Err(lease.held(session)),
        LeaseChange::None => Ok(LeaseRow::default()),
        LeaseChange::Acquire { holder, .. } if lease.holder.as_ref() != Some(&holder) && lease.lasts(now) => {
            Err(lease.held(session))
        }
        LeaseChange::Acquire { holder, ttl } => {
            let fence = tx
                .query_row(
                    "UPDATE counters SET value = value + 1 WHERE name = 'fence' RETURNING value",
                    [],
                    |row| row.get(0),
                )
                .map_err(sql)?;
            let owner = Some(now.owner.id().to_owned());
            Ok(LeaseRow { holder: Some(holder), owner, fence: Some(fence), until: Some(now.after(ttl)) })
        }
    }
}

fn record(
    tx: &Transaction<'_>,
    session: &SessionId,
    mut last: i64,
    events: &[RecordedEvent],
    now: &Now,
) -> Result<i64, StoreError> {
    let mut insert =
        tx.prepare_cached("INSERT INTO events (session, number, body) VALUES (?1, ?2, ?3)").map_err(sql)?;
    for event in events {
        last += 1;
        insert.execute(params![session.as_str(), last, json(event)?]).map_err(sql)?;
    }
    let surplus = last - i64::from(now.events);
    if !events.is_empty() && surplus > EVENTS_BEYOND {
        tx.prepare_cached("DELETE FROM events WHERE session = ?1 AND number <= ?2")
            .and_then(|mut delete| delete.execute(params![session.as_str(), surplus]))
            .map_err(sql)?;
    }
    Ok(last)
}

/// A row for each question of the open turn, with its decision: they can be searched over sessions, and stay when the turn
/// is over.
fn approvals(
    tx: &Transaction<'_>,
    session: &SessionId,
    snapshot: Option<&TurnSnapshot>,
    now: &Now,
) -> Result<(), StoreError> {
    let Some((snapshot, transaction)) = snapshot.and_then(|s| Some((s, s.transaction.as_ref()?))) else {
        return Ok(());
    };
    let mut upsert = tx
        .prepare_cached(
            "INSERT INTO approvals (session, turn, call, tool, request, asked_at, expires_at, actor, decision, decided_at,
             question) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (session, turn, call, question) DO UPDATE SET request = excluded.request,
             expires_at = excluded.expires_at, actor = excluded.actor, decision = excluded.decision,
             decided_at = excluded.decided_at",
        )
        .map_err(sql)?;
    for request in &transaction.requests {
        let decision = transaction.decision(&request.call.id);
        upsert
            .execute(params![
                session.as_str(),
                snapshot.turn.to_string(),
                request.call.id.to_string(),
                request.call.name,
                json(request)?,
                now.ms(),
                request.expires_at.map(Timestamp::as_millisecond),
                decision.map(|d| d.actor.as_str()),
                decision.map(json).transpose()?,
                decision.map(|d| d.at.as_millisecond()),
                transaction.id.to_string(),
            ])
            .map_err(sql)?;
    }
    Ok(())
}

pub(crate) fn append(tx: &Transaction<'_>, append: JournalAppend, now: &Now) -> Result<(), StoreError> {
    let JournalAppend { session, base, fence, records } = append;
    let before = owned(tx, &session, fence)?;
    let found = u64::try_from(before.revision).unwrap_or_default();
    if found != base {
        return Err(StoreError::Conflict { session, expected: base, found });
    }
    let mut insert = tx
        .prepare_cached(
            "INSERT INTO journal (session, number, body)
             VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM journal WHERE session = ?1), ?2)",
        )
        .map_err(sql)?;
    for record in &records {
        insert.execute(params![session.as_str(), json(record)?]).map_err(sql)?;
    }
    tx.prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE id = ?1")
        .and_then(|mut update| update.execute(params![session.as_str(), now.ms()]))
        .map_err(sql)?;
    Ok(())
}

/// The session, if this is its fence.
fn owned(tx: &Transaction<'_>, session: &SessionId, fence: Fence) -> Result<Before, StoreError> {
    let found = before(tx, session)?.filter(|before| before.lease.fence == i64::try_from(fence.0).ok());
    found.ok_or_else(|| StoreError::LeaseLost { session: session.clone(), fence })
}

pub(crate) fn renew(
    tx: &Transaction<'_>,
    session: &SessionId,
    fence: Fence,
    ttl: Duration,
    now: &Now,
) -> Result<(), StoreError> {
    owned(tx, session, fence)?;
    tx.execute("UPDATE sessions SET until = ?2 WHERE id = ?1", params![session.as_str(), now.after(ttl)])
        .map_err(sql)?;
    Ok(())
}

pub(crate) fn release(
    tx: &Transaction<'_>,
    session: &SessionId,
    fence: Fence,
    events: &[RecordedEvent],
    now: &Now,
) -> Result<(), StoreError> {
    let before = match owned(tx, session, fence) {
        Err(StoreError::LeaseLost { .. }) => return Ok(()),
        owned => owned?,
    };
    let last = record(tx, session, before.last_event, events, now)?;
    tx.execute(
        "UPDATE sessions SET holder = NULL, owner = NULL, fence = NULL, until = NULL, last_event = ?2 WHERE id = ?1",
        params![session.as_str(), last],
    )
    .map_err(sql)?;
    Ok(())
}

pub(crate) fn delete(tx: &Transaction<'_>, session: &SessionId, now: &Now) -> Result<(), StoreError> {
    if let Some(before) = before(tx, session)?
        && before.lease.lasts(now)
    {
        return Err(before.lease.held(session));
    }
    tx.execute("DELETE FROM sessions WHERE id = ?1", [session.as_str()]).map_err(sql)?;
    crate::mail::forget(tx, session)?;
    crate::commands::forget(tx, session, now.ms())
}

pub(crate) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| corrupt("what is to be stored", e))
}
