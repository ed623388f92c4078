//! History: the object-safe face hooks and layers use, and the checker for legal histories.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{CallId, Message, MessageId, Part, Role};

/// What a session's history looks like from inside a turn. All methods are short and synchronous.
pub trait History: Send + Sync {
    /// Adds a message of the user or system role. While tool calls are open it lands right after their results, so
    /// that the history stays legal. Returns the revision after the append (or before, when it is deferred).
    ///
    /// # Errors
    /// [`HistoryError`] when the message is none a user or the system could say, or the turn is over.
    fn append(&self, message: Message) -> Result<u64, HistoryError>;

    /// The messages at this moment. Cheap: the messages are shared.
    fn snapshot(&self) -> HistorySnapshot;

    /// Counts changes; equal revisions mean equal histories.
    fn revision(&self) -> u64;
}

/// A history at one moment.
#[derive(Debug, Clone, Default)]
pub struct HistorySnapshot {
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The revision they belong to.
    pub revision: u64,
}

/// An append that was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Only user and system messages can be appended from outside the loop.
    #[error("a message of role {0:?} cannot be appended from outside the loop")]
    Role(Role),
    /// The message is empty, or holds what its role cannot say: calls, results and reasoning come from the loop alone,
    /// and images belong to users.
    #[error(
        "a message appended from outside the loop holds text, or images of a user, and at least one of them"
    )]
    Part,
    /// The turn is over.
    #[error("the turn is over: its history is sealed")]
    Sealed,
}

/// Whether a message may be appended through [`History::append`].
///
/// # Errors
/// [`HistoryError`] saying what is wrong with it.
pub fn appendable(message: &Message) -> Result<(), HistoryError> {
    if !matches!(message.role, Role::User | Role::System) {
        return Err(HistoryError::Role(message.role));
    }
    let is_words = message.parts.iter().all(|p| matches!(p, Part::Text { .. } | Part::Image(_)));
    // What the checker refuses would fail this turn, and every later one of the session.
    match is_words && check_parts(message).is_ok() {
        true => Ok(()),
        false => Err(HistoryError::Part),
    }
}

/// What is wrong with a history, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryFault {
    /// A call has no result before the next message.
    #[error("call {call} of message {message} has no result before message {next:?}")]
    Unanswered {
        /// The call.
        call: CallId,
        /// The message it was made in.
        message: MessageId,
        /// The message that came too early; none at the end of the history.
        next: Option<MessageId>,
    },
    /// A result answers no open call.
    #[error("message {message} answers call {call}, which is not open")]
    Orphan {
        /// The call it claims to answer.
        call: CallId,
        /// The message.
        message: MessageId,
    },
    /// Results are not in the order of their calls.
    #[error("message {message} answers call {call} out of order")]
    Order {
        /// The call.
        call: CallId,
        /// The message.
        message: MessageId,
    },
    /// Two calls of one message share an id.
    #[error("message {message} holds two calls with id {call}")]
    DuplicateCall {
        /// The id.
        call: CallId,
        /// The message.
        message: MessageId,
    },
    /// A part does not belong into a message of this role.
    #[error("message {message} of role {role:?} holds a part that role cannot hold")]
    Misplaced {
        /// The role.
        role: Role,
        /// The message.
        message: MessageId,
    },
    /// A message without parts.
    #[error("message {message} is empty")]
    Empty {
        /// The message.
        message: MessageId,
    },
}

/// Proves that a history is legal: every call has exactly one result, right after its message and in model order, and
/// every part stands in a message of a fitting role.
///
/// # Errors
/// The first [`HistoryFault`].
pub fn check<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Result<(), HistoryFault> {
    let mut open: Vec<(&CallId, MessageId)> = Vec::new();
    let unanswered = |open: &[(&CallId, MessageId)], next| match open.first() {
        Some(&(call, message)) => Err(HistoryFault::Unanswered { call: call.clone(), message, next }),
        None => Ok(()),
    };
    for message in messages {
        check_parts(message)?;
        if message.role != Role::Tool {
            unanswered(&open, Some(message.id))?;
        }
        for result in message.tool_results() {
            let call = result.call_id();
            match open.iter().position(|(id, _)| *id == call) {
                Some(0) => drop(open.remove(0)),
                Some(_) => return Err(HistoryFault::Order { call: call.clone(), message: message.id }),
                None => return Err(HistoryFault::Orphan { call: call.clone(), message: message.id }),
            }
        }
        for call in message.tool_calls() {
            if open.iter().any(|(id, _)| **id == call.id) {
                return Err(HistoryFault::DuplicateCall { call: call.id.clone(), message: message.id });
            }
            open.push((&call.id, message.id));
        }
    }
    unanswered(&open, None)
}

