//! What a subagent was asked, and by whom: the first message of its turn says so, in the sender's own id.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnwright_core::{CallId, Message, Origin, Role, SessionId, TurnContext, TurnId};

/// One call of `task`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The session of the parent: the only one a subagent may speak to.
    pub(crate) parent: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) call: CallId,
    /// The parent's call does not wait for it.
    pub(crate) detached: bool,
}

impl Request {
    /// That of a call of this turn.
    pub(crate) fn of(ctx: &TurnContext, call: &CallId, detached: bool) -> Self {
        Self { parent: ctx.session().clone(), turn: ctx.turn(), call: call.clone(), detached }
    }

    /// The key of the message that asks. Session ids hold no slash.
    pub(crate) fn key(&self) -> String {
        let how = if self.detached { "detached" } else { "task" };
        format!("{how}/{}/{}/{}", self.parent, self.turn, self.call)
    }

    fn parse(key: &str) -> Option<Self> {
        let mut parts = key.splitn(4, '/');
        let detached = match parts.next()? {
            "task" => false,
            "detached" => true,
            _ => return None,
        };
        let parent = SessionId::new(parts.next()?).ok()?;
        let turn = parts.next()?.parse().ok()?;
        Some(Self { parent, turn, call: parts.next()?.into(), detached })
    }

    /// What the turn of a subagent's history that runs, or ran last, was asked; none when nobody's call asked it.
    pub(crate) fn last(messages: &[Arc<Message>]) -> Option<Self> {
        let starts = |m: &&Arc<Message>| m.role == Role::User && m.origin == Origin::Conversation;
        Self::parse(messages.iter().rfind(starts)?.key.as_ref()?)
    }

    /// What the first turn of a history was asked: its parent owns the invocation.
    pub(crate) fn first(messages: &[Arc<Message>]) -> Option<Self> {
        Self::parse(messages.first()?.key.as_ref()?)
    }

    /// The name of the report about it: the same whenever and wherever the call is run, so that it is known when it comes
    /// twice.
    pub(crate) fn report(&self) -> String {
        format!("report-{}", self.invocation())
    }

    /// The name of the invocation that it begins, if it begins one.
    pub(crate) fn invocation(&self) -> String {
        let mut hasher = Sha256::new();
        for part in [self.parent.as_str(), &self.turn.to_string(), self.call.as_str()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The session of an invocation.
pub(crate) fn session_of(invocation: &str, agent: &str) -> Option<SessionId> {
    SessionId::new(format!("{invocation}.{agent}")).ok()
}

/// The invocation that a subagent's session belongs to.
pub(crate) fn invocation_of(session: &SessionId, agent: &str) -> Option<String> {
    Some(session.as_str().strip_suffix(agent)?.strip_suffix('.')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::Sources;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let parent = SessionId::new("user-1@web:eu").unwrap();
        for (call, detached) in [("a", false), ("a/b/c", true), ("", false)] {
            let request = Request {
                parent: parent.clone(),
                turn: Sources::default().id(),
                call: call.into(),
                detached,
            };
            assert_eq!(Request::parse(&request.key()), Some(request));
        }
        for none in ["", "task", "task/s", "task/s/t/c", "other/s/t/c", "ann's own key"] {
            assert_eq!(Request::parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_session_names_its_invocation() {
        let session = session_of("ab12", "reader").unwrap();
        assert_eq!(session.as_str(), "ab12.reader");
        assert_eq!(invocation_of(&session, "reader").unwrap(), "ab12");
        assert_eq!(invocation_of(&session, "writer"), None);
        assert!(session_of("a b", "reader").is_none());
    }
}
