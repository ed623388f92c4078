//! The table of commands.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use turnwright_control::{ChannelLimits, ControlCommand, Fate, SendError};
use turnwright_core::{CommandId, SessionId, Timestamp};
use turnwright_react_runtime::store::StoreError;

use crate::{
    error::corrupt,
    owner::Owner,
    write::{Now, json, sql},
};

/// How long an idempotency key is remembered after its command has its fate.
const KEYS_LAST_MS: i64 = 300_000;

/// A command that this store took for itself.
pub(crate) struct Claimed {
    pub(crate) number: i64,
    pub(crate) command: ControlCommand,
    pub(crate) accepted_at: Timestamp,
    pub(crate) expires_at: Option<i64>,
}

/// A command and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// The command: who sent what, to whom, when.
    pub command: ControlCommand,
    /// When the channel accepted it.
    pub accepted_at: Timestamp,
    /// What became of it, and when.
    pub settled: Option<(Fate, Timestamp)>,
}

pub(crate) enum Accepted {
    New,
    /// The key was used before, by this command.
    Repeated(CommandId, Option<Fate>),
}

pub(crate) fn insert(
    tx: &Transaction<'_>,
    command: &ControlCommand,
    limits: &ChannelLimits,
    now: &Now,
) -> Result<Accepted, SendError> {
    let backend = |e: StoreError| SendError::Backend(e.to_string());
    expire(tx, now.ms()).map_err(backend)?;
    if let Some(again) = same(tx, command)? {
        return Ok(again);
    }
    if let Some(key) = &command.idempotency_key
        && let Some(repeated) = repeated(tx, command, key, now)?
    {
        return Ok(repeated);
    }
    room(tx, command, limits)?;
    let session = command.scope.session.as_str();
    let is_message = command.command_type().carries_message();
    let ttl = i64::try_from(command.ttl.as_millis()).unwrap_or(i64::MAX);
    let expires_at = (!is_message).then(|| now.ms().saturating_add(ttl));
    let body = json(command).map_err(backend)?;
    tx.prepare_cached(
        "INSERT INTO commands (id, session, priority, is_exit, key, body, accepted_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            command.id.to_string(),
            session,
            command.priority,
            command.command_type().is_exit(),
            command.idempotency_key,
            body,
            now.ms(),
            expires_at,
        ])
    })
    .map_err(|e| match e.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            SendError::Invalid(format!("a command with the id {} was sent before", command.id))
        }
        _ => backend(sql(e)),
    })?;
    Ok(Accepted::New)
}

/// A command that was sent before, by its id: the same one may be sent again, as often as its sender likes.
fn same(tx: &Transaction<'_>, command: &ControlCommand) -> Result<Option<Accepted>, SendError> {
    let backend = |e: StoreError| SendError::Backend(e.to_string());
    let row: Option<(String, Option<String>)> = tx
        .prepare_cached("SELECT body, fate FROM commands WHERE id = ?1")
        .and_then(|mut find| find.query_row([command.id.to_string()], |row| Ok((row.get(0)?, row.get(1)?))))
        .optional()
        .map_err(|e| backend(sql(e)))?;
    let Some((body, fate)) = row else { return Ok(None) };
    let first: ControlCommand = serde_json::from_str(&body).map_err(|e| backend(corrupt("a command", e)))?;
    if first.body != command.body || first.scope != command.scope {
        return Err(SendError::Invalid(format!("the id {} is another command's", command.id)));
    }
    let fate = fate.map(|fate| read_fate(&fate)).transpose().map_err(backend)?;
    Ok(Some(Accepted::Repeated(first.id, fate)))
}

