//! Agents: what a turn runs with.

mod builder;
mod checks;
mod shutdown;
mod spawn;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use turnwright_control::ControlChannel;
use turnwright_core::{Budget, BudgetLimits, CallDigest, SessionId, Sources, ToolCall, ToolDefinition};
use turnwright_hook::{HookRunner, instrument::Instruments, observe::Observers};
use turnwright_interceptor::{
    Chain, Interceptors,
    builtin::{ToolResultLimit, ToolTimeoutLimit},
    scope,
};
use turnwright_llm_stream::{LlmRequest, ModelHandle, prices::Prices};

pub use builder::{AgentBuilder, BuildError};
pub use shutdown::ShutdownReport;
pub use spawn::Spawner;

use crate::{
    approval::{ApprovalBatch, OnDenial},
    gate::DynGate,
    machine::Limits,
    plan::Plan,
    record::Record,
    session::{Input, OnDrop, OpenSessions, Parent, Session, SessionInner, StartError, TurnHandle},
    snapshot::ToolFingerprint,
    store::{SessionStore, StoreError, StoredSession},
    tool::{BlockingPool, DynTool, OnToolFailure},
};

/// Called at every commit of a ledger: the seam the cancel sweep cuts at.
#[cfg(feature = "commit-probe")]
pub type CommitProbe = Arc<dyn Fn() + Send + Sync>;

/// An agent: a model, tools, hooks, interceptors and limits. Cheap to clone; clones are the same agent. One agent
/// serves any number of sessions at once.
#[derive(Clone)]
pub struct Agent(pub(crate) Arc<AgentInner>);

pub(crate) struct AgentInner {
    pub(crate) name: Arc<str>,
    pub(crate) model: ModelHandle,
    /// What every request starts from.
    pub(crate) request: LlmRequest,
    pub(crate) tools: BTreeMap<String, RegisteredTool>,
    pub(crate) fingerprint: ToolFingerprint,
    pub(crate) hooks: HookRunner,
    pub(crate) observers: Observers<Record>,
    pub(crate) instruments: Instruments,
    pub(crate) interceptors: Interceptors,
    /// The innermost layer of every tool call.
    pub(crate) tool_deadline: Chain<scope::ToolCall>,
    pub(crate) tool_timeout: Duration,
    pub(crate) tool_timeout_limit: Option<ToolTimeoutLimit>,
    /// The last word on the size of a result, whoever wrote it.
    pub(crate) tool_result_limit: ToolResultLimit,
    pub(crate) on_tool_failure: OnToolFailure,
    pub(crate) approval_batch: ApprovalBatch,
    pub(crate) on_denial: OnDenial,
    pub(crate) gate: Arc<dyn DynGate>,
    pub(crate) limits: Limits,
    pub(crate) parallel_tools: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) budget: BudgetLimits,
    pub(crate) within: Option<Budget>,
    pub(crate) prices: Prices,
    pub(crate) channel: Option<Arc<dyn ControlChannel>>,
    pub(crate) store: Option<Arc<dyn SessionStore>>,
    /// Who takes leases: unique for each agent of each process.
    pub(crate) holder: Box<str>,
    /// How long a lease lasts.
    pub(crate) lease: Duration,
    pub(crate) sources: Sources,
    pub(crate) blocking: Arc<BlockingPool>,
    pub(crate) spawn: Spawner,
    pub(crate) on_drop: OnDrop,
    /// No turn begins any more.
    pub(crate) closed: AtomicBool,
    pub(crate) sessions: OpenSessions,
    #[cfg(feature = "commit-probe")]
    pub(crate) commit_probe: Option<CommitProbe>,
}

pub(crate) struct RegisteredTool {
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) tool: Arc<dyn DynTool>,
    /// How long a call may go without progress: the least of the limits that are set.
    pub(crate) idle_timeout: Option<Duration>,
}

impl AgentInner {
    pub(crate) fn digest(&self, call: &ToolCall) -> CallDigest {
        let source = self.tools.get(&call.name).map_or("", |t| t.definition.source.as_str());
        CallDigest::of(source, call)
    }

    pub(crate) fn forget_session(&self, id: &SessionId) {
        self.sessions.forget(id);
    }
}

impl Agent {
    /// Starts building an agent that asks this model.
    pub fn builder(name: impl Into<Arc<str>>, model: ModelHandle) -> AgentBuilder {
        AgentBuilder::new(name.into(), model)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A new session with an id of its own.
    pub fn new_session(&self) -> Session {
        let inner = SessionInner::new(self.0.sources.session_id(), self.0.clone(), StoredSession::default());
        Session(self.0.sessions.open(inner))
    }

    /// The session of this id: the one that is open, else the stored one, else a new one. One that is open and runs no
    /// turn is brought up to what is stored, since another process may have written it.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot read it.
    ///
    /// # Cancel safety
    /// Safe: opening changes nothing.
    pub async fn open_session(&self, id: SessionId) -> Result<Session, StoreError> {
        if let Some(open) = self.0.sessions.get(&id) {
            let session = Session(open);
            session.refresh().await?;
            return Ok(session);
        }
        let stored = match &self.0.store {
            Some(store) => store.load(&id).await?.unwrap_or_default(),
            None => StoredSession::default(),
        };
        Ok(Session(self.0.sessions.open(SessionInner::new(id, self.0.clone(), stored))))
    }

    /// Runs one turn in a new session.
    ///
    /// # Errors
    /// [`StartError`] when it could not be started.
    pub fn run(&self, input: impl Into<Input>) -> Result<TurnHandle, StartError> {
        self.new_session().start(input)
    }

    /// Runs one turn in a new session, as a part of larger work: see [`Session::start_under`].
    ///
    /// # Errors
    /// [`StartError`] when it could not be started.
    pub fn run_under(
        &self,
        parent: impl Into<Parent>,
        input: impl Into<Input>,
    ) -> Result<TurnHandle, StartError> {
        self.new_session().start_under(parent, input)
    }

    /// Its interceptors: layers can be registered and removed while it runs; calls under way keep what they began with.
    pub fn interceptors(&self) -> &Interceptors {
        &self.0.interceptors
    }

    /// Its observers: told of the records of all its sessions. They can be added and removed while it runs.
    pub fn observers(&self) -> &Observers<Record> {
        &self.0.observers
    }

    /// Its instrumentation: can be added and removed while it runs; calls under way keep what they began with.
    pub fn instruments(&self) -> &Instruments {
        &self.0.instruments
    }

    /// The session of this id, if it is open: nothing is read.
    pub fn find_session(&self, id: &SessionId) -> Option<Session> {
        self.0.sessions.get(id).map(Session)
    }

    /// What is registered: order, powers, timeouts, policies.
    pub fn plan(&self) -> Plan {
        Plan::of(&self.0)
    }

    /// Results and effects of tools that came after their call was over, and were refused.
    pub fn late_results(&self) -> u64 {
        self.0.blocking.late()
    }

    /// How many sessions are open.
    pub fn open_sessions(&self) -> usize {
        self.0.sessions.len()
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.0.name)
            .field("model", &self.0.model)
            .finish_non_exhaustive()
    }
}
