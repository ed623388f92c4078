//! Turns whose model runs cells.

use turnwright_code::{Python, code};
use turnwright_core::ToolResult;
use turnwright_react_runtime::{Agent, AgentBuilder, Session};
use turnwright_testkit::{Reply, ScriptedModel};

/// An agent whose model runs these cells, one an answer, and then says that it is done.
pub(crate) fn cells_by<'a>(python: &Python, cells: impl IntoIterator<Item = &'a str>) -> AgentBuilder {
    let mut replies: Vec<Reply> = cells
        .into_iter()
        .enumerate()
        .map(|(n, cell)| {
            Reply::new()
                .call(&format!("c{n}"), "code", &serde_json::json!({ "code": cell }).to_string())
                .finish()
        })
        .collect();
    replies.push(Reply::new().text("done").finish());
    Agent::builder("test", ScriptedModel::new(replies).handle()).tool(code(python.clone()))
}

/// The results of a turn with these cells.
pub(crate) async fn run_by<'a>(python: &Python, cells: impl IntoIterator<Item = &'a str>) -> Vec<ToolResult> {
    turn(&cells_by(python, cells).build().unwrap().new_session()).await
}

pub(crate) async fn run<'a>(cells: impl IntoIterator<Item = &'a str>) -> Vec<ToolResult> {
    run_by(&Python::default(), cells).await
}

/// The results of one turn.
pub(crate) async fn turn(session: &Session) -> Vec<ToolResult> {
    let before = session.messages().len();
    let outcome = session.start("go").unwrap().outcome().await;
    let result = outcome.finished().unwrap();
    assert_eq!(result.content, "done", "{result:?}");
    let messages = session.messages();
    messages[before..].iter().flat_map(|message| message.tool_results()).cloned().collect()
}

pub(crate) fn texts(results: &[ToolResult]) -> Vec<&str> {
    results.iter().map(|result| result.content.as_str()).collect()
}

/// What a first cell begins with.
pub(crate) const NEW: &str = "[a new interpreter: nothing of earlier cells is there]";
