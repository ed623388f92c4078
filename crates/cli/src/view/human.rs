//! A turn for people: the answer on standard output, everything else on standard error.

use std::time::Duration;

use jiff::Timestamp;
use turnwright::{
    Outcome, ToolCall, ToolResult, TurnEvent, TurnEventKind, TurnFinished, llm_stream::prices::Price,
};

use super::{View, counted, ending, money, one_line, printable, seconds, spelled, tokens};
use crate::output::{Look, Page, To, style};

/// How much of a call's arguments and of its result is shown.
const SHOWN: usize = 100;

/// See the module.
pub(crate) struct Human {
    answer: Look,
    notes: Look,
    began: Option<Timestamp>,
    /// The last text on standard output does not end its line.
    in_text: bool,
    thought: Option<Thought>,
    shown: Shown,
    /// Events were dropped: what is shown may not be all.
    lagged: bool,
    manner: Manner,
    /// How long the legs before this one took.
    spent: Duration,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Reasoning is one line with a count.
    pub(crate) folds_thoughts: bool,
    /// Somebody is asked about calls that wait for a decision: this need not say so.
    pub(crate) asks: bool,
    /// What the model's tokens cost, if that is known.
    pub(crate) price: Option<Price>,
}

/// The text of the last model call that is on standard output.
#[derive(Default)]
struct Shown {
    text: String,
    /// The call is over: what comes next is another one's.
    is_over: bool,
}

/// Reasoning that is under way.
#[derive(Default)]
struct Thought {
    characters: u64,
    /// It is on the screen already.
    is_shown: bool,
    /// What is on the screen does not end its line.
    mid_line: bool,
}

impl Thought {
    fn folded(&self) -> String {
        format!("thought: {}", counted(self.characters, "character"))
    }
}

impl Human {
    pub(crate) fn new(answer: Look, notes: Look, manner: Manner) -> Self {
        Self {
            answer,
            notes,
            began: None,
            in_text: false,
            thought: None,
            shown: Shown::default(),
            lagged: false,
            manner,
            spent: Duration::ZERO,
        }
    }

    fn text(&mut self, text: &str, page: &mut Page) {
        self.end_thought(page);
        self.in_text = !text.ends_with('\n');
        if std::mem::take(&mut self.shown.is_over) {
            self.shown.text.clear();
        }
        self.shown.text.push_str(text);
        if self.answer.terminal {
            page.push(To::Stdout, printable(text));
        } else {
            page.push(To::Stdout, text);
        }
    }

    /// Reasoning is shown as it comes where somebody watches, or a count of it; else it is only counted.
    fn reasoning(&mut self, text: &str, page: &mut Page) {
        let shows = self.notes.terminal && !self.manner.folds_thoughts;
        let counts = self.notes.terminal && !shows && !self.notes.dumb;
        if self.thought.is_none() && (shows || counts) {
            self.end_line(page);
        }
        if self.thought.is_none() && shows {
            page.push(To::Stderr, self.notes.paint(style::DIM, "thinking: "));
        }
        let notes = self.notes;
        let thought = self.thought.get_or_insert_default();
        thought.characters += text.chars().count() as u64;
        if shows {
            thought.mid_line = !text.ends_with('\n');
            page.push(To::Stderr, notes.paint(style::DIM, &printable(text)));
        } else if counts {
            // A larger count covers a smaller one.
            thought.mid_line = true;
            page.push(To::Stderr, format!("\r{}", notes.paint(style::DIM, &thought.folded())));
        }
        thought.is_shown = shows || counts;
    }

    fn end_thought(&mut self, page: &mut Page) {
        let Some(thought) = self.thought.take() else { return };
        if !thought.is_shown {
            page.push(To::Stderr, thought.folded() + "\n");
        } else if thought.mid_line {
            page.push(To::Stderr, "\n");
        }
    }

    /// A line that comes in the midst of a text: the screen needs a line break that the answer does not have.
    fn end_line(&mut self, page: &mut Page) {
        if self.in_text && self.answer.terminal && self.notes.terminal {
            page.push(To::Stderr, "\n");
        }
    }

    /// The text so far is whole: it ends its line, in the answer too.
    fn end_text(&mut self, page: &mut Page) {
        self.end_thought(page);
        if std::mem::take(&mut self.in_text) {
            page.push(To::Stdout, "\n");
        }
    }

    fn note(&mut self, line: &str, page: &mut Page) {
        self.end_thought(page);
        self.end_line(page);
        page.push(To::Stderr, format!("{line}\n"));
    }

    fn warn(&mut self, label: &str, text: &str, page: &mut Page) {
        let line = format!("{} {}", self.notes.paint(style::WARNING, label), printable(text));
        self.note(&line, page);
    }

    fn call(&mut self, call: &ToolCall, page: &mut Page) {
        let name = self.notes.paint(style::TOOL, &printable(&call.name));
        let line = format!("→ {name} {}", one_line(&call.arguments_json(), SHOWN));
        self.note(&line, page);
    }

