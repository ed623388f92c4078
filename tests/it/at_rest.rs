//! Turns at rest: what they keep, what they ask, and what a journal has of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::StreamExt;
use serde_json::Value;
use turnwright_control::Wakeup;
use turnwright_core::{
    ApprovalRequest, BoxFuture, CallId, Decision, Recovery, SessionId, StateKey, Timestamp, ToolCall,
    ToolDefinition, TurnContext, Verdict,
};
use turnwright_interceptor::Exit;
use turnwright_react_runtime::{
    Session, TurnEventKind,
    approval::Policies,
    gate::{AskFor, Gate, GateDecision},
    snapshot::TurnSnapshot,
    store::{
        Committed, Fence, JournalAppend, JournalRecord, MemoryStore, RecordedEvent, SessionCommit,
        SessionQuery, SessionStore, SessionSummary, StoreError, StoredEvent, StoredSession,
    },
    tool::{Tool, ToolContext, ToolError, ToolOutput, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read, rest_of_store};

const MS: Duration = Duration::from_millis(1);

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// A process: it goes away with its runtime.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn acts(name: &str, ran: &Arc<AtomicUsize>, hang: bool) -> impl Tool + use<> {
    let ran = ran.clone();
    tool(name, "", move |_: ToolContext, _: Value| {
        let ran = ran.clone();
        async move {
            ran.fetch_add(1, SeqCst);
            if hang {
                std::future::pending::<()>().await;
            }
            Ok::<_, ToolError>("")
        }
    })
}

/// Commits are slow.
struct Slow(MemoryStore, Duration);
impl SessionStore for Slow {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            tokio::time::sleep(self.1).await;
            self.0.commit(change).await
        })
    }
    rest_of_store!(self => self.0);
}

/// Asks, and looks at its session when it is told of an approval.
struct Granting(Arc<std::sync::OnceLock<Session>>, Arc<AtomicUsize>);
impl Gate for Granting {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        Ok(GateDecision::Ask { reason: "x".into(), expires_at: None })
    }
    fn granted(&self, _: &SessionId, _: &ApprovalRequest, _: &Decision) {
        self.1.fetch_add(self.0.get().map_or(0, |session| 1 + session.rules().len()), SeqCst);
        panic!("as gates may");
    }
}

