//! Subagents: agents that another one, their parent, has do something.

pub(crate) mod calls;
mod end;
pub(crate) mod output;
pub(crate) mod report;
pub(crate) mod request;
mod task;
mod waits;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::future::join_all;
use turnwright_hook::hook;
use turnwright_react_runtime::{
    Agent, AgentBuilder, BuildError, ShutdownReport, mailbox::Mailbox, store::SessionStore,
};

use crate::{InboxFlush, SubagentAutoSend};
use end::SubagentEnd;
use task::TaskTool;
use waits::SubagentWaits;

/// Why there are no subagents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubagentError {
    /// The parent or a subagent was not built.
    #[error("the agent {agent:?} was not built: {why}")]
    Build {
        /// Which.
        agent: String,
        /// Why.
        #[source]
        why: BuildError,
    },
    /// A name that cannot be part of a session's id and of a path.
    #[error("the name {0:?} of a subagent is not 1 to 32 characters out of a-z 0-9 _ -")]
    Name(String),
    /// Two subagents share a name.
    #[error("two subagents are named {0:?}")]
    Duplicate(String),
    /// There is none.
    #[error("a parent needs at least one subagent")]
    Nobody,
    /// A subagent has a way to speak to others than its parent.
    #[error(
        "the subagent {agent:?} has the tool {tool:?}: a subagent speaks to its parent alone, and only by its report"
    )]
    Messaging {
        /// The subagent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// Reports of no use, or longer than mail may be.
    #[error("reports of {0} characters: between 100 and 10,000 are possible")]
    ReportChars(usize),
}

/// The subagents of one parent, for whoever runs it. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use turnwright_builtin::Subagents;
/// # use turnwright_react_runtime::{Agent, mailbox::MemoryMailbox, store::MemoryStore};
/// # use turnwright_testkit::ScriptedModel;
/// # let model = || ScriptedModel::new([]).handle();
/// let store = Arc::new(MemoryStore::new());
/// let (parent, subagents) = Subagents::builder(store.clone(), Arc::new(MemoryMailbox::new()), "outputs")
///     .agent("Looks things up", Agent::builder("reader", model()))
///     .agent("Writes texts", Agent::builder("writer", model()))
///     .build(Agent::builder("boss", model()).store(store))
///     .unwrap();
/// assert_eq!(parent.plan().tools[0].name, "task");
/// # let _ = subagents;
/// ```
///
/// The parent has the tool `task`: it names a subagent, says what is to be done, and gets a report. Each new invocation is
/// a session of the subagent's own, `{invocation}.{agent}`; a later call may go on with it.
///
/// - **A star.** A subagent has no `task` and no other messaging tool, starts no subagents, and speaks to its parent alone, by
///   [`SubagentAutoSend`]. One that has such a tool is refused here, and what is sent all the same is refused there.
/// - **What a subagent inherits**: the layers that the parent registered as `inherited`, outside its own; and from the call
///   that started it the cancel, the deadline, the budget, and whose it is ([`turnwright_core::TurnContext::parent`]).
///   Nothing else: not the history, the prompt, the tools, the gate or the hooks.
/// - **Detached** (`detach`), it goes on when the call and the turn are over; it ends with the parent's *run*
///   (`CANCEL_RUN`, or the token the run was started under). Its report comes as mail, with the parent's next iteration or
///   next turn.
/// - **Questions.** What a person must decide for a subagent is asked at the parent, whose turn suspends; see
///   [`turnwright_react_runtime::tool::ToolError::asks`]. A detached one has nobody to ask through: its parent is told by
///   mail, and a call that goes on with the invocation asks.
/// - **After a crash** the parent's turn is resumed, the call is made again, and finds its subagent where it was. A
///   detached one goes on when a call goes on with its invocation. One whose process went away after its end was stored, and
///   before its report was, does not report.
///
/// The tool limit of the parent (`AgentBuilder::tool_timeout`) is one of its calls of `task` too: a call that reaches it drops
/// its subagent, which is reported as cancelled.
#[derive(Clone)]
pub struct Subagents(Arc<Crew>);

/// Builds [`Subagents`], and their parent with them.
#[must_use]
pub struct SubagentsBuilder {
    store: Arc<dyn SessionStore>,
    mailbox: Arc<dyn Mailbox>,
    outputs: PathBuf,
    chars: usize,
    detach: bool,
    agents: Vec<(String, AgentBuilder)>,
}

/// What the tool, the hooks and [`Subagents`] share.
pub(crate) struct Crew {
    store: Arc<dyn SessionStore>,
    mailbox: Arc<dyn Mailbox>,
    chars: usize,
    /// Filled once the parent is built, whose layers they inherit.
    agents: OnceLock<BTreeMap<String, Agent>>,
}

impl Crew {
    /// The source of messaging tools.
    const SOURCE: &str = "subagent";
    /// Tools that speak to other agents, by whatever source.
    const MESSAGING: [&str; 3] = ["task", "send_to_agent", "send_to_peer"];

    fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get()?.get(name)
    }
}

