//! Looking for messages.

use std::sync::Arc;

use super::HistorySnapshot;
use crate::{CallId, Message, Part, Role};

/// What to look for in a history. All that is set must hold; nothing set finds everything.
///
/// ```
/// use turnwright_core::{Role, history::{HistoryQuery, HistorySnapshot}};
///
/// let history = HistorySnapshot::default();
/// let words = HistoryQuery::new().role(Role::User).containing("invoice").last(3);
/// assert!(history.find(&words).is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct HistoryQuery {
    role: Option<Role>,
    call: Option<CallId>,
    text: Option<String>,
    last: Option<usize>,
}

impl HistoryQuery {
    /// Everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// What this role said.
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// The answer that made this call, and its result.
    pub fn call(mut self, call: impl Into<CallId>) -> Self {
        self.call = Some(call.into());
        self
    }

    /// Messages with this text in what was said or reasoned, in a call's name or arguments, or in a result. What providers want
    /// back unchanged is not looked into. Upper and lower case are different.
    pub fn containing(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Only the newest ones, this many.
    pub fn last(mut self, n: usize) -> Self {
        self.last = Some(n);
        self
    }

    fn finds(&self, message: &Message) -> bool {
        let has_call = |call: &CallId| {
            message.tool_calls().any(|made| made.id == *call)
                || message.tool_results().any(|result| result.call_id() == call)
        };
        self.role.is_none_or(|role| message.role == role)
            && self.call.as_ref().is_none_or(has_call)
            && self.text.as_ref().is_none_or(|text| message.parts.iter().any(|part| says(part, text)))
    }
}

fn says(part: &Part, text: &str) -> bool {
    match part {
        Part::Text { text: said } => said.contains(text),
        Part::Reasoning(reasoning) => reasoning.text.contains(text),
        Part::ToolCall(call) => call.name.contains(text) || call.arguments.contains(text),
        Part::ToolResult(result) => result.content.contains(text),
        Part::Image(_) => false,
    }
}

impl HistorySnapshot {
    /// The messages that a query finds, oldest first, those that a summary stands for included.
    pub fn find(&self, query: &HistoryQuery) -> Vec<Arc<Message>> {
        let found = self.messages.iter().rev().filter(|message| query.finds(message));
        let mut found: Vec<_> = found.take(query.last.unwrap_or(usize::MAX)).cloned().collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reasoning, Sources, ToolCall, ToolResult};

    /// middleware-hooks §7.3 row 5.
    #[test]
    fn all_conditions_hold_the_limit_keeps_the_newest_and_opaque_state_is_not_searched() {
        let sources = Sources::default();
        let call = ToolCall::new("c1", "weather", r#"{"city":"Graz"}"#);
        let opaque = [("signature".to_owned(), "Graz".into())].into_iter().collect();
        let reasoning = Part::Reasoning(Reasoning { text: "hm".into(), opaque });
        let messages = [
            Message::user(sources.id(), "weather in Graz?"),
            Message::new(sources.id(), Role::Assistant, vec![Part::ToolCall(call.clone())]),
            Message::tool(sources.id(), ToolResult::ok(&call, "sun")),
            Message::new(sources.id(), Role::Assistant, vec![reasoning, Part::text("sunny")]),
            Message::user(sources.id(), "and tomorrow?"),
        ];
        let history = HistorySnapshot { messages: messages.into_iter().map(Arc::new).collect(), revision: 1 };
        let at = |query: HistoryQuery| -> Vec<usize> {
            let index = |found: &Arc<Message>| history.messages.iter().position(|m| Arc::ptr_eq(m, found));
            history.find(&query).iter().filter_map(index).collect()
        };
        let query = HistoryQuery::new;
        assert_eq!(at(query()), [0, 1, 2, 3, 4]);
        assert_eq!(at(query().last(2)), [3, 4]);
        assert_eq!(at(query().role(Role::User).last(1)), [4]);
        assert_eq!(at(query().call("c1")), [1, 2]);
        assert_eq!(at(query().containing("Graz")), [0, 1], "no opaque state");
        assert_eq!(at(query().containing("Graz").role(Role::Assistant)), [1]);
        assert_eq!(at(query().containing("sun").last(1)), [3]);
        assert!(at(query().call("c2")).is_empty() && at(query().last(0)).is_empty());
    }
}
