//! A parent and its subagents.

mod ends;
mod inherits;
mod questions;
mod star;
mod tasks;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use tempfile::TempDir;
use turnwright_builtin::{Subagents, SubagentsBuilder};
use turnwright_core::{Message, SessionId, ToolResult};
use turnwright_react_runtime::{
    Agent, AgentBuilder, Session,
    mailbox::{Mail, MailKind, Mailbox, MemoryMailbox},
    store::{MemoryStore, SessionStore},
    tool::tool,
};
use turnwright_testkit::{Reply, ScriptedModel, check, virtual_sources};

/// What outlives a process: the store, the mailbox, the outputs.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) mailbox: Arc<MemoryMailbox>,
    pub(crate) outputs: TempDir,
    /// Each process draws ids of its own.
    seed: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Self {
        let sources = virtual_sources(9);
        Self {
            store: Arc::new(MemoryStore::with_sources(sources.clone())),
            mailbox: Arc::new(MemoryMailbox::with_sources(sources)),
            outputs: TempDir::new().unwrap(),
            seed: AtomicU64::new(100),
        }
    }

    pub(crate) fn crew(&self) -> SubagentsBuilder {
        Subagents::builder(self.store.clone(), self.mailbox.clone(), self.outputs.path())
    }

    /// A parent with this script and one subagent, `reader`.
    pub(crate) fn pair(
        &self,
        parent: impl IntoIterator<Item = Reply>,
        reader: AgentBuilder,
    ) -> (Agent, Subagents) {
        self.crew().agent("Reads", reader).build(self.parent(parent)).unwrap()
    }

    pub(crate) fn parent(&self, replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
        self.process(&ScriptedModel::new(replies))
    }

    /// A parent in a process of its own that asks a model which others asked before.
    pub(crate) fn process(&self, model: &ScriptedModel) -> AgentBuilder {
        let sources = virtual_sources(self.seed.fetch_add(1, SeqCst));
        Agent::builder("boss", model.handle()).sources(sources).store(self.store.clone())
    }

    pub(crate) async fn mail(&self) -> Vec<Mail> {
        let kinds = [MailKind::AgentMessage, MailKind::AgentResult];
        let mail = self.mailbox.claim(&boss(), &kinds, 100, std::time::Duration::ZERO).await.unwrap();
        mail.into_iter().map(|delivered| delivered.mail).collect()
    }

    /// How many sessions are stored.
    pub(crate) async fn sessions(&self) -> Vec<SessionId> {
        let all = self.store.list(Default::default()).await.unwrap();
        all.into_iter().map(|summary| summary.session).filter(|id| *id != boss()).collect()
    }
}

pub(crate) fn scripted(name: &str, seed: u64, replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    Agent::builder(name, ScriptedModel::new(replies).handle()).sources(virtual_sources(seed))
}

pub(crate) fn reader(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    reader_of(&ScriptedModel::new(replies))
}

pub(crate) fn reader_of(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder("reader", model.handle()).sources(virtual_sources(2)).tool(tool(
        "look",
        "",
        async |_ctx, (): ()| Ok("seen"),
    ))
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

/// One call of `task`.
pub(crate) fn task(id: &str, more: &str) -> Reply {
    Reply::new().call(id, "task", &arguments(more)).finish()
}

pub(crate) fn arguments(more: &str) -> String {
    format!(r#"{{"agent":"reader","prompt":"read"{more}}}"#)
}

pub(crate) fn boss() -> SessionId {
    SessionId::new("boss-1").unwrap()
}

pub(crate) async fn open(agent: &Agent) -> Session {
    agent.open_session(boss()).await.unwrap()
}

/// The results of a session's calls.
pub(crate) fn results(session: &Session) -> Vec<ToolResult> {
    let messages = session.messages();
    check::history(&messages).unwrap();
    messages.iter().flat_map(|m| m.tool_results().cloned().collect::<Vec<_>>()).collect()
}

/// What a report says in its head.
pub(crate) fn head<'a>(report: &'a str, name: &str) -> &'a str {
    let lines = report.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).next().unwrap_or("")
}

pub(crate) fn texts(session: &Session) -> Vec<String> {
    session.messages().iter().map(|m| Message::text(m)).collect()
}
