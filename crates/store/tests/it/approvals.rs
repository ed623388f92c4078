//! Who decided what.

use std::sync::Arc;

use turnwright_core::{CallId, Decision, Timestamp};
use turnwright_react_runtime::{
    Agent,
    gate::AskFor,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel};

#[tokio::test]
async fn who_decided_about_a_call_stays_known_when_it_is_asked_about_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    let replies = vec![Reply::new().call("w", "write", "{}").finish(), Reply::new().text("ok").finish()];
    let write =
        tool("write", "", async |_: ToolContext, _: serde_json::Value| Err::<(), _>(ToolError::later()));
    let agent = Agent::builder("test", ScriptedModel::new(replies).handle()).store(Arc::new(store.clone()));
    let session = agent.tool(write).gate(AskFor::tools(["write"])).build().unwrap().new_session();
    session.start("go").unwrap().outcome().await;
    session.decide(&Decision::allow([CallId::from("w")], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    // It runs, and waits for its result: a second question about the same call.
    session.resume().unwrap().outcome().await;
    session.complete("w", Ok("done".into()), "shop").await.unwrap();
    let rows = store.approvals(session.id()).await.unwrap();
    let who = rows.iter().map(|row| row.decision.as_ref().map(|decision| decision.actor.as_str()));
    assert_eq!(who.collect::<Vec<_>>(), [Some("ann"), Some("shop")]);
}
