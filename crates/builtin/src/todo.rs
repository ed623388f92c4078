//! Todo lists of sessions: where they are kept, and the tools a model keeps them with.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Write,
    sync::Arc,
};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turnwright_core::{BoxFuture, Message, Role, SessionId, ToolResult};
use turnwright_react_runtime::tool::{Tool, ToolContext, ToolError, tool};

/// The name of the tool that writes the list.
pub const TODO_WRITE: &str = "todo_write";
/// The name of the tool that reads it.
pub const TODO_READ: &str = "todo_read";

/// Entries of a list, and characters of one.
const ENTRIES: usize = 100;
const CHARS: usize = 500;

/// How far an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Cancelled,
}

impl TodoStatus {
    /// Whether there is something left to do.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// Keeps the list of each session.
pub trait TodoStore: Send + Sync + 'static {
    /// The list of a session; empty when it has none.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Todo>, String>>;

    /// Replaces the list of a session, whole; an empty one is forgotten.
    ///
    /// # Errors
    /// Why it could not be written, in words. The list is as it was.
    fn save<'a>(&'a self, session: &'a SessionId, list: Vec<Todo>) -> BoxFuture<'a, Result<(), String>>;
}

/// Lists in memory, for the last 10,000 sessions that wrote one.
#[derive(Debug, Default)]
pub struct MemoryTodos(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    of: HashMap<SessionId, Vec<Todo>>,
    /// Who wrote when, the longest ago first.
    order: VecDeque<SessionId>,
}

impl MemoryTodos {
    /// Sessions whose lists are kept.
    pub const SESSIONS: usize = 10_000;
}

impl TodoStore for MemoryTodos {
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Todo>, String>> {
        let list = self.0.lock().of.get(session).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(list)))
    }

    fn save<'a>(&'a self, session: &'a SessionId, list: Vec<Todo>) -> BoxFuture<'a, Result<(), String>> {
        let mut lists = self.0.lock();
        if lists.of.remove(session).is_some() {
            lists.order.retain(|other| other != session);
        }
        if !list.is_empty() {
            lists.of.insert(session.clone(), list);
            lists.order.push_back(session.clone());
            if lists.order.len() > Self::SESSIONS
                && let Some(oldest) = lists.order.pop_front()
            {
                lists.of.remove(&oldest);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The whole list, in the order in which it is worked on.
    todos: Vec<Todo>,
}

/// The tools `todo_write`, which replaces the session's list as a whole, and `todo_read`.
pub fn todo_tools(store: &Arc<dyn TodoStore>) -> (impl Tool, impl Tool) {
    let (to, from) = (store.clone(), store.clone());
    let write = "Replaces your list of what is to be done, as a whole. Keep one for work of three steps or more: write it before \
        you begin, set one entry to in_progress at a time, and write it again as soon as something is done.";
    let write = tool(TODO_WRITE, write, move |ctx: ToolContext, Written { todos }: Written| {
        let to = to.clone();
        async move {
            check(&todos)?;
            let said = listed(&todos);
            to.save(ctx.turn().session(), todos).await.map_err(ToolError::model)?;
            Ok(said)
        }
    });
    let read = tool(TODO_READ, "Reads your list of what is to be done.", move |ctx: ToolContext, (): ()| {
        let from = from.clone();
        async move {
            let list = from.load(ctx.turn().session()).await.map_err(ToolError::model)?;
            Ok(listed(&list))
        }
    });
    (write, read.idempotent())
}

/// The list as the latest [`TODO_WRITE`] in a history that succeeded left it; none when there is none. For stores that begin
/// with what a session's history says, such as one in memory after the process that had the list ended.
pub fn todos_of<'a>(messages: impl DoubleEndedIterator<Item = &'a Message>) -> Option<Vec<Todo>> {
    let mut succeeded = HashSet::new();
    for message in messages.rev() {
        let results = message.tool_results().filter(|result| result.tool() == TODO_WRITE);
        succeeded.extend(results.filter(|result| !result.is_error()).map(ToolResult::call_id));
        // Of the calls of one answer the last one counts: they ran one after the other.
        let calls: Vec<_> = message.tool_calls().filter(|call| succeeded.contains(&call.id)).collect();
        let written =
            calls.iter().rev().find_map(|call| serde_json::from_str::<Written>(&call.arguments).ok());
        if let Some(Written { todos }) = written {
            return Some(todos);
        }
        // Ids are unique within a turn only.
        if message.role == Role::Assistant {
            succeeded.clear();
        }
    }
    None
}

fn check(todos: &[Todo]) -> Result<(), ToolError> {
    if todos.len() > ENTRIES {
        return Err(ToolError::model(format!(
            "the list has {} entries, {ENTRIES} are the most",
            todos.len()
        )));
    }
    for (n, todo) in todos.iter().enumerate() {
        let chars = todo.content.chars().count();
        if todo.content.trim().is_empty() {
            return Err(ToolError::model(format!("entry {} says nothing", n + 1)));
        }
        if chars > CHARS {
            let message = format!("entry {} has {chars} characters, {CHARS} are the most", n + 1);
            return Err(ToolError::model(message));
        }
    }
    Ok(())
}

/// As a model reads it.
pub(crate) fn listed(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "The list is empty.".into();
    }
    let mut text = String::new();
    for (n, todo) in todos.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}. [{}] {}", n + 1, todo.status.name(), todo.content);
    }
    text.truncate(text.trim_end().len());
    text
}
