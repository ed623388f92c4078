//! Rules that people make while they decide: *allow this tool for the session*.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwright_core::{ApprovalRequest, Decision, Timestamp, ToolDefinition};

/// Rules that are kept; the oldest goes when there would be more.
const MOST: usize = 10_000;

/// A rule: calls of a tool from a source run where the gate would ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where the tool comes from: a rule for one source covers no tool of the same name from another.
    pub source: String,
    /// The tool.
    pub tool: String,
    /// Who made it.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

impl Rule {
    /// What a decision about a question says of further calls.
    pub(crate) fn of(request: &ApprovalRequest, decision: &Decision) -> Self {
        Self {
            source: request.source.clone(),
            tool: request.call.name.clone(),
            actor: decision.actor.clone(),
            at: decision.at,
        }
    }

    pub(crate) fn covers(&self, tool: &ToolDefinition) -> bool {
        self.source == tool.source && self.tool == tool.name
    }

    /// Adds it, in place of one about the same tool.
    pub(crate) fn add_to(self, rules: &mut Vec<Self>) {
        rules.retain(|rule| (&rule.source, &rule.tool) != (&self.source, &self.tool));
        if rules.len() >= MOST {
            rules.remove(0);
        }
        rules.push(self);
    }
}

/// The rules of a gate, for all its sessions: those that people make with
/// [`Remember::Always`](turnwright_core::Remember::Always). Clones are the same rules. They live in memory: [`Rules::all`] and
/// [`Rules::restore`] are for whoever keeps them longer. Rules for one session are kept with it
/// ([`Session::rules`](crate::Session::rules)).
#[derive(Debug, Clone, Default)]
pub struct Rules(Arc<Mutex<Vec<Rule>>>);

impl Rules {
    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Rule> {
        self.0.lock().clone()
    }

    /// Rules from before, in place of those there are.
    pub fn restore(&self, rules: Vec<Rule>) {
        *self.0.lock() = rules;
    }

    /// Takes rules back: those for which this is true.
    pub fn revoke(&self, is_meant: impl Fn(&Rule) -> bool) {
        // What is called is not ours: it runs on a copy.
        let meant: Vec<Rule> = self.all().into_iter().filter(is_meant).collect();
        self.0.lock().retain(|rule| !meant.contains(rule));
    }

    pub(super) fn allow(&self, tool: &ToolDefinition) -> bool {
        self.0.lock().iter().any(|rule| rule.covers(tool))
    }

    pub(super) fn add(&self, rule: Rule) {
        rule.add_to(&mut self.0.lock());
    }
}
