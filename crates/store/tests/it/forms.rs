//! Written forms of every version, as files: what an older program left is read by this one.
//!
//! `TURNWRIGHT_UPDATE=1` writes the forms of today's version; those of older ones never change.

use std::{path::PathBuf, sync::Arc};

use turnwright_core::{CallId, Decision, Recovery, SessionId, Sources, Timestamp};
use turnwright_react_runtime::{
    Agent, Session,
    gate::AskFor,
    mailbox::{Mail, MailKind, Mailbox, Posted},
    snapshot::{SnapshotError, TurnSnapshot},
    store::{MemoryStore, SessionCommit, SessionStore},
    tool::tool,
};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn agent(store: Arc<dyn SessionStore>, replies: impl IntoIterator<Item = Reply>) -> Agent {
    let echo = |name: &str| tool(name, "", async |_ctx, args: serde_json::Value| Ok(args.to_string()));
    Agent::builder("golden", ScriptedModel::new(replies).handle())
        .sources(virtual_sources(1))
        .store(store)
        .tool(echo("look").parallel())
        .tool(echo("write").recovery(Recovery::Ask))
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap()
}

/// A turn that waits: one call ran, one is asked about.
async fn suspended(store: Arc<dyn SessionStore>) -> Session {
    let reply =
        Reply::new().text("I ask ").call("a", "look", r#"{"n":1}"#).call("b", "write", r#"{"n":2}"#).finish();
    let session = agent(store, [reply]).open_session(id()).await.unwrap();
    session.start("go").unwrap().outcome().await;
    session
}

async fn goes_on(store: Arc<dyn SessionStore>) {
    let session = agent(store, [Reply::new().text("done").finish()]).open_session(id()).await.unwrap();
    let pending: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
    assert_eq!(pending, ["b".into()]);
    session.decide(&Decision::allow(pending, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let result = session.resume().unwrap().result().await.unwrap();
    assert_eq!(result.content, "done");
    let results: Vec<_> = session
        .messages()
        .iter()
        .flat_map(|m| m.tool_results().map(|r| r.content.clone()).collect::<Vec<_>>())
        .collect();
    assert_eq!(results, [r#"{"n":1}"#, r#"{"n":2}"#]);
}

#[tokio::test]
async fn fault_k13_r5_79_snapshots_of_every_version_resume() {
    let store = Arc::new(MemoryStore::new());
    let session = suspended(store.clone()).await;
    let today = session.snapshot().unwrap().encode().unwrap();
    let current = golden(&format!("snapshot-v{}.json", TurnSnapshot::SCHEMA));
    if std::env::var_os("TURNWRIGHT_UPDATE").is_some() {
        std::fs::write(&current, &today).unwrap();
    }
    for version in 1..=TurnSnapshot::SCHEMA {
        let form = std::fs::read_to_string(golden(&format!("snapshot-v{version}.json"))).unwrap();
        let read = TurnSnapshot::decode(&form).unwrap();
        assert_eq!(read.schema, TurnSnapshot::SCHEMA, "version {version}");
        let store = Arc::new(MemoryStore::new());
        let messages = session.messages();
        let change = SessionCommit {
            messages,
            snapshot: Some(read),
            ..SessionCommit::new(id(), Sources::default().id(), 0)
        };
        store.commit(change).await.unwrap();
        goes_on(store).await;
    }
}

#[tokio::test]
async fn fault_k11_what_is_no_snapshot_is_a_typed_error() {
    let session = suspended(Arc::new(MemoryStore::new())).await;
    let form = session.snapshot().unwrap().encode().unwrap();
    assert_eq!(TurnSnapshot::decode(&form).unwrap().encode().unwrap(), form);
    // Each changed byte is noticed.
    for at in (0..form.len()).step_by(7) {
        let mut bytes = form.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(TurnSnapshot::decode(&changed).is_err() || changed == form, "byte {at}");
    }
    for at in [0, 1, 10, form.len() / 2, form.len() - 1] {
        assert!(TurnSnapshot::decode(&form[..at]).is_err());
    }
    let newer = form.replacen(r#""schema":2"#, r#""schema":3"#, 1);
    assert_eq!(TurnSnapshot::decode(&newer).unwrap_err(), SnapshotError::Newer { found: 3, known: 2 });
    let one = std::fs::read_to_string(golden("snapshot-v1.json")).unwrap();
    let lacks = one.replacen(r#""turn_start""#, r#""turn_begin""#, 1);
    let e = TurnSnapshot::decode(&lacks).unwrap_err();
    assert!(e.to_string().contains("turn_start"), "it names the field: {e}");
    assert!(matches!(
        TurnSnapshot::decode(r#"{"schema":0}"#),
        Err(SnapshotError::Malformed { version: 0, .. })
    ));
}

fn mail() -> Mail {
    let (text, answers) = ("done".into(), Some("a".into()));
    Mail { id: "m".into(), to: id(), from: "reader".into(), kind: MailKind::AgentResult, text, answers }
}

#[tokio::test]
async fn fault_k13_files_of_every_version_go_on() {
    let today = 3;
    let current = golden(&format!("store-v{today}.db"));
    if std::env::var_os("TURNWRIGHT_UPDATE").is_some() {
        let _ = std::fs::remove_file(&current);
        let store = Arc::new(SqliteStore::open(&current).unwrap());
        drop(suspended(store.clone()).await);
        store.mailbox().post(mail()).await.unwrap();
        Arc::into_inner(store).unwrap().close().await.unwrap();
        std::fs::remove_dir_all(golden(&format!("store-v{today}.db-owners"))).unwrap();
    }
    for version in 1..=today {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("s.db");
        std::fs::copy(golden(&format!("store-v{version}.db")), &path).unwrap();
        let store = Arc::new(SqliteStore::open(&path).unwrap());
        assert_eq!(store.check().await.unwrap().faults, [], "version {version}");
        // Files from before there was mail have none, and take some.
        let posted = store.mailbox().post(mail()).await.unwrap();
        assert_eq!(posted, if version < 3 { Posted::New } else { Posted::Duplicate }, "version {version}");
        assert_eq!(store.mailbox().find(&id(), "m").await.unwrap(), Some(mail()));
        goes_on(store).await;
    }
}
