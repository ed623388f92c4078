//! `plan`: what an agent with these options has. No model is asked, and none is needed.

use std::process::ExitCode;

use serde::Serialize;
use turnwright::{ChatClient, ModelHandle, Plan};

use crate::{
    Global, Refusal, agent, approval, args::AgentArgs, config::Config, hooks, output, provider, subagents,
    tape::Tape, view::printable,
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
    /// Tools that never run.
    never: &'a [String],
    /// Models that are asked when one fails, in this order.
    fallback: &'a [String],
}

/// Shows it.
pub(crate) fn show(global: &Global, args: &AgentArgs, config: &Config) -> Result<ExitCode, Refusal> {
    let asks = approval::asked_about(&args.allow, config)?;
    let is_configured = provider::has_provider(args) && provider::model_name(args).is_some();
    let (model, fallbacks) = match is_configured {
        true => (provider::model(args, &Tape::Live)?, agent::fallbacks(args, config, &Tape::Live)?),
        false => (nobody()?, Vec::new()),
    };
    let agent = agent::builder(args, config, model.clone(), fallbacks.clone())?;
    let agent = hooks::with(agent, (args, config), None)?;
    let mut plan = subagents::build(agent, (args, config), (model, fallbacks), None)?.plan();
    if !is_configured {
        plan.model = NO_MODEL.into();
    }
    let (never, fallback) = (config.texts("approvals.never"), config.texts("agent.fallback"));
    let text = match global.json {
        true => {
            let json = serde_json::to_string(&PlanJson { plan: &plan, asks, never, fallback });
            json.map_err(|e| Refusal::new(format!("the plan cannot be written as JSON: {e}")))? + "\n"
        }
        false => text(&plan, &asks, config),
    };
    Ok(output::print(&text, global.color))
}

/// As people read it.
pub(crate) fn text(plan: &Plan, asks: &[&str], config: &Config) -> String {
    let asks = if asks.is_empty() { "nothing".into() } else { asks.join(", ") };
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

/// A model that is never asked.
fn nobody() -> Result<ModelHandle, Refusal> {
    let client = ChatClient::builder().build().map_err(|e| Refusal::new(e.message))?;
    Ok(ModelHandle::new(client, NO_MODEL))
}
