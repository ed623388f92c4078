//! What happens to files: full, read-only, locked, damaged, newer, somebody else's; and to processes.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use turnwright_core::{ErrorKind, Message, SessionId, Sources};
use turnwright_react_runtime::{
    Agent,
    store::{LeaseChange, SessionCommit, SessionQuery, SessionStatus, SessionStore, StoreError},
};
use turnwright_store::{Retention, SqliteOptions, SqliteStore};
use turnwright_testkit::{Reply, ScriptedModel};

fn file() -> (TempDir, std::path::PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    (directory, path)
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn change(session: &str, base: u64, text: &str) -> SessionCommit {
    let sources = Sources::default();
    SessionCommit {
        messages: vec![Arc::new(Message::user(sources.id(), text))],
        ..SessionCommit::new(id(session), sources.id(), base)
    }
}

fn options(options: SqliteOptions, path: &Path) -> SqliteStore {
    SqliteStore::open_with(path, options, Sources::default()).unwrap()
}

/// Changes the file behind the store's back.
fn sql(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_what_was_stored_stays() {
    let (_directory, path) = file();
    // As a disk that is full: the file may not grow any further.
    let store = options(SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() }, &path);
    let (mut base, big) = (0, "x".repeat(20_000));
    let e = loop {
        match store.commit(change("s", base, &big)).await {
            Ok(done) => base = done.revision,
            Err(e) => break e,
        }
        assert!(base < 100, "it never was full");
    };
    assert!(matches!(&e, StoreError::Backend(why) if why.contains("is full")), "{e}");
    let stored = store.load(&id("s")).await.unwrap().unwrap();
    assert_eq!((stored.revision, stored.messages.len() as u64), (base, base));
    // There is room again: what was refused can be made.
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.commit(change("s", base, &big)).await.unwrap().revision, base + 1);
    assert_eq!(store.check().await.unwrap().faults, []);
}

#[tokio::test]
async fn a_turn_on_a_full_disk_ends_in_a_clear_error_with_its_text() {
    let (_directory, path) = file();
    let store = options(SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() }, &path);
    let model = ScriptedModel::new([
        Reply::new().text("y".repeat(400_000)).finish(),
        Reply::new().text("ok").finish(),
    ]);
    let agent = Agent::builder("t", model.handle()).store(Arc::new(store)).build().unwrap();
    let session = agent.open_session(id("s")).await.unwrap();
    let result = session.start("hi").unwrap().result().await.unwrap();
    let error = result.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Store);
    assert!(error.message.contains("is full"), "{}", error.message);
    assert_eq!((result.content.len(), session.messages().len()), (400_000, 2), "nothing is lost here");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_an_error() {
    let (_directory, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(change("s", 0, "one")).await.unwrap();
    store.close().await.unwrap();
    // Whoever runs as root may write any file, so it is SQLite that must not.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let refused = SqliteStore::open_with(
        &path,
        SqliteOptions { busy_timeout: Duration::from_millis(50), ..SqliteOptions::default() },
        Sources::default(),
    );
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("s.db") && words.contains("another process holds the file"), "{words}");
    drop(connection);
    let nowhere = SqliteStore::open(path.join("below").join("a.file")).unwrap_err();
    assert!(nowhere.to_string().contains("cannot be opened"), "{nowhere}");
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_an_error() {
    let (_directory, path) = file();
    let patient = SqliteStore::open(&path).unwrap();
    let hasty =
        options(SqliteOptions { busy_timeout: Duration::from_millis(50), ..SqliteOptions::default() }, &path);
    patient.commit(change("s", 0, "one")).await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let e = hasty.commit(change("s", 1, "two")).await.unwrap_err();
    assert!(matches!(&e, StoreError::Backend(why) if why.contains("another process holds the file")), "{e}");
    assert_eq!(hasty.load(&id("s")).await.unwrap().unwrap().revision, 1, "readers do not wait for writers");
    let waiting = patient.commit(change("s", 1, "two"));
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        connection.execute_batch("ROLLBACK").unwrap();
    };
    let (done, ()) = tokio::join!(waiting, release);
    assert_eq!(done.unwrap().revision, 2);
}