    fn result(&mut self, result: &ToolResult, page: &mut Page) {
        let name = self.notes.paint(style::TOOL, &printable(result.tool()));
        let took = result.elapsed.map(|took| format!(" {}", seconds(took))).unwrap_or_default();
        let failed =
            if result.is_error() { self.notes.paint(style::ERROR, " failed") } else { String::new() };
        let first = result.content.lines().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)");
        let more = match result.content.lines().count().saturating_sub(1) as u64 {
            0 => String::new(),
            n => self.notes.paint(style::DIM, &format!(" (+{})", counted(n, "line"))),
        };
        let line = format!("← {name}{failed}{took}: {}{more}", one_line(first, SHOWN));
        self.note(&line, page);
    }

    /// Shows what was dropped of the answer. It goes on where it was broken off, if it is the same.
    fn catch_up(&mut self, content: &str, page: &mut Page) {
        let shown = std::mem::take(&mut self.shown);
        match content.strip_prefix(shown.text.as_str()) {
            Some("") => {}
            Some(rest) if !shown.is_over => self.text(rest, page),
            _ => {
                self.end_text(page);
                self.warn("note:", "this is the whole answer", page);
                self.text(content, page);
            }
        }
    }

    fn finished(&mut self, at: Timestamp, finished: &TurnFinished, page: &mut Page) {
        if self.lagged && finished.streamed.is_none() && !finished.content.is_empty() {
            self.catch_up(&finished.content, page);
        }
        self.end_text(page);
        if finished.streamed.is_some() {
            self.warn("changed:", "the answer differs from what was streamed; this is the one", page);
            self.text(&finished.content, page);
            self.end_text(page);
        }
        let took = self.began.and_then(|began| Duration::try_from(at.duration_since(began)).ok());
        if self.manner.asks && finished.outcome == Outcome::Suspended {
            // The turn goes on; how long somebody thinks is not its time.
            self.spent += took.unwrap_or_default();
            return;
        }
        page.push(To::Stderr, ending(finished, self.notes));
        let took = took.map(|took| seconds(self.spent + took));
        let calls = counted(finished.iterations.into(), "model call");
        let mut line = format!("{}, {calls}", tokens(&finished.usage));
        // Whether a prompt was long is not known of several calls together.
        let price = self.manner.price.filter(|price| price.long.is_none() || finished.iterations == 1);
        if let Some(dollars) = price.and_then(|price| price.cost(&finished.usage)) {
            line.push_str(&format!(", about {}", money(dollars)));
        }
        if let Some(took) = took {
            line.push_str(", ");
            line.push_str(&took);
        }
        page.push(To::Stderr, self.notes.paint(style::DIM, &line) + "\n");
    }
}

impl View for Human {
    fn event(&mut self, event: &TurnEvent, page: &mut Page) {
        match &event.kind {
            TurnEventKind::TurnStarted { .. } => self.began = Some(event.at),
            TurnEventKind::TextDelta { text } => self.text(text, page),
            TurnEventKind::ReasoningDelta { text } => self.reasoning(text, page),
            TurnEventKind::ToolCall(call) => {
                self.end_text(page);
                self.call(call, page);
            }
            TurnEventKind::ToolProgress { text, .. } => {
                self.note(&format!("  {}", one_line(text, SHOWN)), page);
            }
            TurnEventKind::ToolResult(result) => self.result(result, page),
            TurnEventKind::IterationFinished { .. } => {
                self.end_text(page);
                self.shown.is_over = true;
            }
            TurnEventKind::Retry { attempt, model } => {
                self.end_text(page);
                self.shown.is_over = true;
                self.warn("retry:", &format!("attempt {attempt} at the model call, of {model}"), page);
            }
            TurnEventKind::HookFailed(failure) => self.warn("warning:", &failure.to_string(), page),
            TurnEventKind::ApprovalRequested(_) if self.manner.asks => self.end_text(page),
            TurnEventKind::ApprovalRequested(request) => {
                self.warn("approval:", &format!("call {} needs a decision", request.call.id), page);
            }
            TurnEventKind::ApprovalResolved { id, allowed, actor } => {
                let word = if *allowed { "approved:" } else { "denied:" };
                let line = format!("{word} call {}, by {}", spelled(id.as_str()), spelled(actor));
                self.note(&self.notes.paint(style::DIM, &line), page);
            }
            TurnEventKind::Command { command, fate, .. } => {
                self.warn("command:", &format!("{command:?} {fate:?}"), page);
            }
            TurnEventKind::Lagged { dropped } => {
                self.lagged = true;
                let what =
                    format!("{} were not shown: the output was read too slowly", counted(*dropped, "event"));
                self.warn("warning:", &what, page);
            }
            TurnEventKind::TurnFinished(finished) => self.finished(event.at, finished, page),
            // What is left is only for programs, or comes again in a form for people.
            _ => {}
        }
    }

    fn aside(&mut self, text: &str, page: &mut Page) {
        self.end_thought(page);
        self.end_line(page);
        page.push(To::Stderr, text);
    }
}
