//! The tables, and how older ones become them.

use rusqlite::{Connection, TransactionBehavior};
use turnwright_react_runtime::store::StoreError;

use crate::error::store_error;

/// What marks the file as ours: `turn` in ASCII.
const APPLICATION: i32 = 0x7475_726e;

/// One step a version; the last one's number is the version of today. Steps that were released never change.
const STEPS: [&str; 3] = [V1, V2, V3];

pub(crate) const VERSION: u32 = STEPS.len() as u32;

const V1: &str = "
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('fence', 0);

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  last_commit TEXT,
  messages INTEGER NOT NULL,
  last_event INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  snapshot TEXT,
  running INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  agent TEXT,
  holder TEXT,
  owner TEXT,
  fence INTEGER,
  until INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  id TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn TEXT NOT NULL,
  call TEXT NOT NULL,
  tool TEXT NOT NULL,
  request TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  expires_at INTEGER,
  actor TEXT,
  decision TEXT,
  decided_at INTEGER,
  PRIMARY KEY (session, turn, call)
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  priority INTEGER NOT NULL,
  is_exit INTEGER NOT NULL,
  key TEXT,
  body TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  expires_at INTEGER,
  owner TEXT,
  fate TEXT,
  settled_at INTEGER
) STRICT;
CREATE INDEX commands_waiting ON commands (session) WHERE fate IS NULL;
CREATE INDEX commands_keys ON commands (session, key) WHERE key IS NOT NULL;
";

/// Tools that somebody allowed for a session.
const V2: &str = "ALTER TABLE sessions ADD COLUMN rules TEXT;";

/// Mail between agents: what was acknowledged has no body any more, and its id is remembered. And a call may be asked about more than
/// once: each question keeps who decided.
const V3: &str = "
ALTER TABLE approvals RENAME TO approvals_before;
CREATE TABLE approvals (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn TEXT NOT NULL,
  call TEXT NOT NULL,
  question TEXT NOT NULL,
  tool TEXT NOT NULL,
  request TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  expires_at INTEGER,
  actor TEXT,
  decision TEXT,
  decided_at INTEGER,
  PRIMARY KEY (session, turn, call, question)
) STRICT, WITHOUT ROWID;
INSERT INTO approvals
  SELECT session, turn, call, '', tool, request, asked_at, expires_at, actor, decision, decided_at FROM approvals_before;
DROP TABLE approvals_before;

INSERT INTO counters VALUES ('claim', 0);

CREATE TABLE mail (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL,
  id TEXT NOT NULL,
  body TEXT,
  posted_at INTEGER NOT NULL,
  times INTEGER NOT NULL,
  claim INTEGER,
  owner TEXT,
  until INTEGER,
  acknowledged_at INTEGER,
  UNIQUE (session, id)
) STRICT;
CREATE INDEX mail_waiting ON mail (session, number) WHERE body IS NOT NULL;
";

/// Brings a file up to date. One that is newer, or not ours, is not touched.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let sql = |e: rusqlite::Error| store_error(&e);
    let number = |connection: &Connection, pragma: &str| -> Result<i64, StoreError> {
        connection.pragma_query_value(None, pragma, |row| row.get(0)).map_err(sql)
    };
    let is_current = |connection: &Connection| {
        check(number(connection, "application_id")?, number(connection, "user_version")?, connection)
    };
    let is_ready = is_current(connection)?;
    // Not before that: it changes the file, and a file of something else is not touched.
    connection.pragma_update(None, "journal_mode", "WAL").map_err(sql)?;
    if is_ready {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    // Another process may have done it while we waited; it may even be a newer one.
    if is_current(&transaction)? {
        return Ok(());
    }
    let version = number(&transaction, "user_version")?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or_default()) {
        transaction.execute_batch(step).map_err(sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(sql)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(sql)?;
    transaction.commit().map_err(sql)
}

/// Whether the file is of today's version; an error for one that must not be touched.
fn check(application: i64, version: i64, connection: &Connection) -> Result<bool, StoreError> {
    let what = || "the store's file".to_owned();
    let is_ours = application == i64::from(APPLICATION);
    if !is_ours {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(|e| store_error(&e))?;
        if tables > 0 || application != 0 {
            return Err(StoreError::Corrupt {
                what: what(),
                why: "it is a database of something else".into(),
            });
        }
        return Ok(false);
    }
    match u32::try_from(version) {
        Ok(version) if version > VERSION => {
            Err(StoreError::Newer { what: what(), found: version, known: VERSION })
        }
        Ok(version) => Ok(version == VERSION),
        Err(e) => Err(StoreError::Corrupt { what: what(), why: e.to_string() }),
    }
}
