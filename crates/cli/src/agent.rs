//! From options to an agent.

use std::num::{NonZeroU32, NonZeroUsize};

use turnwright::{
    Agent, AgentBuilder, Limits, ModelHandle,
    core::BudgetLimits,
    interceptor,
    interceptor::builtin::{
        Cache, CircuitBreaker, Fallback, RateLimit, Retry, ToolTimeout, ToolTimeoutLimit,
    },
    runtime::approval::{ApprovalBatch, ArgumentMatcher, OnDenial, Policies},
    store::SqliteStore,
};

use crate::{
    approval,
    args::{AgentArgs, ProviderName},
    config::Config,
    hooks, kept, memory, provider,
    refusal::Refusal,
    subagents,
    tape::Tape,
    tools::{self, WRITES, Workspace},
    trace::Trace,
};

const INSTRUCTIONS: &str = "You help a person at a terminal. With your tools you can list, search, read, write and edit \
    the files below one directory, the tool root, run commands there if you have the tool shell, and tell the time. \
    What may change something runs only if the person approves of that very call: change only what you were asked to \
    change. Look before you answer what the files can tell. Paths are relative to the tool root. Answer in plain text, briefly.";

/// A model, and those that are asked when it fails.
pub(crate) type Models = (ModelHandle, Vec<ModelHandle>);

/// What an agent is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One turn; then the program ends.
    Turn,
    /// A conversation, with time between its turns.
    Chat,
    /// To be looked at: it touches no file.
    Plan,
}

/// The agent these options describe, and it once more with whoever it may send.
pub(crate) fn build(
    (args, config): (&AgentArgs, &Config),
    (tape, trace): (&Tape, &Trace),
    store: Option<&SqliteStore>,
    purpose: Purpose,
) -> Result<(Agent, Vec<Agent>), Refusal> {
    let models = (provider::model(args, tape)?, fallbacks(args, config, tape)?);
    let agent = kept::keep(builder((args, config), &models, store, purpose)?, store);
    subagents::build(trace.put(agent), (args, config), (models, trace), store)
}

/// An agent with these models, and everything else as these options say.
pub(crate) fn builder(
    (args, config): (&AgentArgs, &Config),
    models: &Models,
    store: Option<&SqliteStore>,
    purpose: Purpose,
) -> Result<AgentBuilder, Refusal> {
    let todos = hooks::todo_lists(store);
    let agent = bare(args, config, models)?;
    let agent = memory::with(agent, config, models, (&todos, purpose))?;
    let agent = with_gated_tools(agent, &workspace(args)?);
    hooks::with(agent, (args, config), &todos)
}

/// The same without its memory, hooks, and tools that change something.
fn bare(args: &AgentArgs, config: &Config, (model, fallbacks): &Models) -> Result<AgentBuilder, Refusal> {
    let workspace = workspace(args)?;
    let budget = BudgetLimits {
        tokens: args.budget_tokens,
        cost_micros: args.budget_cost,
        tool_calls: args.budget_tool_calls,
        time: config.seconds("limits.time_seconds"),
        ..BudgetLimits::default()
    };
    let usual = config.text("agent.instructions").unwrap_or(INSTRUCTIONS);
    let mut agent = Agent::builder("turnwright", model.clone())
        .instructions(memory::instructions(config, &args.tool_root, usual)?)
        .limits(limits(args, config))
        .budget(budget)
        .gate(policies(args, config)?);
    if let Some(deadline) = args.deadline {
        agent = agent.deadline(deadline);
    }
    if let Some(limit) = config.seconds("safety.turn.tool_timeout_seconds") {
        // The usual limit is no bound for one that somebody chose.
        agent = agent.tool_timeout(limit.max(ToolTimeout::DEFAULT));
        agent = agent.tool_timeout_limit(ToolTimeoutLimit::new(limit));
    }
    if let Some(lease) = config.seconds("store.lease_seconds") {
        agent = agent.lease(lease);
    }
    if config.text("approvals.batch") == Some("atomic") {
        agent = agent.approval_batch(ApprovalBatch::Atomic);
    }
    if config.text("approvals.on_denial") == Some("cancel_turn") {
        agent = agent.on_denial(OnDenial::CancelTurn);
    }
    Ok(with_tools(layers(with_fallbacks(agent, fallbacks.clone()), config), &workspace))
}

/// Asks these models when one fails.
pub(crate) fn with_fallbacks(agent: AgentBuilder, models: Vec<ModelHandle>) -> AgentBuilder {
    if models.is_empty() {
        agent
    } else {
        agent.interceptor(interceptor!(Fallback::new(models)).name("fallback"))
    }
}

/// Limits of a turn.
pub(crate) fn limits(args: &AgentArgs, config: &Config) -> Limits {
    let usual = Limits::default();
    let attempts = config.count("limits.attempts").unwrap_or(usual.attempts);
    let renewals = config.count("limits.renewals").unwrap_or(usual.renewals);
    Limits { iterations: args.max_iterations, attempts, renewals }
}

