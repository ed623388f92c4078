//! One turn, run to its end and held to its promises.

use std::sync::Arc;

use futures::StreamExt;
use turnwright_core::{AgentResult, Message};
use turnwright_react_runtime::{Agent, AgentBuilder, Session, TurnEvent, TurnEventKind, TurnHandle};
use turnwright_testkit::{
    Reply, ScriptedModel,
    check::{history, turn_events, visible_is_kept},
    virtual_sources,
};

/// An agent with this script, on virtual time.
pub(crate) fn agent(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    agent_of(&ScriptedModel::new(replies))
}

pub(crate) fn agent_of(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder("test", model.handle()).sources(virtual_sources(1))
}

/// What a leg said and left.
pub(crate) struct Ran {
    pub(crate) events: Vec<TurnEvent>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) result: Option<AgentResult>,
}

impl Ran {
    pub(crate) fn result(&self) -> &AgentResult {
        self.result.as_ref().unwrap()
    }
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &TurnEventKind> {
        self.events.iter().map(|e| &e.kind)
    }
}

/// Reads a leg to its end and checks what always holds.
pub(crate) async fn read(session: &Session, mut handle: TurnHandle) -> Ran {
    let mut events = Vec::new();
    while let Some(event) = handle.next().await {
        events.push(event);
    }
    let result = handle.result().await;
    let messages = session.messages();
    turn_events(&events).unwrap_or_else(|e| panic!("{e}: {events:#?}"));
    if result.is_some() {
        history(&messages).unwrap_or_else(|e| panic!("{e}: {messages:#?}"));
        visible_is_kept(&events, &messages).unwrap_or_else(|e| panic!("{e}: {messages:#?}"));
    }
    Ran { events, messages, result }
}

/// Runs one turn in a new session.
pub(crate) async fn run(agent: &Agent, input: &str) -> Ran {
    let session = agent.new_session();
    let handle = session.start(input).unwrap();
    read(&session, handle).await
}
