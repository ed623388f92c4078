//! What is told is stored, and what is not says so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::FutureExt;
use parking_lot::Mutex;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, ErrorKind, SessionId};
use turnwright_react_runtime::{
    Record, RecordKind, TurnEventKind,
    store::{
        Committed, Fence, JournalAppend, MemoryStore, RecordedEvent, SessionCommit, SessionQuery,
        SessionStore, SessionSummary, StoreError, StoredEvent, StoredSession,
    },
    tool::{ToolContext, ToolError, tool},
};

use super::{all, diary, echo, with_tool, words};
use crate::support::{agent, run};

#[tokio::test]
async fn what_is_told_is_in_the_store_already() {
    let store = Arc::new(MemoryStore::new());
    let agent = agent(with_tool()).tool(echo()).store(store.clone()).build().unwrap();
    let missing = Arc::new(Mutex::new(Vec::new()));
    let (looked_in, to) = (store.clone(), missing.clone());
    agent.observers().on_all(move |record: &Arc<Record>| {
        let stored = looked_in.load(&record.session).now_or_never().unwrap().unwrap().unwrap_or_default();
        let events = looked_in.events(&record.session, 0, 1_000).now_or_never().unwrap().unwrap();
        let is_there = match &record.kind {
            RecordKind::Message(message) => stored.messages.contains(message),
            RecordKind::Event(event) => {
                let json = serde_json::to_value(event).unwrap();
                events.iter().any(|stored| stored.recorded.event == json)
            }
            _ => true,
        };
        if !is_there || !record.stored {
            to.lock().push(words(record));
        }
    });
    let diary = diary(&agent);
    run(&agent, "hi").await;
    assert_eq!(*missing.lock(), Vec::<String>::new());
    assert_eq!(all(&diary).len(), 18, "as many as without a store");
}

/// A store that takes no changes from some moment on. What ends a lease it takes, or not.
struct Fails {
    store: MemoryStore,
    has_failed: AtomicBool,
    releases: bool,
}
impl SessionStore for Fails {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.store.load(session)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        if self.has_failed.load(SeqCst) {
            return Box::pin(async { Err(StoreError::Backend("full".into())) });
        }
        self.store.commit(change)
    }
    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.append(records)
    }
    fn renew<'a>(&'a self, s: &'a SessionId, f: Fence, t: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.renew(s, f, t)
    }
    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if !self.releases {
            return Box::pin(async { Err(StoreError::Backend("full".into())) });
        }
        self.store.release(session, fence, events)
    }
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.delete(session)
    }
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.store.list(query)
    }
    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.store.events(session, after, limit)
    }
    fn watch(&self, session: &SessionId) -> Wakeup {
        self.store.watch(session)
    }
}

#[tokio::test]
async fn what_could_not_be_stored_is_told_before_the_end_and_says_so() {
    let unstored_if = async |releases| {
        let store = Fails { store: MemoryStore::new(), has_failed: AtomicBool::new(false), releases };
        let store = Arc::new(store);
        let breaks = store.clone();
        let tool = tool("echo", "", move |_: ToolContext, (): ()| {
            breaks.has_failed.store(true, SeqCst);
            async { Ok::<_, ToolError>("echoed".to_owned()) }
        });
        let agent = agent(with_tool()).tool(tool).store(store).build().unwrap();
        let diary = diary(&agent);
        let ran = run(&agent, "hi").await;
        assert_eq!(ran.result().error.as_ref().unwrap().kind, ErrorKind::Store);
        let told = diary.lock();
        let RecordKind::Event(TurnEventKind::TurnFinished(end)) = &told.last().unwrap().kind else {
            panic!("the end is last: {told:#?}")
        };
        assert_eq!(end.error.as_ref().unwrap().kind, "store", "an observer on errors hears of it");
        told.iter().filter(|record| !record.stored).map(|record| words(record)).collect::<Vec<_>>()
    };
    let lost = unstored_if(false).await;
    assert_eq!(
        lost,
        [
            "tool_result",
            "Tool says \"\"",
            "iteration_finished",
            "iteration_started",
            "iteration_finished",
            "Failed"
        ]
    );
    // Events are stored with the end of the lease, and messages are not.
    assert_eq!(unstored_if(true).await, ["Tool says \"\""]);
}
