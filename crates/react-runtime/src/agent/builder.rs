//! Building agents.

mod request;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use turnwright_control::ControlChannel;
use turnwright_core::{Budget, BudgetLimits, Sources};
use turnwright_hook::{
    HookRunner, HookSpec,
    instrument::{Instrumentation, Instruments},
    observe::Observers,
};
use turnwright_interceptor::{
    Chain, Interceptors, LayerSpec,
    builtin::{ControlDrain, LlmCancel, Overflow, ToolResultLimit, ToolTimeout, ToolTimeoutLimit},
    interceptor,
};
use turnwright_llm_stream::{LlmRequest, ModelHandle, prices::Prices};

use super::{
    Agent, AgentInner, RegisteredTool, Spawner,
    checks::{check_tool, check_tool_choice},
};
use crate::{
    approval::{ApprovalBatch, OnDenial},
    gate::{AllowAll, DynGate, Gate},
    machine::Limits,
    session::{OnDrop, OpenSessions},
    snapshot::ToolFingerprint,
    store::SessionStore,
    tool::{BlockingPool, DynTool, OnToolFailure, Tool},
};

/// Why an agent was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two tools share a name.
    #[error("two tools are named {0:?}")]
    DuplicateTool(String),
    /// A tool name that providers refuse.
    #[error("the tool name {0:?} is not 1 to 64 characters out of a-z A-Z 0-9 _ -")]
    ToolName(String),
    /// A tool whose schema is not an object schema.
    #[error("the parameters of the tool {0:?} are not a JSON schema of type object")]
    ToolSchema(String),
    /// A limit that is zero.
    #[error("the limit `{0}` must be at least 1")]
    ZeroLimit(&'static str),
    /// A timeout that is zero.
    #[error("the timeout `{0}` must be longer than nothing")]
    ZeroTimeout(&'static str),
    /// A tool whose own timeout is zero.
    #[error("the timeouts of the tool {0:?} must be longer than nothing")]
    ZeroToolTimeout(String),
    /// The tool choice names a tool the agent does not have.
    #[error("the tool choice names {0:?}, which is no tool of the agent")]
    ToolChoice(String),
    /// The tool choice requires a call, and there is no tool.
    #[error("the tool choice requires a call, and the agent has no tool")]
    NoTool,
}

/// Builds an [`Agent`]. What is not set has the default its method names.
#[must_use]
pub struct AgentBuilder {
    name: Arc<str>,
    model: ModelHandle,
    request: LlmRequest,
    tools: Vec<Arc<dyn DynTool>>,
    hooks: Vec<HookSpec>,
    layers: Vec<LayerSpec>,
    instruments: Instruments,
    inherited: Interceptors,
    gate: Arc<dyn DynGate>,
    limits: Limits,
    parallel_tools: usize,
    deadline: Option<Duration>,
    budget: BudgetLimits,
    within: Option<Budget>,
    prices: Prices,
    tool_timeout: Duration,
    tool_timeout_limit: Option<ToolTimeoutLimit>,
    tool_idle_timeout: Option<Duration>,
    on_tool_failure: OnToolFailure,
    approval_batch: ApprovalBatch,
    on_denial: OnDenial,
    tool_result_chars: usize,
    tool_result_overflow: Option<Arc<dyn Overflow>>,
    tool_result_tokens: Option<usize>,
    channel: Option<Arc<dyn ControlChannel>>,
    store: Option<Arc<dyn SessionStore>>,
    lease: Duration,
    sources: Sources,
    blocking_threads: usize,
    spawn: Spawner,
    on_drop: OnDrop,
    #[cfg(feature = "commit-probe")]
    commit_probe: Option<super::CommitProbe>,
}

impl AgentBuilder {
    /// How long a lease lasts, unless [`AgentBuilder::lease`] says otherwise.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

    pub(super) fn new(name: Arc<str>, model: ModelHandle) -> Self {
        let request = LlmRequest::default().for_model(model.clone());
        Self {
            name,
            model,
            request,
            tools: Vec::new(),
            hooks: Vec::new(),
            layers: Vec::new(),
            instruments: Instruments::default(),
            inherited: Interceptors::default(),
            gate: Arc::new(AllowAll),
            limits: Limits::default(),
            parallel_tools: 5,
            deadline: Some(Duration::from_secs(3600)),
            budget: BudgetLimits::default(),
            within: None,
            prices: Prices::built_in().clone(),
            tool_timeout: ToolTimeout::DEFAULT,
            tool_timeout_limit: None,
            tool_idle_timeout: None,
            on_tool_failure: OnToolFailure::default(),
            approval_batch: ApprovalBatch::default(),
            on_denial: OnDenial::default(),
            tool_result_chars: ToolResultLimit::DEFAULT_CHARS,
            tool_result_overflow: None,
            tool_result_tokens: None,
            channel: None,
            store: None,
            lease: AgentBuilder::DEFAULT_LEASE,
            sources: Sources::default(),
            blocking_threads: 16,
            spawn: Spawner::default(),
            on_drop: OnDrop::default(),
            #[cfg(feature = "commit-probe")]
            commit_probe: None,
        }
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds a hook: a value with [`turnwright_hook::hook_points!`], or `hook!(value)`.
    pub fn hook(mut self, hook: impl Into<HookSpec>) -> Self {
        self.hooks.push(hook.into());
        self
    }

    /// Adds hooks, each as by [`Self::hook`].
    pub fn hooks<H: Into<HookSpec>>(mut self, hooks: impl IntoIterator<Item = H>) -> Self {
        self.hooks.extend(hooks.into_iter().map(Into::into));
        self
    }

    /// Whether a hook of this name was added.
    pub fn has_hook(&self, name: &str) -> bool {
        self.hooks.iter().any(|hook| hook.hook_name() == name)
    }

    /// Adds an interceptor, inside those added before: `interceptor!(value)`.
    pub fn interceptor(mut self, layer: LayerSpec) -> Self {
        self.layers.push(layer);
        self
    }

    /// Adds an instrumentation, called after those added before.
    pub fn instrument(self, instrumentation: impl Instrumentation) -> Self {
        self.instruments.register(instrumentation);
        self
    }

    /// Puts the inherited entries of another agent outside this one's own, and adds its instrumentation: for agents that agent
    /// starts. Its observers it keeps to itself.
    pub fn inherit(mut self, parent: &Agent) -> Self {
        self.inherited = parent.0.interceptors.for_child();
        self.instruments.inherit(&parent.0.instruments);
        self
    }

    /// Decides about tool calls. [`AllowAll`] by default.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.gate = Arc::new(gate);
        self
    }

    /// Limits of a turn; see [`Limits`] for the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Tools that may run at once. 5 by default.
    pub fn parallel_tools(mut self, n: usize) -> Self {
        self.parallel_tools = n;
        self
    }

    /// How long a leg may take. One hour by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Lets a leg take as long as it likes. Its parts keep their own limits.
    pub fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// What each turn may use, over all its legs. No limits by default, but for those of [`Limits`].
    pub fn budget(mut self, limits: BudgetLimits) -> Self {
        self.budget = limits;
        self
    }

    /// The budget that all turns of the agent use together, beside their own: of a user, or a process. A turn that is
    /// started under a [`crate::Parent`] with a budget uses that one in its place.
    pub fn within(mut self, budget: Budget) -> Self {
        self.within = Some(budget);
        self
    }

    /// What models cost, for budgets of money. [`Prices::built_in`] by default.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// How long a tool call may take. 540 s by default; a tool's own limit counts when it is shorter.
    pub fn tool_timeout(mut self, timeout: Duration) -> Self {
        self.tool_timeout = timeout;
        self
    }

    /// A deadline of the whole configuration, asked for at each call: of the tool's own, the agent's and this one the least
    /// counts. It may be changed while turns run.
    pub fn tool_timeout_limit(mut self, limit: ToolTimeoutLimit) -> Self {
        self.tool_timeout_limit = Some(limit);
        self
    }

    /// How long a tool call may go without progress ([`crate::tool::ToolContext::progress`]). No limit by default; a
    /// tool's own counts when it is shorter, or when there is no other. The deadline of the call counts beside it.
    pub fn tool_idle_timeout(mut self, timeout: Duration) -> Self {
        self.tool_idle_timeout = Some(timeout);
        self
    }

    /// What the failure of a call means to the other calls of its answer. They finish, by default.
    pub fn on_tool_failure(mut self, what: OnToolFailure) -> Self {
        self.on_tool_failure = what;
        self
    }

    /// Whether the calls of an answer wait and fall together, or each on its own. On its own, by default.
    pub fn approval_batch(mut self, how: ApprovalBatch) -> Self {
        self.approval_batch = how;
        self
    }

    /// What the denial of a call by a person means to its turn. The model is told, and the turn goes on, by default.
    pub fn on_denial(mut self, what: OnDenial) -> Self {
        self.on_denial = what;
        self
    }

    /// How many characters of a tool result the model gets. 50,000 by default: about 12,500 tokens of English, and up
    /// to one token a character in other scripts.
    pub fn tool_result_chars(mut self, chars: usize) -> Self {
        (self.tool_result_chars, self.tool_result_tokens) = (chars, None);
        self
    }

    /// Keeps, whole, what is too long for the model, and tells it where: see [`Overflow`].
    pub fn tool_result_overflow(mut self, overflow: Arc<dyn Overflow>) -> Self {
        self.tool_result_overflow = Some(overflow);
        self
    }

    /// Limits a tool result in tokens in place of characters. They are estimated, see [`ToolResultLimit::tokens`].
    pub fn tool_result_tokens(mut self, tokens: usize) -> Self {
        self.tool_result_tokens = Some(tokens);
        self
    }

    /// Takes commands from this channel. None by default: the turn's handle alone controls it.
    pub fn channel(mut self, channel: Arc<dyn ControlChannel>) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Keeps sessions in this store. None by default: they live as long as their [`crate::Session`].
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// How long the lease lasts under which a leg writes its session; 30 s by default. It is renewed every third of
    /// that. After a crash nobody else can take the session up before it has ended, unless the store knows that the
    /// process is gone. Without a store it means nothing.
    pub fn lease(mut self, ttl: Duration) -> Self {
        self.lease = ttl;
        self
    }

    /// Time, ids and randomness. The machine's own by default.
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }

    /// Threads for blocking tool bodies. 16 by default.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// What dropping a turn's handle means to the turn. It is interrupted, by default.
    pub fn on_drop(mut self, what: OnDrop) -> Self {
        self.on_drop = what;
        self
    }

    /// Spawns leg tasks in another way than `tokio::spawn`.
    pub fn spawner(mut self, spawner: Spawner) -> Self {
        self.spawn = spawner;
        self
    }

    /// Called at every commit of every ledger of the agent.
    #[cfg(feature = "commit-probe")]
    pub fn commit_probe(mut self, probe: super::CommitProbe) -> Self {
        self.commit_probe = Some(probe);
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// [`BuildError`] naming what is wrong.
    pub fn build(mut self) -> Result<Agent, BuildError> {
        for (name, value) in [
            ("iterations", self.limits.iterations as usize),
            ("attempts", self.limits.attempts as usize),
            ("parallel_tools", self.parallel_tools),
            ("tool_result_chars", self.tool_result_chars),
            ("tool_result_tokens", self.tool_result_tokens.unwrap_or(1)),
            ("blocking_threads", self.blocking_threads),
        ] {
            if value == 0 {
                return Err(BuildError::ZeroLimit(name));
            }
        }
        if self.tool_timeout.is_zero() {
            return Err(BuildError::ZeroTimeout("tool_timeout"));
        }
        if self.tool_idle_timeout.is_some_and(|d| d.is_zero()) {
            return Err(BuildError::ZeroTimeout("tool_idle_timeout"));
        }
        if self.deadline.is_some_and(|d| d.is_zero()) {
            return Err(BuildError::ZeroTimeout("deadline"));
        }
        if self.lease.is_zero() {
            return Err(BuildError::ZeroTimeout("lease"));
        }
        let mut tools = BTreeMap::new();
        let mut definitions = Vec::with_capacity(self.tools.len());
        for tool in self.tools {
            let definition = Arc::new(tool.dyn_definition());
            check_tool(&definition)?;
            definitions.push(definition.clone());
            let name = definition.name.clone();
            let idle_timeout = definition.idle_timeout.into_iter().chain(self.tool_idle_timeout).min();
            if tools.insert(name.clone(), RegisteredTool { definition, tool, idle_timeout }).is_some() {
                return Err(BuildError::DuplicateTool(name));
            }
        }
        check_tool_choice(&self.request.tool_choice, &tools)?;
        let tool_result_limit = match self.tool_result_tokens {
            Some(tokens) => ToolResultLimit::tokens(tokens),
            None => ToolResultLimit::new(self.tool_result_chars),
        };
        let layer = match self.tool_result_overflow {
            Some(overflow) => tool_result_limit.clone().overflow(overflow),
            None => tool_result_limit.clone(),
        };
        let fingerprint = ToolFingerprint::of(definitions.iter().map(|d| &**d));
        let own: BTreeMap<String, Duration> =
            definitions.iter().filter_map(|d| Some((d.name.clone(), d.timeout?))).collect();
        let shared = self.tool_timeout_limit.clone();
        let least = move |tool: &str| {
            own.get(tool).copied().into_iter().chain(shared.as_ref().map(ToolTimeoutLimit::get)).min()
        };
        let deadline = ToolTimeout::new(self.tool_timeout).per_tool(least);
        let tool_deadline = Chain::default();
        tool_deadline.register(deadline).keep();
        self.request.tools = definitions.into();
        Ok(Agent(Arc::new(AgentInner {
            interceptors: interceptors(&self.inherited, layer, self.channel.as_ref(), self.layers),
            name: self.name,
            model: self.model,
            request: self.request,
            tools,
            fingerprint,
            hooks: HookRunner::new(self.hooks),
            observers: Observers::default(),
            instruments: self.instruments,
            tool_deadline,
            tool_timeout: self.tool_timeout,
            tool_timeout_limit: self.tool_timeout_limit,
            tool_result_limit,
            on_tool_failure: self.on_tool_failure,
            approval_batch: self.approval_batch,
            on_denial: self.on_denial,
            gate: self.gate,
            limits: self.limits,
            parallel_tools: self.parallel_tools,
            deadline: self.deadline,
            budget: self.budget,
            within: self.within,
            prices: self.prices,
            channel: self.channel,
            store: self.store,
            holder: holder(),
            lease: self.lease,
            sources: self.sources,
            blocking: Arc::new(BlockingPool::new(self.blocking_threads)),
            spawn: self.spawn,
            on_drop: self.on_drop,
            closed: AtomicBool::new(false),
            sessions: OpenSessions::default(),
            #[cfg(feature = "commit-probe")]
            commit_probe: self.commit_probe,
        })))
    }
}

/// Who takes leases for an agent. No part of a run, which must replay: so it is drawn from the machine and not from the
/// agent's sources.
fn holder() -> Box<str> {
    let id = Sources::default().id::<Agent>();
    format!("process {}, agent {id}", std::process::id()).into()
}

/// Outermost first: result limit, inherited, control drain, LLM cancel, the users' own. The limit stands outside of what
/// is inherited too, since it may keep whole results: what a layer takes out of them is not kept. The tool deadline stands
/// innermost, in a chain of its own.
fn interceptors(
    inherited: &Interceptors,
    tool_result_limit: ToolResultLimit,
    channel: Option<&Arc<dyn ControlChannel>>,
    layers: Vec<LayerSpec>,
) -> Interceptors {
    let all = Interceptors::default();
    all.register(interceptor!(tool_result_limit).name("tool_result_limit")).keep();
    all.inherit(inherited);
    if let Some(channel) = channel {
        all.register(interceptor!(ControlDrain::new(channel.clone())).name("control_drain")).keep();
        all.register(interceptor!(LlmCancel::new(channel.clone())).name("llm_cancel")).keep();
    }
    for layer in layers {
        all.register(layer).keep();
    }
    all
}
