//! History: the object-safe face hooks and layers use, and the checker for legal histories.

mod query;

use std::sync::Arc;

use parking_lot::Mutex;

pub use query::HistoryQuery;

use crate::{CallId, Message, MessageId, Origin, Part, Role};

/// What a session's history looks like from inside a turn. All methods are short and synchronous.
pub trait History: Send + Sync {
    /// Adds a message of the user or system role. While tool calls are open it lands right after their results, so
    /// that the history stays legal. Returns the revision after the append (or before, when it is deferred).
    ///
    /// # Errors
    /// [`HistoryError`] when the message is none a user or the system could say, or the turn is over.
    fn append(&self, message: Message) -> Result<u64, HistoryError>;

    /// Lets this message stand for all that came before, up to `through`, in what models are sent from now on. Nothing is
    /// removed: what was said can be read, exported and forked as before. One step, or none: where the history is not at
    /// `revision` any more, nothing is changed. Returns the revision after it.
    ///
    /// The message is one that [`append`](History::append) takes; its origin becomes [`Origin::Summary`].
    ///
    /// # Errors
    /// [`HistoryError`]: the history was changed meanwhile, calls are open or an answer arrives, `through` is no message of it,
    /// is a summary or stands behind one already, or stands between calls and their results.
    fn collapse(&self, through: MessageId, summary: Message, revision: u64) -> Result<u64, HistoryError>;

    /// The messages at this moment, whatever summaries stand for. Cheap: the messages are shared.
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
    /// Somebody else was quicker.
    #[error("the history was changed meanwhile: it is at revision {found}, not {expected}")]
    Changed {
        /// The revision it was to be changed at.
        expected: u64,
        /// The revision it is at.
        found: u64,
    },
    /// Calls have no result yet, or an answer arrives.
    #[error("calls of the history are open, or an answer arrives")]
    Open,
    /// There is no such message.
    #[error("the history has no message {0}")]
    Unknown(MessageId),
    /// The message is a summary, or an earlier summary stands for it: what a summary through there stood for could not be told.
    #[error("message {0} is a summary, or an earlier summary stands for it")]
    Covered(MessageId),
    /// The message stands between calls and their results.
    #[error("message {through} stands between calls and their results: {fault}")]
    Splits {
        /// The message.
        through: MessageId,
        /// What would be wrong with the rest.
        fault: HistoryFault,
    },
}

/// What models are sent of a history: the last summary, and what came after the last message it stands for. A history without one
/// is sent whole.
pub fn view(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let Some(at) = messages.iter().rposition(is_summary) else { return messages };
    let Some(last) = covered(&messages) else { return messages };
    let rest = messages[last + 1..].iter().filter(|message| !is_summary(message));
    std::iter::once(&messages[at]).chain(rest).cloned().collect()
}

fn is_summary(message: &Arc<Message>) -> bool {
    matches!(message.origin, Origin::Summary { .. })
}

/// Where the last message stands that the last summary stands for.
fn covered(messages: &[Arc<Message>]) -> Option<usize> {
    let at = messages.iter().rposition(is_summary)?;
    let Origin::Summary { through } = messages[at].origin else { return None };
    messages[..at].iter().position(|message| message.id == through)
}

/// Whether a summary may stand for the messages up to this one.
///
/// # Errors
/// [`HistoryError::Unknown`], [`HistoryError::Covered`] and [`HistoryError::Splits`].
pub fn collapsible(messages: &[Arc<Message>], through: MessageId) -> Result<(), HistoryError> {
    let last =
        messages.iter().position(|message| message.id == through).ok_or(HistoryError::Unknown(through))?;
    // A summary stands behind what was kept word by word beside it: to end there would lose those messages unread. To end
    // before what it stands for would bring messages back.
    let seen = covered(messages).map_or(0, |covered| covered + 1);
    if last < seen || is_summary(&messages[last]) {
        return Err(HistoryError::Covered(through));
    }
    let splits = |fault| HistoryError::Splits { through, fault };
    check(messages[..=last].iter().map(|message| &**message)).map_err(splits)?;
    check(messages[last + 1..].iter().map(|message| &**message)).map_err(splits)
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

    fn collapse(&self, through: MessageId, summary: Message, revision: u64) -> Result<u64, HistoryError> {
        appendable(&summary)?;
        let mut inner = self.0.lock();
        if inner.revision != revision {
            return Err(HistoryError::Changed { expected: revision, found: inner.revision });
        }
        collapsible(&inner.messages, through)?;
        inner.messages.push(Arc::new(summary.origin(Origin::Summary { through })));
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

    #[test]
    fn a_summary_stands_for_what_it_says_and_nothing_is_removed() {
        let h = MemoryHistory::new([user(), calls(&["a"]), answer("a"), user()].map(Arc::new).to_vec());
        let ids: Vec<_> = h.snapshot().messages.iter().map(|m| m.id).collect();
        let say = |text: &str| Message::user(Sources::default().id(), text);
        assert!(matches!(h.collapse(ids[1], say("s"), 0), Err(HistoryError::Splits { .. })));
        assert_eq!(h.collapse(ids[2], say("s"), 7), Err(HistoryError::Changed { expected: 7, found: 0 }));
        let nobody = say("x").id;
        assert_eq!(h.collapse(nobody, say("s"), 0), Err(HistoryError::Unknown(nobody)));
        let all = h.snapshot().messages;
        assert_eq!(view(all.clone()), all);
        assert_eq!(h.collapse(ids[2], say("first"), 0), Ok(1));
        h.append(say("more")).unwrap();
        let texts = |h: &MemoryHistory| -> Vec<String> {
            view(h.snapshot().messages).iter().map(|message| message.text()).collect()
        };
        assert_eq!(
            (texts(&h), h.snapshot().messages.len()),
            (vec!["first".into(), "hi".into(), "more".into()], 6)
        );
        // Through the summary itself, what was kept beside it would be lost; through what it stands for, brought back.
        let summary = h.snapshot().messages[4].id;
        for covered in [summary, ids[2], ids[0]] {
            assert_eq!(h.collapse(covered, say("second"), 2), Err(HistoryError::Covered(covered)));
        }
        // A later one stands for an earlier one as well.
        assert_eq!(h.collapse(ids[3], say("second"), 2), Ok(3));
        assert_eq!(texts(&h), ["second", "more"]);
    }
}
