//! What the demonstration looks like: all of it on standard output, within 80 columns.

use std::{env, fmt::Write};

use anstyle::Style;
use jiff::Timestamp;
use turnwright::{Fate, Plan, ToolResult, TurnEvent, TurnEventKind, TurnFinished, interceptor::ScopeName};

use super::{
    QUESTION,
    powers::{Notes, Power, STEER},
};
use crate::{
    output::{Look, Page, To, style},
    view::{View, counted, ending, one_line, printable, seconds, tokens},
};

const LABEL: usize = 12;
const WIDTH: usize = 79 - LABEL;

/// See the module.
pub(super) struct Screen {
    look: Look,
    notes: Notes,
    plan: String,
    began: Option<Timestamp>,
    in_text: bool,
}

impl Screen {
    pub(super) fn new(look: Look, notes: Notes, plan: &Plan) -> Self {
        Self { look, notes, plan: plan_lines(look, plan), began: None, in_text: false }
    }

    fn label(&self, label: &str, style: Style) -> String {
        self.look.paint(style, &format!("{label:LABEL$}"))
    }

    fn line(&mut self, label: &str, style: Style, text: &str, page: &mut Page) {
        self.end_text(page);
        page.push(To::Stdout, format!("{}{}\n", self.label(label, style), one_line(text, WIDTH)));
    }

    fn text(&mut self, text: &str, page: &mut Page) {
        if !std::mem::replace(&mut self.in_text, true) {
            page.push(To::Stdout, self.label("model", style::BOLD));
        }
        page.push(To::Stdout, printable(text).replace('\n', &format!("\n{:LABEL$}", "")));
    }

    fn end_text(&mut self, page: &mut Page) {
        if std::mem::take(&mut self.in_text) {
            page.push(To::Stdout, "\n");
        }
    }

    fn powers(&mut self, page: &mut Page) {
        for (power, line) in self.notes.take() {
            match power {
                Power::Hook => self.line("hook", style::HOOK, &line, page),
                Power::Interceptor => self.line("interceptor", style::INTERCEPTOR, &line, page),
            }
        }
    }

    fn result(&mut self, result: &ToolResult, page: &mut Page) {
        let lines = match result.content.lines().count() as u64 {
            0 | 1 => String::new(),
            n => format!(" {}:", counted(n, "line")),
        };
        let text = format!("{} answers:{lines} {}", result.tool(), result.content);
        self.line("tool", style::TOOL, &text, page);
    }

    fn finished(&mut self, at: Timestamp, finished: &TurnFinished, page: &mut Page) {
        self.end_text(page);
        page.push(To::Stdout, ending(finished, self.look));
        let took = self.began.and_then(|began| at.duration_since(began).try_into().ok()).unwrap_or_default();
        let calls = counted(finished.iterations.into(), "model call");
        let outcome = format!("{:?}", finished.outcome).to_lowercase();
        let text = format!("{outcome} in {}: {calls}, {}", seconds(took), tokens(&finished.usage));
        self.line("end", style::GOOD, &text, page);
        page.push(To::Stdout, format!("\n{}\n{}", self.plan, next_lines(self.look)));
    }
}

impl View for Screen {
    fn event(&mut self, event: &TurnEvent, page: &mut Page) {
        match &event.kind {
            TurnEventKind::TurnStarted { .. } => {
                self.began = Some(event.at);
                page.push(To::Stdout, header(self.look));
                self.line("you", style::BOLD, QUESTION, page);
            }
            TurnEventKind::TextDelta { text } => self.text(text, page),
            TurnEventKind::ToolCall(call) => {
                let text = format!("{} {}", call.name, call.arguments_json());
                self.line("tool", style::TOOL, &text, page);
            }
            // Hook and interceptor acted before this was recorded: their lines stand above it.
            TurnEventKind::ToolResult(result) => {
                self.powers(page);
                self.result(result, page);
            }
            TurnEventKind::Command { fate, .. } => {
                self.powers(page);
                let what = match fate {
                    Fate::Applied => "goes into the next model call",
                    _ => "came too late",
                };
                self.line("control", style::CONTROL, &format!("you say {STEER:?}: it {what}"), page);
            }
            TurnEventKind::HookFailed(failure) => {
                self.line("hook", style::WARNING, &failure.to_string(), page);
            }
            TurnEventKind::TurnFinished(finished) => {
                self.end_text(page);
                self.powers(page);
                self.finished(event.at, finished, page);
            }
            _ => {}
        }
    }
}

fn header(look: Look) -> String {
    let name = look.paint(style::BOLD, concat!("turnwright ", env!("CARGO_PKG_VERSION")));
    let recorded = look.paint(style::WARNING, "the model is recorded");
    format!(
        "{name}: a runtime for LLM agents whose turns can be watched,\nwrapped, steered and stopped while they run.\n\n\
         No provider is configured, so {recorded}: its two replies are bytes\n\
         of this program, sent over loopback HTTP through the real client and decoder.\n\
         The runtime is real, and so are the tools, which read this directory. The lines\n\
         hook, interceptor and control show who acts on the turn beside the model.\n\n"
    )
}

/// The plan of the agent, in a few lines.
fn plan_lines(look: Look, plan: &Plan) -> String {
    let mut out =
        look.paint(style::BOLD, "What acted, as registered (every agent can print its plan):") + "\n";
    let mut row = |label: &str, style: Style, text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}{}", look.paint(style, &format!("{label:LABEL$}")), one_line(&text, WIDTH));
    };
    for hook in &plan.hooks {
        let points: Vec<_> = hook.points.iter().map(|p| p.name()).collect();
        row("hook", style::HOOK, format!("{} at {}", hook.name, points.join(", ")));
    }
    for scope in ScopeName::ALL {
        let layers = plan.interceptors.iter().filter(|l| l.scope == scope);
        let layers: Vec<_> = layers.map(|l| l.name.as_str()).collect();
        if !layers.is_empty() {
            row("interceptor", style::INTERCEPTOR, format!("{scope}: {}", layers.join(", ")));
        }
    }
    let tools: Vec<_> = plan.tools.iter().map(|t| t.name.as_str()).collect();
    row("control", style::CONTROL, "in memory: cancel, drain, steer, follow-up".into());
    row("tools", style::TOOL, tools.join(", "));
    let limits = format!(
        "{}, {} at once",
        counted(plan.limits.iterations.into(), "model call"),
        counted(plan.parallel_tools as u64, "tool")
    );
    row("limits", style::BOLD, limits);
    out
}

fn next_lines(look: Look) -> String {
    let program = env::args().next().filter(|name| name.len() < 30).unwrap_or_else(|| "turnwright".into());
    format!(
        "{}\n  export OPENAI_BASE_URL=http://127.0.0.1:8080/v1   # or OPENAI_API_KEY=...\n  \
         {program} run --model NAME \"What is this project?\"\n  \
         cargo xtask ci   # in the source tree: every check\n",
        look.paint(style::BOLD, "Next, with a model of your own (any OpenAI-compatible server):")
    )
}
