//! Turns with a scripted model.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::Value;
use turnwright_core::{AgentResult, Message};
use turnwright_react_runtime::{
    Agent, AgentBuilder, Session,
    tool::{Tool, ToolContext, tool},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

/// An agent with this script, in virtual time.
pub(crate) fn agent(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    Agent::builder("agent", ScriptedModel::new(replies).handle()).sources(virtual_sources(1))
}

/// An answer that calls a tool.
pub(crate) fn calls(name: &str, arguments: &str) -> Reply {
    Reply::new().call("c", name, arguments).finish()
}

/// A tool with always the same result.
pub(crate) fn same(name: &str) -> impl Tool {
    tool(name, "", async |_: ToolContext, _: Value| Ok("same"))
}

/// A tool with a result of its own each time.
pub(crate) fn other(name: &str) -> impl Tool {
    let n = AtomicUsize::new(0);
    tool(name, "", move |_: ToolContext, _: Value| {
        let n = n.fetch_add(1, SeqCst);
        async move { Ok(n.to_string()) }
    })
}

/// Runs a turn to its end.
pub(crate) async fn ask(session: &Session) -> AgentResult {
    let mut turn = session.start("hi").unwrap();
    turn.result().await.unwrap()
}

/// The texts of a session's reminders.
pub(crate) fn reminders(session: &Session) -> Vec<String> {
    let messages = session.messages();
    messages.iter().filter(|m| turnwright_builtin::is_reminder(m)).map(|m| Message::text(m)).collect()
}