fn check_parts(message: &Message) -> Result<(), HistoryFault> {
    if message.parts.is_empty() {
        return Err(HistoryFault::Empty { message: message.id });
    }
    let fits = |part: &Part| match part {
        Part::Text { .. } => message.role != Role::Tool,
        Part::Image(_) => message.role == Role::User,
        Part::Reasoning(_) | Part::ToolCall(_) => message.role == Role::Assistant,
        Part::ToolResult(_) => message.role == Role::Tool,
    };
    match message.parts.iter().all(fits) {
        true => Ok(()),
        false => Err(HistoryFault::Misplaced { role: message.role, message: message.id }),
    }
}

/// A history in memory: for chains and hooks that run without the loop, and for tests.
#[derive(Debug, Default)]
pub struct MemoryHistory(Mutex<HistorySnapshot>);

impl MemoryHistory {
    /// A history that starts with these messages.
    pub fn new(messages: Vec<Arc<Message>>) -> Self {
        Self(Mutex::new(HistorySnapshot { messages, revision: 0 }))
    }
}

impl History for MemoryHistory {
    fn append(&self, message: Message) -> Result<u64, HistoryError> {
        appendable(&message)?;
        let mut inner = self.0.lock();
        inner.messages.push(Arc::new(message));
        inner.revision += 1;
        Ok(inner.revision)
    }

    fn snapshot(&self) -> HistorySnapshot {
        self.0.lock().clone()
    }

    fn revision(&self) -> u64 {
        self.0.lock().revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sources, ToolCall, ToolResult};

    fn calls(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|id| Part::ToolCall(ToolCall::new(*id, "t", "{}"))).collect();
        Message::new(Sources::default().id(), Role::Assistant, parts)
    }
    fn answer(id: &str) -> Message {
        Message::tool(Sources::default().id(), ToolResult::ok(&ToolCall::new(id, "t", "{}"), "ok"))
    }
    fn user() -> Message {
        Message::user(Sources::default().id(), "hi")
    }

    #[test]
    fn the_checker_accepts_pairs_and_names_every_fault() {
        check(&[user(), calls(&["a", "b"]), answer("a"), answer("b"), user()]).unwrap();
        type Is = fn(&HistoryFault) -> bool;
        let faults: [(Vec<Message>, Is); 6] = [
            (vec![calls(&["a"]), user()], |f| matches!(f, HistoryFault::Unanswered { next: Some(_), .. })),
            (vec![calls(&["a"])], |f| matches!(f, HistoryFault::Unanswered { next: None, .. })),
            (vec![answer("a")], |f| matches!(f, HistoryFault::Orphan { .. })),
            (vec![calls(&["a", "b"]), answer("b")], |f| matches!(f, HistoryFault::Order { .. })),
            (vec![calls(&["a", "a"])], |f| matches!(f, HistoryFault::DuplicateCall { .. })),
            (vec![calls(&["a"]), answer("a"), answer("a")], |f| matches!(f, HistoryFault::Orphan { .. })),
        ];
        for (messages, is) in faults {
            let fault = check(&messages).unwrap_err();
            assert!(is(&fault), "{fault}");
        }
    }

    #[test]
    fn only_words_can_be_appended_from_outside() {
        let h = MemoryHistory::default();
        assert_eq!(h.append(user()), Ok(1));
        assert_eq!(h.append(calls(&["a"])), Err(HistoryError::Role(Role::Assistant)));
        let image = || Part::Image(crate::ImageRef { uri: "x".into(), media_type: None });
        let message = |role, parts| Message::new(Sources::default().id(), role, parts);
        for illegal in [message(Role::System, vec![image()]), message(Role::User, Vec::new())] {
            assert!(check([&illegal]).is_err());
            assert_eq!(h.append(illegal), Err(HistoryError::Part));
        }
        assert_eq!(h.revision(), 1);
        assert_eq!(h.append(message(Role::User, vec![image()])), Ok(2));
    }
}