fn repeated(
    tx: &Transaction<'_>,
    command: &ControlCommand,
    key: &str,
    now: &Now,
) -> Result<Option<Accepted>, SendError> {
    let backend = |e: StoreError| SendError::Backend(e.to_string());
    let row: Option<(String, Option<String>)> = tx
        .query_row(
            "SELECT body, fate FROM commands WHERE session = ?1 AND key = ?2 AND (fate IS NULL OR settled_at > ?3)
             ORDER BY number DESC LIMIT 1",
            params![command.scope.session.as_str(), key, now.ms() - KEYS_LAST_MS],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .map_err(|e| backend(sql(e)))?;
    let Some((body, fate)) = row else { return Ok(None) };
    let first: ControlCommand = serde_json::from_str(&body).map_err(|e| backend(corrupt("a command", e)))?;
    if first.body != command.body || first.scope != command.scope {
        let why = format!("the idempotency key {key:?} was used for another command");
        return Err(SendError::Invalid(why));
    }
    let fate = fate.map(|fate| read_fate(&fate)).transpose().map_err(backend)?;
    Ok(Some(Accepted::Repeated(first.id, fate)))
}

/// Whether one more may wait. Others never use up the room of an exit.
fn room(tx: &Transaction<'_>, command: &ControlCommand, limits: &ChannelLimits) -> Result<(), SendError> {
    let count = |what: &str, session: &str| -> Result<usize, SendError> {
        let sql = format!("SELECT count(*) FROM commands WHERE fate IS NULL AND {what}");
        let count: rusqlite::Result<i64> =
            tx.prepare_cached(&sql).and_then(|mut count| count.query_row([session], |row| row.get(0)));
        let count = count.map_err(|e| SendError::Backend(e.to_string()))?;
        Ok(usize::try_from(count).unwrap_or_default())
    };
    let session = command.scope.session.as_str();
    if command.command_type().is_exit()
        && count("is_exit AND session = ?1", session)? < ChannelLimits::EXIT_RESERVE
        && count("is_exit AND ?1 = ?1", session)? < limits.total
    {
        return Ok(());
    }
    if count("?1 = ?1", session)? >= limits.total {
        return Err(SendError::Full { what: "the channel".into(), capacity: limits.total });
    }
    if count("session = ?1", session)? >= limits.per_session {
        return Err(SendError::Full { what: format!("session {session}"), capacity: limits.per_session });
    }
    Ok(())
}

/// What waits for a session and is nobody's, or a dead process's.
/// Takes what waits for a session and is nobody's, or this one of it.
pub(crate) fn claim(
    tx: &Transaction<'_>,
    session: &SessionId,
    only: Option<CommandId>,
    now: &Now,
) -> Result<Vec<Claimed>, StoreError> {
    expire(tx, now.ms())?;
    let mut find = tx
        .prepare_cached(
            "SELECT number, body, accepted_at, expires_at, owner FROM commands
             WHERE session = ?1 AND fate IS NULL ORDER BY number",
        )
        .map_err(sql)?;
    let mut rows = find.query([session.as_str()]).map_err(sql)?;
    let mut claimed = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let owner: Option<String> = row.get(4).map_err(sql)?;
        if owner.as_deref().is_some_and(|owner| !now.owner.is_dead(owner)) {
            continue;
        }
        let (number, body): (i64, String) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
        match serde_json::from_str(&body) {
            Ok(ControlCommand { id, .. }) if only.is_some_and(|only| only != id) => {}
            Ok(command) => claimed.push(Claimed {
                number,
                command,
                accepted_at: Timestamp::from_millisecond(row.get(2).map_err(sql)?).unwrap_or_default(),
                expires_at: row.get(3).map_err(sql)?,
            }),
            // It can reach nobody, and must not keep others from it; `check` names it.
            Err(e) => tracing::warn!("row {number} of the table commands cannot be read: {e}"),
        }
    }
    let mut update = tx.prepare_cached("UPDATE commands SET owner = ?2 WHERE number = ?1").map_err(sql)?;
    for one in &claimed {
        update.execute(params![one.number, now.owner.id()]).map_err(sql)?;
    }
    Ok(claimed)
}

/// Whether something waits that could be claimed: it is nobody's, or a dead process's.
pub(crate) fn waits(db: &Connection, session: &SessionId, owner: &Owner) -> rusqlite::Result<bool> {
    let mut find =
        db.prepare_cached("SELECT DISTINCT owner FROM commands WHERE session = ?1 AND fate IS NULL")?;
    let mut rows = find.query([session.as_str()])?;
    while let Some(row) = rows.next()? {
        let of: Option<String> = row.get(0)?;
        if of.is_none_or(|of| owner.is_dead(&of)) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn fate_of(db: &Connection, id: &str) -> rusqlite::Result<Option<Fate>> {
    let fate: Option<Option<String>> = db
        .prepare_cached("SELECT fate FROM commands WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(fate.flatten().and_then(|fate| read_fate(&fate).ok()))
}

fn read_fate(text: &str) -> Result<Fate, StoreError> {
    serde_json::from_str(text).map_err(|e| corrupt("the fate of a command", e))
}

/// Tells a fate, once: a second one changes nothing.
pub(crate) fn settle(tx: &Transaction<'_>, id: &str, fate: &Fate, now: i64) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE commands SET fate = ?2, settled_at = ?3 WHERE id = ?1 AND fate IS NULL")
        .and_then(|mut update| update.execute(params![id, json(fate).unwrap_or_default(), now]))
        .map_err(sql)?;
    Ok(())
}

/// Ends what nobody claimed in time.
pub(crate) fn expire(tx: &Transaction<'_>, now: i64) -> Result<(), StoreError> {
    let fate = json(&Fate::Expired)?;
    tx.prepare_cached(
        "UPDATE commands SET fate = ?1, settled_at = ?2
         WHERE fate IS NULL AND owner IS NULL AND expires_at IS NOT NULL AND expires_at <= ?2",
    )
    .and_then(|mut update| update.execute(params![fate, now]))
    .map_err(sql)?;
    Ok(())
}

/// A session is deleted: what waits for it goes back.
pub(crate) fn forget(tx: &Transaction<'_>, session: &SessionId, now: i64) -> Result<(), StoreError> {
    let fate = json(&Fate::returned("the session was deleted"))?;
    tx.execute(
        "UPDATE commands SET fate = ?2, settled_at = ?3 WHERE session = ?1 AND fate IS NULL",
        params![session.as_str(), fate, now],
    )
    .map_err(sql)?;
    Ok(())
}

pub(crate) fn audit(db: &Connection, session: &SessionId, limit: i64) -> Result<Vec<AuditRow>, StoreError> {
    let mut find = db
        .prepare_cached(
            "SELECT number, body, accepted_at, fate, settled_at FROM commands WHERE session = ?1 ORDER BY number LIMIT ?2",
        )
        .map_err(sql)?;
    let mut rows = find.query(params![session.as_str(), limit]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let fate: Option<String> = row.get(3).map_err(sql)?;
        let time = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default();
        let settled = match fate {
            Some(fate) => {
                let at: Option<i64> = row.get(4).map_err(sql)?;
                Some((read_fate(&fate)?, time(at.unwrap_or_default())))
            }
            None => None,
        };
        all.push(AuditRow {
            command: crate::read::body(row, session, "commands")?,
            accepted_at: time(row.get(2).map_err(sql)?),
            settled,
        });
    }
    Ok(all)
}
