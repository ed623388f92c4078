//! What of a file cannot be read.

use rusqlite::Connection;
use serde::Serialize;
use turnwright_control::{ControlCommand, Fate};
use turnwright_core::{ApprovalRequest, Message, SessionId, history};
use turnwright_react_runtime::{
    mailbox::Mail,
    store::{JournalRecord, RecordedEvent, StoreError},
};

use crate::{read, write::sql};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Sessions that were read.
    pub sessions: usize,
    /// Rows that were read.
    pub rows: usize,
    /// What cannot be read; none in a file that is well.
    pub faults: Vec<Fault>,
}

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where: table, session and row.
    pub what: String,
    /// Why.
    pub why: String,
}

impl CheckReport {
    fn fault(&mut self, what: impl Into<String>, why: &impl ToString) {
        self.faults.push(Fault { what: what.into(), why: why.to_string() });
    }
}

pub(crate) fn check(db: &Connection) -> Result<CheckReport, StoreError> {
    let mut report = CheckReport::default();
    let mut pages = db.prepare("PRAGMA integrity_check").map_err(sql)?;
    let mut lines = pages.query([]).map_err(sql)?;
    while let Some(line) = lines.next().map_err(sql)? {
        let line: String = line.get(0).map_err(sql)?;
        if line != "ok" {
            report.fault("the file", &line);
        }
    }
    bodies::<Message>(db, &mut report, "messages", "position")?;
    bodies::<JournalRecord>(db, &mut report, "journal", "number")?;
    bodies::<RecordedEvent>(db, &mut report, "events", "number")?;
    texts(db, &mut report, "SELECT session, call, request FROM approvals", "approvals", |text| {
        serde_json::from_str::<ApprovalRequest>(text).map(drop)
    })?;
    texts(db, &mut report, "SELECT session, number, body FROM commands", "commands", |text| {
        serde_json::from_str::<ControlCommand>(text).map(drop)
    })?;
    texts(
        db,
        &mut report,
        "SELECT session, number, fate FROM commands WHERE fate IS NOT NULL",
        "commands (fate)",
        |text| serde_json::from_str::<Fate>(text).map(drop),
    )?;
    texts(
        db,
        &mut report,
        "SELECT id, 'rules', rules FROM sessions WHERE rules IS NOT NULL",
        "sessions",
        |text| read::rules(text).map(drop),
    )?;
    texts(
        db,
        &mut report,
        "SELECT session, number, body FROM mail WHERE body IS NOT NULL",
        "mail",
        |text| serde_json::from_str::<Mail>(text).map(drop),
    )?;
    sessions(db, &mut report)?;
    Ok(report)
}

fn bodies<T: serde::de::DeserializeOwned>(
    db: &Connection,
    report: &mut CheckReport,
    table: &str,
    key: &str,
) -> Result<(), StoreError> {
    let query = format!("SELECT session, {key}, body FROM {table}");
    texts(db, report, &query, table, |text| serde_json::from_str::<T>(text).map(drop))
}

fn texts(
    db: &Connection,
    report: &mut CheckReport,
    query: &str,
    table: &str,
    read: impl Fn(&str) -> Result<(), serde_json::Error>,
) -> Result<(), StoreError> {
    let mut find = db.prepare(query).map_err(sql)?;
    let mut rows = find.query([]).map_err(sql)?;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                report.rows += 1;
                let session: String = row.get(0).map_err(sql)?;
                let key: rusqlite::types::Value = row.get(1).map_err(sql)?;
                let key = match key {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => format!("{other:?}"),
                };
                let text = row.get_ref(2).map_err(sql)?;
                let done =
                    text.as_str().map_err(|e| e.to_string()).and_then(|t| read(t).map_err(|e| e.to_string()));
                if let Err(why) = done {
                    report.fault(format!("row {key} of session {session} in the table {table}"), &why);
                }
            }
            Ok(None) => return Ok(()),
            // A page that cannot be read ends this table, and no other.
            Err(e) => {
                report.fault(format!("the table {table}"), &e);
                return Ok(());
            }
        }
    }
}

fn sessions(db: &Connection, report: &mut CheckReport) -> Result<(), StoreError> {
    let mut find = db
        .prepare("SELECT id, messages, snapshot, (SELECT count(*) FROM messages m WHERE m.session = s.id) FROM sessions s")
        .map_err(sql)?;
    let mut rows = find.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        report.sessions += 1;
        let id: String = row.get(0).map_err(sql)?;
        let (said, found): (i64, i64) = (row.get(1).map_err(sql)?, row.get(3).map_err(sql)?);
        let form: Option<String> = row.get(2).map_err(sql)?;
        let session = match SessionId::new(id.clone()) {
            Ok(session) => session,
            Err(e) => {
                report.fault(format!("the id of session {id:?}"), &e);
                continue;
            }
        };
        if said != found {
            report
                .fault(format!("session {id}"), &format!("it should have {said} messages, and has {found}"));
        }
        match form.map(|form| read::snapshot(&session, &form)) {
            Some(Err(e)) => report.fault(format!("the open turn of session {id}"), &e),
            // The calls of an open turn are answered by its results.
            Some(Ok(_)) => {}
            None => legal(db, &session, report)?,
        }
    }
    Ok(())
}

/// Whether each call of a session without an open turn has its result.
fn legal(db: &Connection, session: &SessionId, report: &mut CheckReport) -> Result<(), StoreError> {
    let mut find = db
        .prepare_cached("SELECT position, body FROM messages WHERE session = ?1 ORDER BY position")
        .map_err(sql)?;
    let mut rows = find.query([session.as_str()]).map_err(sql)?;
    let mut messages: Vec<Message> = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        // What cannot be read was named before.
        let Ok(message) = read::body(row, session, "messages") else { return Ok(()) };
        messages.push(message);
    }
    if let Err(fault) = history::check(&messages) {
        report.fault(format!("the history of session {session}"), &fault);
    }
    Ok(())
}
