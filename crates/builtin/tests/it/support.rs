//! Turns with a scripted model.

use turnwright_core::Message;
use turnwright_react_runtime::{Agent, AgentBuilder, Session};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

/// An agent with this script, in virtual time.
pub(crate) fn agent(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    Agent::builder("agent", ScriptedModel::new(replies).handle()).sources(virtual_sources(1))
}

/// The texts of a session's reminders.
pub(crate) fn reminders(session: &Session) -> Vec<String> {
    let messages = session.messages();
    messages.iter().filter(|m| turnwright_builtin::is_reminder(m)).map(|m| Message::text(m)).collect()
}
