//! Rules that people make while they decide: *allow this tool for the session*.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwright_core::{ApprovalRequest, Decision, Remember, SessionId, Timestamp, ToolDefinition};

/// Rules that are kept; the oldest goes when there would be more.
const MOST: usize = 10_000;

/// A rule: calls of a tool from a source run without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where the tool comes from: a rule for one source covers no tool of the same name from another.
    pub source: String,
    /// The tool.
    pub tool: String,
    /// The session it is for; every one when none.
    pub session: Option<SessionId>,
    /// Who made it.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// The rules of a gate. Clones are the same rules. They live in memory: [`Rules::all`] and [`Rules::restore`] are for
/// whoever keeps them longer.
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
        let kept: Vec<Rule> = self.all().into_iter().filter(|rule| !is_meant(rule)).collect();
        *self.0.lock() = kept;
    }

    pub(super) fn allow(&self, session: &SessionId, tool: &ToolDefinition) -> bool {
        self.0.lock().iter().any(|rule| {
            rule.source == tool.source
                && rule.tool == tool.name
                && rule.session.as_ref().is_none_or(|of| of == session)
        })
    }

    pub(super) fn granted(&self, session: &SessionId, request: &ApprovalRequest, decision: &Decision) {
        let session = match decision.remember {
            None => return,
            Some(Remember::Session) => Some(session.clone()),
            Some(Remember::Always) => None,
        };
        let rule = Rule {
            source: request.source.clone(),
            tool: request.call.name.clone(),
            session,
            actor: decision.actor.clone(),
            at: decision.at,
        };
        let mut rules = self.0.lock();
        if rules.len() >= MOST {
            rules.remove(0);
        }
        rules.push(rule);
    }
}
