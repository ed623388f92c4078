//! Cells that a person has to approve of, and cells whose process goes away.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use turnwright_code::Python;
use turnwright_core::{Decision, LegOutcome, SessionId, Synthetic, Timestamp, ToolResult, Verdict};
use turnwright_react_runtime::{
    Agent, Session, TurnEventKind,
    gate::AskFor,
    store::{MemoryStore, SessionStore},
};

use crate::support::{NEW, cells_by};

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// An agent of a process of its own, whose model goes on with these cells.
fn process(store: &Arc<MemoryStore>, cells: &[&str]) -> Agent {
    let agent = cells_by(&Python::default(), cells.iter().copied()).store(store.clone());
    agent.lease(Duration::from_secs(2)).gate(AskFor::tools(["code"])).build().unwrap()
}

async fn decide(session: &Session, verdict: Verdict) -> LegOutcome {
    let ids: Vec<_> = session.pending().into_iter().map(|request| request.call.id).collect();
    let decision = Decision { verdict, ..Decision::allow(ids, "ann", Timestamp::UNIX_EPOCH) };
    session.decide(&decision).await.unwrap();
    session.resume().unwrap().outcome().await
}

fn results(session: &Session) -> Vec<ToolResult> {
    session.messages().iter().flat_map(|m| m.tool_results().cloned().collect::<Vec<_>>()).collect()
}

#[tokio::test]
async fn a_cell_that_was_approved_of_runs_in_another_process_where_nothing_of_earlier_ones_is() {
    let store = Arc::new(MemoryStore::new());
    let session = process(&store, &["x = 1", "x + 1", "x + 2"]).open_session(id()).await.unwrap();
    let outcome = session.start("go").unwrap().outcome().await;
    let LegOutcome::Suspended { pending } = outcome else { panic!("{outcome:?}") };
    assert_eq!(pending[0].call.arguments_json(), r#"{"code":"x = 1"}"#, "the whole cell is shown");
    let allow = || Verdict::Allow { edit: None };
    assert!(matches!(decide(&session, allow()).await, LegOutcome::Suspended { .. }));
    assert!(matches!(decide(&session, allow()).await, LegOutcome::Suspended { .. }));
    drop(session);

    let session = process(&store, &[]).open_session(id()).await.unwrap();
    let outcome = decide(&session, allow()).await;
    assert_eq!(outcome.finished().unwrap().content, "done");
    let said: Vec<_> = results(&session).into_iter().map(|result| result.content).collect();
    assert_eq!(said[..2], [NEW, "[value] 2"]);
    assert!(said[2].starts_with(NEW) && said[2].contains("NameError: name 'x'"), "{}", said[2]);
}

#[tokio::test]
async fn a_cell_that_was_denied_does_not_run_and_one_that_was_edited_runs_as_edited() {
    let place = tempfile::tempdir().unwrap();
    let touch = |name: &str| format!("open({:?}, 'w').close()\n{name:?}", place.path().join(name));
    let (one, two) = (touch("one"), touch("two"));
    let store = Arc::new(MemoryStore::new());
    let session = process(&store, &[&one, &one]).open_session(id()).await.unwrap();
    session.start("go").unwrap().outcome().await;
    decide(&session, Verdict::Deny { reason: Some("no files".into()) }).await;
    let edit = serde_json::json!({ "code": two }).to_string();
    let outcome = decide(&session, Verdict::Allow { edit: Some(edit) }).await;
    assert_eq!(outcome.finished().unwrap().content, "done");
    let results = results(&session);
    assert!(results[0].content.contains("no files"), "{}", results[0].content);
    assert_eq!(results[1].content, format!("{NEW}\n[value] two"));
    assert!(!place.path().join("one").exists() && place.path().join("two").exists());
}

#[test]
fn a_cell_whose_process_went_away_is_in_doubt_and_does_not_run_again() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let place = tempfile::tempdir().unwrap();
    let cell = format!(
        "import time\nopen({:?}, 'a').write('x')\nprint('began', flush=True)\ntime.sleep(1000)",
        place.path().join("ran")
    );
    let store = Arc::new(MemoryStore::new());
    let agent = |cells: &[&str]| {
        let agent = cells_by(&Python::default(), cells.iter().copied()).store(store.clone());
        agent.lease(Duration::from_secs(2)).build().unwrap()
    };
    let dying = runtime();
    let handle = dying.block_on(async {
        let mut handle = agent(&[&cell]).open_session(id()).await.unwrap().start("go").unwrap();
        while let Some(event) = handle.next().await {
            if matches!(event.kind, TurnEventKind::ToolProgress { .. }) {
                break;
            }
        }
        handle
    });
    // Dropped before its process is gone, it would end the turn.
    drop(dying);
    drop(handle);
    runtime().block_on(async {
        assert!(store.load(&id()).await.unwrap().is_some());
        // Until the lease of the process that is gone has ended.
        let outcome = loop {
            let session = agent(&[]).open_session(id()).await.unwrap();
            match session.resume() {
                Ok(mut handle) => match handle.outcome().await {
                    LegOutcome::Finished(result) if result.content == "done" => break results(&session),
                    _ => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        assert_eq!(outcome[0].synthetic, Some(Synthetic::InDoubt), "{outcome:?}");
    });
    assert_eq!(std::fs::read_to_string(place.path().join("ran")).unwrap(), "x");
}
