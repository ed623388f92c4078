//! `doctor`: what a turn needs and what is there, each with a hint. Nothing is sent anywhere, and no secret is printed.

mod check;
mod machine;
mod probe;
mod providers;
mod sessions;

use std::process::ExitCode;

use self::check::{Report, Status};
use crate::{
    Global, Refusal, approval,
    args::AgentArgs,
    config::Config,
    exit,
    output::{self, Look, To},
};

/// Checks everything and prints what was found.
pub(crate) async fn examine(global: &Global, args: &AgentArgs, config: &Config) -> Result<ExitCode, Refusal> {
    let mut report = Report::default();
    machine::program(&mut report);
    providers::check(args, &mut report).await;
    machine::terminal(global.color, &mut report);
    machine::tool_root(args, &mut report);
    sessions::store(global, &mut report);
    if let Err(refusal) = approval::asked_about(&args.allow, config) {
        let check = report.add("approvals", Status::Problem, refusal.message);
        check.hint(refusal.hint.unwrap_or_default());
    }
    let text = match global.json {
        true => {
            let json = serde_json::to_string(&report.json());
            json.map_err(|e| Refusal::new(format!("the report cannot be written as JSON: {e}")))? + "\n"
        }
        false => report.text(Look::of(To::Stdout, global.color)),
    };
    let printed = output::print(&text, global.color);
    Ok(if printed == ExitCode::SUCCESS && !report.can_run() { exit::FAILED.into() } else { printed })
}
