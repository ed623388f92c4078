//! Whom the agent may have do something: `explorer`, which looks into things and changes nothing.

use std::sync::Arc;

use turnwright::{
    Agent, AgentBuilder,
    builtin::Subagents,
    runtime::{
        mailbox::{Mailbox, MemoryMailbox},
        store::{MemoryStore, SessionStore},
    },
    store::SqliteStore,
};

use crate::{Refusal, agent, agent::Models, args::AgentArgs, config::Config, hooks, trace::Trace};

/// Its name.
pub(crate) const EXPLORER: &str = "explorer";

const WHAT_FOR: &str = "Looks into the files below the tool root and tells what it found: for questions that need many \
    files or long ones. It can list, search and read, and changes nothing";

const INSTRUCTIONS: &str = "Another agent asks you about the files below one directory, the tool root. With your tools \
    you can list, search and read them, and tell the time. Look until you know, and answer in plain text: first the answer, \
    then where you found it. Paths are relative to the tool root.";

/// Builds the agent, with its subagent if the configuration says where that writes its texts; and it once more with that.
pub(crate) fn build(
    parent: AgentBuilder,
    (args, config): (&AgentArgs, &Config),
    ((model, fallbacks), trace): (Models, &Trace),
    store: Option<&SqliteStore>,
) -> Result<(Agent, Vec<Agent>), Refusal> {
    let Some(outputs) = config.text("subagents.outputs") else {
        let agent = agent::finish(parent)?;
        return Ok((agent.clone(), vec![agent]));
    };
    let (sessions, mailbox): (Arc<dyn SessionStore>, Arc<dyn Mailbox>) = match store {
        Some(store) => (Arc::new(store.clone()), Arc::new(store.mailbox())),
        None => (Arc::new(MemoryStore::new()), Arc::new(MemoryMailbox::new())),
    };
    let explorer =
        Agent::builder(EXPLORER, model).instructions(INSTRUCTIONS).limits(agent::limits(args, config));
    // What the file forbids or asks about is no less so for whoever is sent.
    let explorer = explorer.gate(agent::policies(args, config)?);
    let explorer = agent::with_fallbacks(explorer, fallbacks);
    let explorer = agent::layers(agent::with_tools(explorer, &agent::workspace(args)?), config);
    let explorer = hooks::with(explorer, (args, config), &hooks::todo_lists(store))?;
    let explorer = trace.put_into_child(explorer);
    // The program ends with the turn it was asked for: nothing goes on behind it.
    let built = Subagents::builder(sessions, mailbox, args.tool_root.join(outputs))
        .agent(WHAT_FOR, explorer)
        .without_detach()
        .build(parent);
    let (agent, crew) = built.map_err(|e| Refusal::new(e.to_string()))?;
    let all = std::iter::once(&agent).chain(crew.agent(EXPLORER)).cloned().collect();
    Ok((agent, all))
}
