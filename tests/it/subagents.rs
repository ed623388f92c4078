//! A parent and its subagent in a file: each step by a process of its own.

use std::{path::Path, sync::Arc};

use tempfile::TempDir;
use turnwright::builtin::{Subagents, is_reminder};
use turnwright_core::{Decision, SessionId, Timestamp};
use turnwright_react_runtime::{Agent, Session, gate::AskFor, tool::tool};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel, check};

/// A process: it opens the file, does one thing with the session, and is gone.
async fn process<T>(
    file: &Path,
    (boss, writer): (&ScriptedModel, &ScriptedModel),
    does: impl AsyncFnOnce(&Session) -> T,
) -> T {
    let store = SqliteStore::open(file).unwrap();
    let write = tool("write", "", async |_ctx, (): ()| Ok("written"));
    let child = Agent::builder("writer", writer.handle()).tool(write).gate(AskFor::tools(["write"]));
    let kept = Arc::new(store.clone());
    let mailbox = Arc::new(store.mailbox());
    let (parent, subagents) = Subagents::builder(kept.clone(), mailbox, file.with_extension("outputs"))
        .agent("Writes", child)
        .build(Agent::builder("boss", boss.handle()).store(kept))
        .unwrap();
    let session = parent.open_session(SessionId::new("s").unwrap()).await.unwrap();
    let done = does(&session).await;
    drop((session, parent, subagents));
    store.close().await.unwrap();
    done
}

#[tokio::test]
async fn questions_reports_and_background_work_outlive_every_process() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("s.db");
    let call = |id: &str, more: &str| {
        Reply::new().call(id, "task", &format!(r#"{{"agent":"writer","prompt":"write"{more}}}"#)).finish()
    };
    let says = |text: &str| Reply::new().text(text).finish();
    let boss = ScriptedModel::new([
        call("a", ""),
        says("one"),
        call("b", r#","detach":true"#),
        says("two"),
        says("three"),
    ]);
    let writer = ScriptedModel::new([Reply::new().call("w", "write", "{}").finish(), says("it is written")]);
    let models = (&boss, &writer);
    process(&file, models, async |session| session.start("go").unwrap().outcome().await).await;
    process(&file, models, async |session| {
        let asked: Vec<_> = session.pending().into_iter().map(|request| request.call.id).collect();
        assert_eq!(asked, ["a/w".into()]);
        session.decide(&Decision::allow(asked, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    })
    .await;
    process(&file, models, async |session| {
        assert_eq!(session.resume().unwrap().result().await.unwrap().content, "one");
    })
    .await;
    process(&file, models, async |session| {
        session.start("in the background").unwrap().result().await.unwrap();
        // It waits for a decision, and says so by mail.
        let mut changed = session.watch().unwrap();
        changed.arrived().await;
    })
    .await;
    process(&file, models, async |session| {
        session.start("and?").unwrap().result().await.unwrap();
        let messages = session.messages();
        check::history(&messages).unwrap();
        let mail: Vec<_> = messages.iter().filter(|m| is_reminder(m)).map(|m| m.text()).collect();
        assert!(mail.len() == 1 && mail[0].contains("waits for a decision of a person"), "{mail:?}");
        let report = messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
        assert!(report.content.contains("status: completed\n"), "{}", report.content);
    })
    .await;
    let store = SqliteStore::open(&file).unwrap();
    assert_eq!(store.check().await.unwrap().faults, []);
}
