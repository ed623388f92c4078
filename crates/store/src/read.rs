//! Looks at the store.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Serialize, de::DeserializeOwned};
use turnwright_core::{ApprovalRequest, Decision, SessionId, Timestamp, TurnId};
use turnwright_react_runtime::{
    approval::Rule,
    snapshot::TurnSnapshot,
    store::{
        Fence, LeaseInfo, SessionQuery, SessionStatus, SessionSummary, StoreError, StoredEvent, StoredSession,
    },
};

use crate::{
    error::corrupt,
    write::{LeaseRow, Now, sql},
};

pub(crate) fn load(
    db: &Connection,
    session: &SessionId,
    now: &Now,
) -> Result<Option<StoredSession>, StoreError> {
    // One look, so that no commit comes in between.
    let look = db.unchecked_transaction().map_err(sql)?;
    let row = look
        .prepare_cached(
            "SELECT revision, last_commit, snapshot, holder, owner, fence, until, rules FROM sessions WHERE id = ?1",
        )
        .map_err(sql)?
        .query_row([session.as_str()], |row| {
            let lease =
                LeaseRow { holder: row.get(3)?, owner: row.get(4)?, fence: row.get(5)?, until: row.get(6)? };
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Option<String>>(1)?,
                row.get::<_, Option<String>>(2)?,
                lease,
                row.get::<_, Option<String>>(7)?,
            ))
        })
        .optional()
        .map_err(sql)?;
    let Some((revision, last_commit, form, lease, rules)) = row else { return Ok(None) };
    let last_commit = match last_commit {
        Some(id) => Some(
            serde_json::from_value(id.into())
                .map_err(|e| corrupt(format!("the last commit of session {session}"), e))?,
        ),
        None => None,
    };
    Ok(Some(StoredSession {
        messages: rows(&look, session, "messages", "position")?.into_iter().map(Arc::new).collect(),
        snapshot: form.map(|form| snapshot(session, &form)).transpose()?,
        rules: match rules {
            Some(text) => {
                self::rules(&text).map_err(|e| corrupt(format!("the rules of session {session}"), e))?
            }
            None => Vec::new(),
        },
        journal: rows(&look, session, "journal", "number")?,
        lease: info(lease, now),
        revision: u64::try_from(revision).unwrap_or_default(),
        last_commit,
    }))
}

pub(crate) fn rules(text: &str) -> Result<Vec<Rule>, serde_json::Error> {
    serde_json::from_str(text)
}

pub(crate) fn snapshot(session: &SessionId, form: &str) -> Result<TurnSnapshot, StoreError> {
    TurnSnapshot::decode(form).map_err(|e| e.into_store_error(format!("the open turn of session {session}")))
}

fn info(lease: LeaseRow, now: &Now) -> Option<LeaseInfo> {
    if !lease.lasts(now) {
        return None;
    }
    let (until, fence) = (lease.until(), u64::try_from(lease.fence?).ok()?);
    Some(LeaseInfo { holder: lease.holder.unwrap_or_default(), fence: Fence(fence), until })
}

/// The bodies of a session's rows in their order; each is named should it not be readable.
fn rows<T: DeserializeOwned>(
    db: &Connection,
    session: &SessionId,
    table: &str,
    key: &str,
) -> Result<Vec<T>, StoreError> {
    let mut find = db
        .prepare_cached(&format!("SELECT {key}, body FROM {table} WHERE session = ?1 ORDER BY {key}"))
        .map_err(sql)?;
    let mut found = find.query([session.as_str()]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().map_err(sql)? {
        all.push(body(row, session, table)?);
    }
    Ok(all)
}

/// What the second column holds; the first one is the row's number.
pub(crate) fn body<T: DeserializeOwned>(
    row: &Row<'_>,
    session: &SessionId,
    table: &str,
) -> Result<T, StoreError> {
    let number: i64 = row.get(0).map_err(sql)?;
    let what = || format!("row {number} of session {session} in the table {table}");
    let text = row.get_ref(1).map_err(sql)?;
    let text = text.as_str().map_err(|e| corrupt(what(), e))?;
    serde_json::from_str(text).map_err(|e| corrupt(what(), e))
}

/// A question that a call waited with, and the decision about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalRow {
    /// The turn.
    pub turn: TurnId,
    /// The call, and what was asked about it.
    pub request: ApprovalRequest,
    /// What was decided, by whom and when; none while it waits, and where its turn ended or it expired without one.
    pub decision: Option<Decision>,
}

