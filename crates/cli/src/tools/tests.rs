//! Calling tools as an agent does, with nobody to ask.

use std::{fs, path::Path, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use turnwright::testkit::{Reply, ScriptedModel};
use turnwright::{Agent, ToolContext, ToolError, ToolResult, TurnEventKind, TurnHandle, tool};

use super::*;

/// A turn that makes these calls, one after the other.
pub(super) fn turn(root: &Path, calls: &[(&str, Value)]) -> TurnHandle {
    let each = calls.iter().enumerate().fold(Reply::new(), |reply, (n, (name, arguments))| {
        reply.call(&format!("c{n}"), name, &arguments.to_string())
    });
    let model = ScriptedModel::new([each.finish(), Reply::new().text("done").finish()]);
    let workspace = Workspace::open(root).unwrap();
    let agent = Agent::builder("a", model.handle()).tool(write_file(&workspace)).tool(edit_file(&workspace));
    #[cfg(unix)]
    let agent = agent.tool(shell(&workspace));
    agent.build().unwrap().new_session().start("hi").unwrap()
}

pub(super) async fn results(mut turn: TurnHandle) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(event) = turn.next().await {
        if let TurnEventKind::ToolResult(result) = event.kind {
            results.push(result);
        }
    }
    results
}

pub(super) async fn call(root: &Path, tool: &str, arguments: Value) -> ToolResult {
    let results =
        tokio::time::timeout(Duration::from_secs(60), results(turn(root, &[(tool, arguments)]))).await;
    results.expect("the call hangs").remove(0)
}

/// The result of a call that must go well.
pub(super) async fn told(root: &Path, tool: &str, arguments: Value) -> String {
    let result = call(root, tool, arguments).await;
    assert!(!result.is_error(), "{}", result.content);
    result.content
}

/// The error of a call that must not, which must not name the root's own path.
pub(super) async fn refused(root: &Path, tool: &str, arguments: Value) -> String {
    let result = call(root, tool, arguments).await;
    assert!(result.is_error(), "{}", result.content);
    let path = root.canonicalize().unwrap();
    assert!(!result.content.contains(path.to_str().unwrap()), "{}", result.content);
    result.content
}

/// The context of a call that is over.
pub(super) async fn context_of_a_past_call() -> ToolContext {
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let keeps = tool("keep", "", move |ctx: ToolContext, ()| {
        let kept = tx.send(ctx);
        async move { kept.map(|()| "kept").map_err(|_| ToolError::model("nobody keeps it")) }
    });
    let model = ScriptedModel::new([
        Reply::new().call("c", "keep", "{}").finish(),
        Reply::new().text("done").finish(),
    ]);
    let agent = Agent::builder("a", model.handle()).tool(keeps).build().unwrap();
    results(agent.new_session().start("hi").unwrap()).await;
    rx.recv().await.unwrap()
}

/// `root` and `outside`, beside each other.
pub(super) fn tree() -> TempDir {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("root")).unwrap();
    fs::create_dir(base.path().join("outside")).unwrap();
    base
}

/// Every name below a directory, sorted.
pub(super) fn names(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(self::names(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        }
        names.push(name);
    }
    names.sort();
    names
}

#[test]
fn gated_tools_are_those_that_change_something() {
    use turnwright::{Tool, core::Concurrency};
    let workspace = Workspace::open(".".as_ref()).unwrap();
    let mut definitions = vec![write_file(&workspace).definition(), edit_file(&workspace).definition()];
    #[cfg(unix)]
    definitions.push(shell(&workspace).definition());
    for tool in definitions {
        assert!(GATED.contains(&tool.name.as_str()), "{}", tool.name);
        assert!(!tool.idempotent && tool.concurrency == Concurrency::Exclusive, "{}", tool.name);
    }
    let harmless = [
        read_file(&workspace).definition(),
        list_dir(&workspace).definition(),
        search(&workspace).definition(),
        current_time().definition(),
    ];
    assert!(harmless.iter().all(|tool| tool.idempotent && !GATED.contains(&tool.name.as_str())));
}

#[tokio::test]
async fn an_option_that_does_not_exist_is_refused() {
    let base = tree();
    let root = base.path().join("root");
    let why = refused(&root, "write_file", json!({ "path": "a", "content": "b", "mode": "append" })).await;
    assert!(why.contains("unknown field `mode`"), "{why}");
    assert_eq!(names(&root), [""; 0]);
}