impl Subagents {
    /// Characters of a text that a report holds, unless [`SubagentsBuilder::report_chars`] says otherwise.
    pub const REPORT_CHARS: usize = 300;

    /// Subagents whose sessions are in this store (give the parent the same one), whose reports go to this mailbox, and
    /// whose texts go to `{outputs}/{session}/OUTPUT_<n>.md`.
    pub fn builder(
        store: Arc<dyn SessionStore>,
        mailbox: Arc<dyn Mailbox>,
        outputs: impl Into<PathBuf>,
    ) -> SubagentsBuilder {
        let (outputs, agents) = (outputs.into(), Vec::new());
        SubagentsBuilder { store, mailbox, outputs, chars: Self::REPORT_CHARS, detach: true, agents }
    }

    /// Shuts all of them down, as [`Agent::shutdown`], and says what became of whose turns. Shut the parent down first: the
    /// turns of those that it waits for are its own.
    ///
    /// # Cancel safety
    /// As of [`Agent::shutdown`].
    pub async fn shutdown(&self, patience: Duration) -> BTreeMap<String, ShutdownReport> {
        let agents = self.0.agents.get().into_iter().flatten();
        join_all(agents.map(|(name, agent)| async move { (name.clone(), agent.shutdown(patience).await) }))
            .await
            .into_iter()
            .collect()
    }

    /// One of them: to look at its sessions, and to see what it has registered.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.0.agent(name)
    }
}

impl std::fmt::Debug for Subagents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.agents.get().into_iter().flatten().map(|(name, _)| name)).finish()
    }
}

impl SubagentsBuilder {
    /// Adds a subagent, and what it is for, in words for the parent's model. Its store is set here.
    pub fn agent(mut self, what_for: impl Into<String>, agent: AgentBuilder) -> Self {
        self.agents.push((what_for.into(), agent));
        self
    }

    /// How many characters of a subagent's text its report holds, from 100 to 10,000; 300 by default. All of it is in the
    /// output file: more is for parents that cannot read files.
    pub fn report_chars(mut self, chars: usize) -> Self {
        self.chars = chars;
        self
    }

    /// Offers no work in the background: for programs that end with the parent's turn.
    pub fn without_detach(mut self) -> Self {
        self.detach = false;
        self
    }

    /// Builds the parent, with the tool and the hooks it needs, and its subagents. An [`InboxFlush`]
    /// is among them, unless the parent has a hook of that name already; that one must be of the same mailbox, or reports from
    /// the background reach nobody.
    ///
    /// # Errors
    /// [`SubagentError`] naming the agent and what is wrong with it.
    pub fn build(self, parent: AgentBuilder) -> Result<(Agent, Subagents), SubagentError> {
        if !(100..=10_000).contains(&self.chars) {
            return Err(SubagentError::ReportChars(self.chars));
        }
        if self.agents.is_empty() {
            return Err(SubagentError::Nobody);
        }
        let names: Vec<_> =
            self.agents.iter().map(|(what_for, agent)| (agent.name().to_owned(), what_for.clone())).collect();
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let crew = Arc::new(Crew { store, mailbox, chars: self.chars, agents: OnceLock::new() });
        let tool = TaskTool { crew: crew.clone(), agents: names, detach: self.detach };
        let failed = |agent: &str| {
            let agent = agent.to_owned();
            |why| SubagentError::Build { agent, why }
        };
        let name = parent.name().to_owned();
        // One that was declared wins.
        let parent = match parent.has_hook("inbox_flush") {
            true => parent,
            false => parent.hook(InboxFlush::new(self.mailbox.clone())),
        };
        let parent = parent
            .tool(tool)
            .hook(hook!(SubagentEnd { crew: crew.clone() }).name("subagent_end"))
            .build()
            .map_err(failed(&name))?;
        let outputs: Arc<Path> = self.outputs.into();
        let mut agents = BTreeMap::new();
        for (_, agent) in self.agents {
            let name = agent.name().to_owned();
            let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
            if name.is_empty() || name.len() > 32 || !name.chars().all(is_legal) {
                return Err(SubagentError::Name(name));
            }
            let send = SubagentAutoSend::new(self.mailbox.clone(), outputs.clone(), self.chars);
            let waits = SubagentWaits { mailbox: self.mailbox.clone() };
            let built = agent
                .inherit(&parent)
                .store(self.store.clone())
                .hook(send)
                .hook(hook!(waits).name("subagent_waits"))
                .build()
                .map_err(failed(&name))?;
            let is_messaging = |tool: &turnwright_react_runtime::PlannedTool| {
                tool.source == Crew::SOURCE || Crew::MESSAGING.contains(&&*tool.name)
            };
            if let Some(tool) = built.plan().tools.into_iter().find(is_messaging) {
                return Err(SubagentError::Messaging { agent: name, tool: tool.name });
            }
            if agents.insert(name.clone(), built).is_some() {
                return Err(SubagentError::Duplicate(name));
            }
        }
        // Nobody else has the crew yet who could fill it.
        let _ = crew.agents.set(agents);
        Ok((parent, Subagents(crew)))
    }
}