pub(crate) fn approvals(db: &Connection, session: &SessionId) -> Result<Vec<ApprovalRow>, StoreError> {
    let mut find = db
        .prepare_cached(
            "SELECT turn, call, request, decision FROM approvals WHERE session = ?1 ORDER BY asked_at, turn, call, question",
        )
        .map_err(sql)?;
    let mut rows = find.query([session.as_str()]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let text = |column: usize| row.get::<_, Option<String>>(column).map_err(sql);
        let call = text(1)?.unwrap_or_default();
        let what = || format!("the approval of call {call} of session {session}");
        all.push(ApprovalRow {
            turn: text(0)?.unwrap_or_default().parse().map_err(|e| corrupt(what(), e))?,
            request: serde_json::from_str(&text(2)?.unwrap_or_default()).map_err(|e| corrupt(what(), e))?,
            decision: text(3)?
                .map(|decision| serde_json::from_str(&decision).map_err(|e| corrupt(what(), e)))
                .transpose()?,
        });
    }
    Ok(all)
}

pub(crate) fn list(
    db: &Connection,
    query: &SessionQuery,
    now: &Now,
) -> Result<Vec<SessionSummary>, StoreError> {
    let mut find = db
        .prepare_cached(
            "SELECT id, revision, messages, updated_at, snapshot IS NOT NULL, running, pending, agent,
             holder, owner, fence, until FROM sessions WHERE id > ?1 ORDER BY id",
        )
        .map_err(sql)?;
    let after = query.after.as_ref().map_or("", SessionId::as_str);
    let mut found = find.query([after]).map_err(sql)?;
    let (mut all, mut alive) = (Vec::new(), HashMap::new());
    while all.len() < query.limit
        && let Some(row) = found.next().map_err(sql)?
    {
        let summary = summary(row, now, &mut alive)?;
        if query.status.is_none_or(|status| status == summary.status) {
            all.push(summary);
        }
    }
    Ok(all)
}

fn summary(
    row: &Row<'_>,
    now: &Now,
    alive: &mut HashMap<Option<String>, bool>,
) -> Result<SessionSummary, StoreError> {
    let id: String = row.get(0).map_err(sql)?;
    let lease = LeaseRow {
        holder: row.get(8).map_err(sql)?,
        owner: row.get(9).map_err(sql)?,
        fence: row.get(10).map_err(sql)?,
        until: row.get(11).map_err(sql)?,
    };
    // Many sessions have one owner, which is asked once.
    let is_held = lease.fence.is_some()
        && lease.until.is_some_and(|until| until > now.ms())
        && *alive.entry(lease.owner.clone()).or_insert_with(|| lease.lasts(now));
    let (open, running): (bool, bool) = (row.get(4).map_err(sql)?, row.get(5).map_err(sql)?);
    let pending: i64 = row.get(6).map_err(sql)?;
    let status = match (open, running) {
        _ if is_held => SessionStatus::Running,
        (false, _) => SessionStatus::Idle,
        (true, true) => SessionStatus::Interrupted,
        (true, false) if pending > 0 => SessionStatus::Suspended,
        (true, false) => SessionStatus::Drained,
    };
    let count = |column| -> Result<i64, StoreError> { row.get(column).map_err(sql) };
    Ok(SessionSummary {
        session: SessionId::new(id.clone()).map_err(|e| corrupt(format!("the id of session {id:?}"), e))?,
        status,
        messages: usize::try_from(count(2)?).unwrap_or_default(),
        revision: u64::try_from(count(1)?).unwrap_or_default(),
        agent: row.get(7).map_err(sql)?,
        pending: usize::try_from(pending).unwrap_or_default(),
        updated_at: Timestamp::from_millisecond(count(3)?).unwrap_or_default(),
    })
}

pub(crate) fn events(
    db: &Connection,
    session: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut find = db
        .prepare_cached(
            "SELECT number, body FROM events WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
        )
        .map_err(sql)?;
    let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut found = find.query(params![session.as_str(), after, limit]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().map_err(sql)? {
        let recorded = body(row, session, "events")?;
        let number: i64 = row.get(0).map_err(sql)?;
        all.push(StoredEvent { number: u64::try_from(number).unwrap_or_default(), recorded });
    }
    Ok(all)
}