/// Who is asked about what: tools that never run come last, since nothing else counts for them.
pub(crate) fn policies(args: &AgentArgs, config: &Config) -> Result<Policies, Refusal> {
    let (asks, root) = (approval::asked_about(&args.allow, config)?, args.tool_root.as_path());
    let mut policies = asks.iter().fold(Policies::new(), |policies, tool| policies.ask(*tool));
    let allowed = config.texts("approvals.allowed_paths");
    if !allowed.is_empty() {
        let below = |path: &String| root.join(path).to_string_lossy().into_owned();
        let matcher =
            ArgumentMatcher::below(allowed.iter().map(below)).and_then(|matcher| matcher.base(root));
        let matcher = matcher.map_err(|e| config.refuse("approvals.allowed_paths", &e.to_string()))?;
        for tool in WRITES.into_iter().filter(|tool| asks.contains(tool)) {
            policies = policies.inside(tool, matcher.clone());
        }
    }
    for tool in config.texts("approvals.never") {
        policies = policies.never(tool, "the configuration forbids this tool");
    }
    Ok(match config.seconds("approvals.expires_seconds") {
        Some(time) => policies.expires_after(time),
        None => policies,
    })
}

/// The models to ask when one fails.
pub(crate) fn fallbacks(args: &AgentArgs, config: &Config, tape: &Tape) -> Result<Vec<ModelHandle>, Refusal> {
    let open = |named: &String| {
        let provider = named.split_once('/').and_then(|(provider, model)| {
            Some((<ProviderName as clap::ValueEnum>::from_str(provider, false).ok()?, model))
        });
        let opened = match provider {
            // A server of its own is not that of the other provider.
            Some((provider, model)) if provider != args.provider => {
                let args = AgentArgs { base_url: None, provider, ..args.clone() };
                provider.open(&args, model, tape)
            }
            Some((provider, model)) => provider.open(args, model, tape),
            None => args.provider.open(args, named, tape),
        };
        opened.map(|opened| opened.model).map_err(|refusal| {
            config
                .refuse("agent.fallback", &format!("{named}: {}", refusal.message))
                .hint(refusal.hint.unwrap_or_default())
        })
    };
    config.texts("agent.fallback").iter().map(open).collect()
}

/// The layers the configuration names: a cache outermost, then the breaker, so that a call counts once however often it is
/// repeated, and none is repeated while the circuit is open; then what repeats, then what holds back.
pub(crate) fn layers(agent: AgentBuilder, config: &Config) -> AgentBuilder {
    let at_least_one = |name: &str| config.count(name).and_then(NonZeroU32::new);
    let mut agent = agent;
    if let Some(entries) = at_least_one("interceptors.cache.entries") {
        let entries = NonZeroUsize::try_from(entries).unwrap_or(NonZeroUsize::MAX);
        agent = agent.interceptor(interceptor!(Cache::new(entries, Cache::DEFAULT_BYTES)).name("cache"));
    }
    if let Some(failures) = at_least_one("interceptors.circuit_breaker.failures") {
        let open = config.seconds("interceptors.circuit_breaker.open_seconds");
        let breaker = CircuitBreaker::new(failures, open.unwrap_or(CircuitBreaker::DEFAULT_OPEN_FOR));
        agent = agent.interceptor(interceptor!(breaker).name("circuit_breaker"));
    }
    if let Some(attempts) = config.count("interceptors.retry.attempts").filter(|attempts| *attempts > 1) {
        let backoff = config.seconds("interceptors.retry.backoff_seconds").unwrap_or(Retry::DEFAULT_BACKOFF);
        let retry = Retry::new(attempts).backoff(backoff, Retry::DEFAULT_LONGEST_BACKOFF.max(backoff));
        agent = agent.interceptor(interceptor!(retry).name("retry"));
    }
    let (minute, at_once) = (
        at_least_one("interceptors.rate_limit.requests_per_minute"),
        at_least_one("interceptors.rate_limit.concurrent"),
    );
    if minute.is_some() || at_once.is_some() {
        let limit = minute.into_iter().fold(RateLimit::new(), RateLimit::requests_per_minute);
        let limit = at_once.into_iter().fold(limit, RateLimit::concurrent);
        agent = agent.interceptor(interceptor!(limit).name("rate_limit"));
    }
    agent
}

/// Adds the read-only tools.
pub(crate) fn with_tools(agent: AgentBuilder, workspace: &Workspace) -> AgentBuilder {
    agent
        .tool(tools::read_file(workspace))
        .tool(tools::list_dir(workspace))
        .tool(tools::search(workspace))
        .tool(tools::current_time())
}

/// Adds the tools that change something.
fn with_gated_tools(agent: AgentBuilder, workspace: &Workspace) -> AgentBuilder {
    let agent = agent.tool(tools::write_file(workspace)).tool(tools::edit_file(workspace));
    #[cfg(unix)]
    let agent = agent.tool(tools::shell(workspace));
    agent
}

pub(crate) fn finish(agent: AgentBuilder) -> Result<Agent, Refusal> {
    agent.build().map_err(|e| Refusal::new(e.to_string()))
}

pub(crate) fn workspace(args: &AgentArgs) -> Result<Workspace, Refusal> {
    Workspace::open(&args.tool_root).map_err(|why| {
        let root = args.tool_root.display();
        Refusal::new(format!("the tool root {root} cannot be used: {why}"))
            .hint("point --tool-root at a directory that exists")
    })
}