/// The first appends fail at once.
struct Failing(MemoryStore, AtomicUsize);
impl SessionStore for Failing {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        self.0.commit(change)
    }
    fn append(&self, r: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        let fails = self.1.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok();
        if fails {
            return Box::pin(async { Err(StoreError::Backend("disk full".into())) });
        }
        self.0.append(r)
    }
    fn renew<'a>(&'a self, s: &'a SessionId, f: Fence, t: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.renew(s, f, t)
    }
    fn release<'a>(
        &'a self,
        s: &'a SessionId,
        f: Fence,
        e: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.release(s, f, e)
    }
    fn delete<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.delete(s)
    }
    fn list(&self, q: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.0.list(q)
    }
    fn events<'a>(
        &'a self,
        s: &'a SessionId,
        a: u64,
        l: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.0.events(s, a, l)
    }
    fn watch(&self, s: &SessionId) -> Wakeup {
        self.0.watch(s)
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_from_outside_does_not_expire_with_the_approval_of_its_call() {
    let store = Arc::new(MemoryStore::new());
    let order = tool("order", "", |_: ToolContext, _: Value| async {
        tokio::time::sleep(MS * 5_000).await;
        Err::<String, _>(ToolError::later())
    });
    let agent = agent([Reply::new().call("b", "order", "{}").finish(), Reply::new().text("ok").finish()])
        .tool(order)
        .gate(Policies::new().ask("order").expires_after(MS * 10_000))
        .store(store)
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    tokio::time::sleep(MS * 8_000).await;
    session.decide(&Decision::allow([CallId::from("b")], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let _ = read(&session, session.resume().unwrap()).await;
    let done = session.complete("b", Ok("shipped".into()), "shop").await;
    assert!(done.is_ok());
}

#[test]
fn what_is_history_is_not_noted_as_shown_once_more() {
    let store = Arc::new(Slow(MemoryStore::new(), MS * 20));
    let ran = Arc::new(AtomicUsize::new(0));
    let build = |replies: Vec<Reply>| {
        agent_of(&ScriptedModel::new(replies))
            .store(store.clone())
            .lease(MS)
            .tool(acts("hang", &ran, true))
            .build()
            .unwrap()
    };
    let dying = runtime();
    dying.block_on(async {
        let a =
            build(vec![Reply::new().text("Let me look. ").wait(MS * 90).call("h", "hang", "{}").finish()]);
        a.open_session(id()).await.unwrap().start("go").unwrap().detach();
        while ran.load(SeqCst) < 1 {
            tokio::time::sleep(MS).await;
        }
        tokio::time::sleep(MS * 500).await;
    });
    drop(dying);
    runtime().block_on(async {
        tokio::time::advance(MS * 60_000).await;
        let a = build(vec![Reply::new().text("done").finish()]);
        let session = a.open_session(id()).await.unwrap();
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!(last.messages.iter().filter(|m| m.text().contains("Let me look")).count(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn state_survives_the_written_form_byte_for_byte() {
    static KEY: StateKey<u128> = StateKey::new("t/big", 1);
    let big = u128::from(u64::MAX) + 7;
    let write = tool("write", "", move |ctx: ToolContext, _: Value| async move {
        ctx.turn().state().set(&KEY, big);
        Err::<String, _>(ToolError::later())
    });
    let a = agent([Reply::new().call("a", "write", "{}").finish()]).tool(write).build().unwrap();
    let session = a.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let snapshot = session.snapshot().unwrap();
    let data = snapshot.state["t/big"].data.get().to_owned();
    let back = TurnSnapshot::decode(&snapshot.encode().unwrap()).unwrap();
    assert_eq!(back.state["t/big"].data.get(), data);
}

/// The same tool, which is asked about when it is in doubt.
struct Asks<T>(T);

impl<T: Tool> Tool for Asks<T> {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition { recovery: Some(Recovery::Ask), ..self.0.definition() }
    }
    async fn call(&self, ctx: ToolContext, arguments: String) -> Result<ToolOutput, ToolError> {
        self.0.call(ctx, arguments).await
    }
}

#[test]
fn a_question_about_a_call_in_doubt_shows_what_it_ran_with() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    let build = |replies: Vec<Reply>| {
        agent_of(&ScriptedModel::new(replies))
            .store(store.clone())
            .lease(MS)
            .tool(Asks(acts("write", &ran, true)))
            .gate(AskFor::tools(["write"]))
            .build()
            .unwrap()
    };
    let dying = runtime();
    dying.block_on(async {
        let session = build(vec![Reply::new().call("w", "write", r#"{"path":"a.txt"}"#).finish()])
            .open_session(id())
            .await
            .unwrap();
        let _ = read(&session, session.start("go").unwrap()).await;
        let mut d = Decision::allow([CallId::from("w")], "ann", Timestamp::UNIX_EPOCH);
        d.verdict = Verdict::Allow { edit: Some(r#"{"path":"b.txt"}"#.into()) };
        session.decide(&d).await.unwrap();
        session.resume().unwrap().detach();
        while ran.load(SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
    });
    drop(dying);
    runtime().block_on(async {
        tokio::time::advance(MS * 60_000).await;
        let session = build(vec![]).open_session(id()).await.unwrap();
        let _ = read(&session, session.resume().unwrap()).await;
        assert!(session.pending()[0].call.arguments.contains("b.txt"));
        let d = Decision::allow([CallId::from("w")], "ann", Timestamp::UNIX_EPOCH);
        session.decide(&d).await.unwrap();
        session.resume().unwrap().detach();
        while ran.load(SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert!(session.pending().is_empty(), "it is not asked about once more");
    });
}

#[test]
fn a_gate_that_is_told_of_an_approval_may_look_at_the_session_and_may_panic() {
    // On a thread of its own: a lock that is held would never be free again.
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let (cell, told) = (Arc::new(std::sync::OnceLock::new()), Arc::new(AtomicUsize::new(0)));
            let replies = [Reply::new().call("b", "write", "{}").finish(), Reply::new().text("ok").finish()];
            let agent = agent(replies).tool(acts("write", &Arc::default(), false));
            let session = agent.gate(Granting(cell.clone(), told.clone())).build().unwrap().new_session();
            let _ = cell.set(session.clone());
            let _ = read(&session, session.start("hi").unwrap()).await;
            let allow = Decision::allow([CallId::from("b")], "ann", Timestamp::UNIX_EPOCH);
            session.decide(&allow).await.unwrap();
            let last = read(&session, session.resume().unwrap()).await;
            let _ = tx.send((last.result().content.clone(), told.load(SeqCst)));
        });
    });
    assert_eq!(rx.recv_timeout(MS * 20_000), Ok(("ok".into(), 1)));
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_is_noted_when_the_store_works_again() {
    let store = Arc::new(Failing(MemoryStore::new(), AtomicUsize::new(2)));
    let mut reply = Reply::new();
    for _ in 0..1000 {
        reply = reply.wait(MS * 20).text("x".repeat(20));
    }
    let a = agent([reply.finish()]).store(store.clone()).build().unwrap();
    let mut h = a.open_session(id()).await.unwrap().start("go").unwrap();
    let mut shown = 0;
    let reading = async {
        while let Some(e) = h.next().await {
            if let TurnEventKind::TextDelta { text } = e.kind {
                shown += text.len();
            }
        }
    };
    assert!(tokio::time::timeout(MS * 15_000, reading).await.is_err());
    let journal = store.0.load(&id()).await.unwrap().unwrap().journal;
    let noted: usize = journal
        .iter()
        .map(|r| match r {
            JournalRecord::Shown { text, .. } => text.len(),
            _ => 0,
        })
        .sum();
    assert!(noted > 0 && shown - noted <= 4096, "{noted} of {shown}");
}

#[tokio::test(start_paused = true)]
async fn a_drained_turn_has_no_question_that_was_settled() {
    let store = Arc::new(MemoryStore::new());
    let a = agent([
        Reply::new().call("b", "write", "{}").finish(),
        Reply::new().call("c", "look", "{}").finish(),
        Reply::new().text("ok").finish(),
    ])
    .tool(tool("write", "", async |_: ToolContext, _: Value| Ok::<_, ToolError>(String::new())))
    .tool(tool("look", "", async |_: ToolContext, _: Value| {
        tokio::time::sleep(MS * 1000).await;
        Ok::<_, ToolError>(String::new())
    }))
    .gate(Policies::new().ask("write").expires_after(MS * 1000))
    .store(store.clone())
    .build()
    .unwrap();
    let session = a.open_session(id()).await.unwrap();
    let _ = read(&session, session.start("hi").unwrap()).await;
    tokio::time::sleep(MS * 2_000).await;
    let h = session.resume().unwrap();
    tokio::time::sleep(MS * 500).await;
    h.drain();
    let _ = read(&session, h).await;
    assert!(session.pending().is_empty());
}