#[tokio::test]
async fn fault_k11_a_corrupt_row_names_itself_and_spoils_nothing_else() {
    let (_directory, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    for (session, text) in [("good", "a"), ("bad", "b"), ("worse", "c")] {
        store.commit(change(session, 0, text)).await.unwrap();
    }
    store.commit(change("bad", 1, "d")).await.unwrap();
    sql(&path, "UPDATE messages SET body = '{\"id\":7}' WHERE session = 'bad' AND position = 1");
    sql(
        &path,
        "UPDATE sessions SET snapshot = '{\"schema\":9,\"checksum\":\"\",\"snapshot\":{}}' WHERE id = 'worse'",
    );
    let bad = store.load(&id("bad")).await.unwrap_err();
    let words = bad.to_string();
    assert!(words.contains("row 1 of session bad in the table messages"), "{words}");
    let worse = store.load(&id("worse")).await.unwrap_err();
    assert!(matches!(worse, StoreError::Newer { found: 9, .. }), "{worse}");
    assert_eq!(store.load(&id("good")).await.unwrap().unwrap().messages.len(), 1);
    assert_eq!(store.list(SessionQuery::default()).await.unwrap().len(), 3, "they are listed all the same");
    let report = store.check().await.unwrap();
    let named: Vec<_> = report.faults.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(named, ["row 1 of session bad in the table messages", "the open turn of session worse"]);
    // The agent says so too, and changes nothing.
    let model = ScriptedModel::new([]);
    let agent = Agent::builder("t", model.handle()).store(Arc::new(store)).build().unwrap();
    assert!(matches!(agent.open_session(id("bad")).await, Err(StoreError::Corrupt { .. })));
}

/// A disk that lost a page: what lies elsewhere can be read, and the rest is said to be damaged.
#[tokio::test]
async fn fault_k11_damaged_pages_spoil_what_lies_on_them() {
    let (_directory, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    for n in 0..100 {
        store.commit(change(&format!("s{n:03}"), 0, &"x".repeat(3_000))).await.unwrap();
    }
    store.close().await.unwrap();
    sql(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = std::fs::read(&path).unwrap();
    let page = bytes.len() / 4_096 / 2;
    bytes[page * 4_096..(page + 1) * 4_096].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let (mut read, mut damaged) = (0, 0);
    for n in 0..100 {
        match store.load(&id(&format!("s{n:03}"))).await {
            Ok(stored) => read += stored.unwrap().messages.len(),
            Err(StoreError::Corrupt { .. }) => damaged += 1,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(read > 50 && damaged > 0, "{read} are read, {damaged} are damaged");
    assert_ne!(store.check().await.unwrap().faults, []);
}

#[tokio::test]
async fn fault_r5_79_a_newer_file_and_somebody_elses_are_not_touched() {
    let (_directory, path) = file();
    SqliteStore::open(&path).unwrap().close().await.unwrap();
    sql(&path, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
    let before = std::fs::read(&path).unwrap();
    let e = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(e.why, StoreError::Newer { found: 99, .. }), "{e}");
    assert!(e.to_string().contains("use a newer program"), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let (_directory, path) = file();
    sql(&path, "CREATE TABLE theirs (a)");
    let before = std::fs::read(&path).unwrap();
    let e = SqliteStore::open(&path).unwrap_err();
    assert!(e.to_string().contains("a database of something else"), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let (_directory, path) = file();
    std::fs::write(&path, "no database at all, and long enough to be looked at by SQLite".repeat(100))
        .unwrap();
    let e = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(e.why, StoreError::Corrupt { .. }), "{e}");
}

#[tokio::test]
async fn fault_k14_a_change_that_nobody_waits_for_any_more_is_not_made() {
    let (_directory, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(change("s", 0, "one")).await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The first is being made and waits for the lock; the second waits behind it.
    let first = tokio::spawn({
        let store = store.clone();
        async move { store.commit(change("s", 1, "two")).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = tokio::time::timeout(Duration::from_millis(50), store.commit(change("other", 0, "late")));
    assert!(second.await.is_err());
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(first.await.unwrap().unwrap().revision, 2);
    store.commit(change("s", 2, "three")).await.unwrap();
    assert!(store.load(&id("other")).await.unwrap().is_none());
}

/// The other process: takes a lease for ten minutes, says so, and waits to be killed.
#[tokio::test]
async fn helper_holds_a_lease() {
    let Ok(path) = std::env::var("TURNWRIGHT_TEST_STORE") else { return };
    let store = SqliteStore::open(&path).unwrap();
    let mut begin = change("s", 0, "mine");
    begin.lease = LeaseChange::Acquire { holder: "the other".into(), ttl: Duration::from_secs(600) };
    store.commit(begin).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn fault_r5_73_a_lease_ends_with_its_process() {
    let (_directory, path) = file();
    let store = SqliteStore::open(&path).unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::helper_holds_a_lease"])
        .env("TURNWRIGHT_TEST_STORE", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut watch = store.watch(&id("s"));
    tokio::time::timeout(Duration::from_secs(30), async {
        while store.load(&id("s")).await.unwrap().is_none() {
            watch.arrived().await;
        }
    })
    .await
    .unwrap();
    let take = || SessionCommit {
        lease: LeaseChange::Acquire { holder: "me".into(), ttl: Duration::from_secs(600) },
        ..change("s", 1, "mine now")
    };
    let e = store.commit(take()).await.unwrap_err();
    assert!(matches!(&e, StoreError::Held { holder, .. } if holder == "the other"), "{e}");
    let listed = store.list(SessionQuery::default()).await.unwrap();
    assert_eq!(listed[0].status, SessionStatus::Running);
    other.kill().unwrap();
    other.wait().unwrap();
    let listed = store.list(SessionQuery::default()).await.unwrap();
    assert_eq!(listed[0].status, SessionStatus::Idle);
    assert_eq!(store.commit(take()).await.unwrap().revision, 2);
}

#[tokio::test]
async fn fault_r8_110_what_is_kept_too_long_goes_and_open_turns_stay() {
    let (_directory, path) = file();
    let retention =
        Retention { events_per_session: 2, idle_sessions: Some(Duration::ZERO), ..Retention::default() };
    let store = options(SqliteOptions { retention, ..SqliteOptions::default() }, &path);
    let model = ScriptedModel::new([Reply::new().call("a", "write", "{}").finish()]);
    let tool = turnwright_react_runtime::tool::tool("write", "", async |_ctx, _: serde_json::Value| {
        Ok("".to_owned())
    });
    let agent = Agent::builder("t", model.handle())
        .store(Arc::new(store.clone()))
        .tool(tool)
        .gate(turnwright_react_runtime::gate::AskFor::tools(["write"]))
        .build()
        .unwrap();
    let session = agent.open_session(id("open")).await.unwrap();
    session.start("hi").unwrap().outcome().await;
    store.commit(change("idle", 0, "x")).await.unwrap();
    assert!(store.events(&id("open"), 0, 100).await.unwrap().len() > 2);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let swept = store.sweep().await.unwrap();
    assert_eq!(swept.sessions, 1);
    assert!(swept.events > 0);
    assert!(store.load(&id("idle")).await.unwrap().is_none());
    let open = store.load(&id("open")).await.unwrap().unwrap();
    assert_eq!(open.status(), SessionStatus::Suspended);
    assert_eq!(store.events(&id("open"), 0, 100).await.unwrap().len(), 2);
}

#[tokio::test]
async fn fault_k9_events_of_a_session_do_not_pile_up() {
    let (_directory, path) = file();
    let retention = Retention { events_per_session: 10, ..Retention::default() };
    let store = options(SqliteOptions { retention, ..SqliteOptions::default() }, &path);
    let event = |n: u64| turnwright_react_runtime::store::RecordedEvent {
        turn: Sources::default().id(),
        at: turnwright_core::Timestamp::UNIX_EPOCH,
        event: serde_json::json!({ "type": "usage", "n": n }),
    };
    for base in 0..20 {
        let mut change = change("s", base, "x");
        change.events = (0..50).map(|n| event(base * 50 + n)).collect();
        store.commit(change).await.unwrap();
    }
    let kept = store.events(&id("s"), 0, 10_000).await.unwrap();
    assert!(kept.len() < 400, "{}", kept.len());
    assert_eq!(kept.last().unwrap().number, 1_000, "the last ones stay");
}

#[tokio::test]
async fn fault_k18_r8_109_each_message_is_stored_once_and_keeps_its_id() {
    let (_directory, path) = file();
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let model = ScriptedModel::new(
        (0..20).map(|_| Reply::new().text("x".repeat(10_000)).finish()).collect::<Vec<_>>(),
    );
    let agent = Agent::builder("t", model.handle()).store(store.clone()).build().unwrap();
    let session = agent.open_session(id("s")).await.unwrap();
    for _ in 0..20 {
        session.start("hi").unwrap().result().await.unwrap();
    }
    let ids = |messages: &[Arc<Message>]| messages.iter().map(|m| m.id).collect::<Vec<_>>();
    let (once, twice) =
        (store.load(&id("s")).await.unwrap().unwrap(), store.load(&id("s")).await.unwrap().unwrap());
    assert_eq!(ids(&once.messages), ids(&session.messages()));
    assert_eq!(ids(&once.messages), ids(&twice.messages));
    let rows: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM messages", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 40, "rows grow with the history, not with its square");
}
