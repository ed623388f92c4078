//! From options to an agent.

use turnwright::{
    Agent, AgentBuilder, Limits, ModelHandle, core::BudgetLimits, runtime::approval::Policies,
    store::SqliteStore,
};

use crate::{
    approval,
    args::AgentArgs,
    kept, provider,
    refusal::Refusal,
    tape::Tape,
    tools::{self, Workspace},
};

const INSTRUCTIONS: &str = "You help a person at a terminal. With your tools you can list, search, read, write and edit \
    the files below one directory, the tool root, run commands there if you have the tool shell, and tell the time. \
    What may change something runs only if the person approves of that very call: change only what you were asked to \
    change. Look before you answer what the files can tell. Paths are relative to the tool root. Answer in plain text, briefly.";

/// The agent these options describe.
pub(crate) fn build(args: &AgentArgs, tape: &Tape, store: Option<&SqliteStore>) -> Result<Agent, Refusal> {
    finish(kept::keep(builder(args, provider::model(args, tape)?)?, store))
}

/// An agent with this model, and everything else as these options say.
pub(crate) fn builder(args: &AgentArgs, model: ModelHandle) -> Result<AgentBuilder, Refusal> {
    let asks = approval::asked_about(&args.allow)?;
    let policies = asks.into_iter().fold(Policies::new(), Policies::ask);
    let workspace = workspace(args)?;
    let limits = Limits { iterations: args.max_iterations, ..Limits::default() };
    let agent = Agent::builder("turnwright", model).instructions(INSTRUCTIONS).limits(limits);
    let budget = BudgetLimits {
        tokens: args.budget_tokens,
        cost_micros: args.budget_cost,
        tool_calls: args.budget_tool_calls,
        ..BudgetLimits::default()
    };
    let agent = agent.budget(budget);
    let agent = match args.deadline {
        Some(deadline) => agent.deadline(deadline),
        None => agent,
    };
    Ok(with_gated_tools(with_tools(agent, &workspace), &workspace).gate(policies))
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
