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

/// What a store of a test does not change: the rest of the trait, as its inner store has it.
macro_rules! rest_of_store {
    ($self:ident => $inner:expr) => {
        fn append(
            &$self,
            records: turnwright_react_runtime::store::JournalAppend,
        ) -> turnwright_core::BoxFuture<'_, Result<(), turnwright_react_runtime::store::StoreError>> {
            turnwright_react_runtime::store::SessionStore::append(&$inner, records)
        }
        fn renew<'a>(
            &'a $self,
            session: &'a turnwright_core::SessionId,
            fence: turnwright_react_runtime::store::Fence,
            ttl: std::time::Duration,
        ) -> turnwright_core::BoxFuture<'a, Result<(), turnwright_react_runtime::store::StoreError>> {
            turnwright_react_runtime::store::SessionStore::renew(&$inner, session, fence, ttl)
        }
        fn release<'a>(
            &'a $self,
            session: &'a turnwright_core::SessionId,
            fence: turnwright_react_runtime::store::Fence,
            events: Vec<turnwright_react_runtime::store::RecordedEvent>,
        ) -> turnwright_core::BoxFuture<'a, Result<(), turnwright_react_runtime::store::StoreError>> {
            turnwright_react_runtime::store::SessionStore::release(&$inner, session, fence, events)
        }
        fn delete<'a>(
            &'a $self,
            session: &'a turnwright_core::SessionId,
        ) -> turnwright_core::BoxFuture<'a, Result<(), turnwright_react_runtime::store::StoreError>> {
            turnwright_react_runtime::store::SessionStore::delete(&$inner, session)
        }
        fn list(
            &$self,
            query: turnwright_react_runtime::store::SessionQuery,
        ) -> turnwright_core::BoxFuture<
            '_,
            Result<Vec<turnwright_react_runtime::store::SessionSummary>, turnwright_react_runtime::store::StoreError>,
        > {
            turnwright_react_runtime::store::SessionStore::list(&$inner, query)
        }
        fn events<'a>(
            &'a $self,
            session: &'a turnwright_core::SessionId,
            after: u64,
            limit: usize,
        ) -> turnwright_core::BoxFuture<
            'a,
            Result<Vec<turnwright_react_runtime::store::StoredEvent>, turnwright_react_runtime::store::StoreError>,
        > {
            turnwright_react_runtime::store::SessionStore::events(&$inner, session, after, limit)
        }
        fn watch(&$self, session: &turnwright_core::SessionId) -> turnwright_control::Wakeup {
            turnwright_react_runtime::store::SessionStore::watch(&$inner, session)
        }
    };
}
pub(crate) use rest_of_store;
