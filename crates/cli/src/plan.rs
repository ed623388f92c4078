//! `plan`: what an agent with these options has. No model is asked, and none is needed.

use std::process::ExitCode;

use serde::Serialize;
use turnwright::{ChatClient, ModelHandle, Plan};

use crate::{
    Global, Refusal, agent, agent::Purpose, approval, args::AgentArgs, config::Config, output, provider,
    subagents, tape::Tape, tools::WRITES, trace::Trace, view::printable,
};

/// What stands in place of a model.
const NO_MODEL: &str = "not configured";

/// As `--json` shows it.
#[derive(Serialize)]
struct PlanJson<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    /// Tools that are asked about before they run.
    asks: Vec<&'static str>,
    /// Directories below which those of them that write files are not asked about.
    allowed_paths: &'a [String],
    /// Tools that never run.
    never: &'a [String],
    /// Models that are asked when one fails, in this order.
    fallback: &'a [String],
}

/// Shows it.
pub(crate) fn show(global: &Global, args: &AgentArgs, config: &Config) -> Result<ExitCode, Refusal> {
    let asks = approval::asked_about(&args.allow, config)?;
    let is_configured = provider::has_provider(args) && provider::model_name(args).is_some();
    let models = match is_configured {
        true => (provider::model(args, &Tape::Live)?, agent::fallbacks(args, config, &Tape::Live)?),
        // That they are there is shown, and no more: they need no key.
        false => {
            let fallbacks = config.texts("agent.fallback").iter().map(|_| nobody());
            (nobody()?, fallbacks.collect::<Result<_, _>>()?)
        }
    };
    let agent = agent::builder((args, config), &models, None, Purpose::Plan)?;
    let mut plan = subagents::build(agent, (args, config), (models, &Trace::none()), None)?.0.plan();
    if !is_configured {
        plan.model = NO_MODEL.into();
    }
    let (never, fallback) = (config.texts("approvals.never"), config.texts("agent.fallback"));
    let text = match global.json {
        true => {
            let allowed_paths = if asks.iter().any(is_write) { paths(config) } else { &[] };
            let json = PlanJson { plan: &plan, asks, allowed_paths, never, fallback };
            let json = serde_json::to_string(&json);
            json.map_err(|e| Refusal::new(format!("the plan cannot be written as JSON: {e}")))? + "\n"
        }
        false => text(&plan, &asks, config),
    };
    Ok(output::print(&text, global.color))
}

/// As people read it.
pub(crate) fn text(plan: &Plan, asks: &[&str], config: &Config) -> String {
    let one = |tool: &&str| match paths(config) {
        [_, ..] if is_write(tool) => format!("{tool} (not below {})", paths(config).join(", ")),
        _ => (*tool).to_owned(),
    };
    let named: Vec<String> = asks.iter().map(one).collect();
    let asks = if named.is_empty() { "nothing".into() } else { named.join(", ") };
    let mut text = format!("{plan}asks before: {asks}\n");
    for (what, key) in
        [("never runs", "approvals.never"), ("asks in place of a model that fails", "agent.fallback")]
    {
        match config.texts(key) {
            [] => {}
            these => text.push_str(&format!("{what}: {}\n", these.join(", "))),
        }
    }
    printable(&text).into_owned()
}

fn paths(config: &Config) -> &[String] {
    config.texts("approvals.allowed_paths")
}

fn is_write(tool: &&str) -> bool {
    WRITES.contains(tool)
}

/// A model that is never asked.
fn nobody() -> Result<ModelHandle, Refusal> {
    let client = ChatClient::builder().build().map_err(|e| Refusal::new(e.message))?;
    Ok(ModelHandle::new(client, NO_MODEL))
}
