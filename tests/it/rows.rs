//! Rows of the fault list that no larger test carries: endings that look alike, children, keys, steps that hang.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use turnwright_core::{
    BoxFuture, CallId, CancelCause, CancelToken, Decision, ErrorInfo, ErrorKind, Outcome, SessionId,
    Timestamp,
};
use turnwright_react_runtime::{
    gate::AskFor,
    store::{
        Committed, Fence, JournalAppend, MemoryStore, RecordedEvent, SessionCommit, SessionQuery,
        SessionStore, SessionSummary, StoreError, StoredEvent, StoredSession,
    },
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read, run};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn fault_a5_every_way_of_ending_leaves_the_same_history() {
    let slow = || Reply::new().text("partial").silence();
    let mut all = Vec::new();
    for how in 0..5 {
        let reply = match how {
            3 => Reply::new().text("partial").fail(ErrorInfo::new(ErrorKind::Server, "500")),
            _ => slow(),
        };
        let builder = agent([reply]);
        let agent = if how == 2 { builder.deadline(MS * 50) } else { builder }.build().unwrap();
        let session = agent.new_session();
        let callers = CancelToken::new();
        let handle = session.start_under(&callers, "hi").unwrap();
        tokio::time::sleep(MS * 10).await;
        match how {
            0 => drop(handle.cancel(CancelCause::requested("ann"))),
            1 => drop(callers.cancel(CancelCause::requested("ann"))),
            4 => {
                drop(handle);
                tokio::time::sleep(MS * 100).await;
                all.push(
                    session
                        .messages()
                        .iter()
                        .map(|m| (m.text(), m.interrupted.is_some()))
                        .collect::<Vec<_>>(),
                );
                continue;
            }
            _ => {}
        }
        let ran = read(&session, handle).await;
        all.push(ran.messages.iter().map(|m| (m.text(), m.interrupted.is_some())).collect());
    }
    for history in &all {
        assert_eq!(*history, [("hi".to_owned(), false), ("partial".to_owned(), true)]);
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a6_a16_a_child_that_is_cancelled_is_a_result_and_a_cancelled_parent_leaves_nothing_running() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let tick = tool("tick", "", move |_: ToolContext, _: Value| {
        count.fetch_add(1, SeqCst);
        async {
            tokio::time::sleep(MS * 20).await;
            Ok::<_, ToolError>("tick".to_owned())
        }
    });
    let child = agent(
        (0..100)
            .map(|n| Reply::new().call(format!("t{n}").as_str(), "tick", "{}").finish())
            .collect::<Vec<_>>(),
    )
    .tool(tick)
    .limits(turnwright_react_runtime::machine::Limits { iterations: 100, ..Default::default() })
    .build()
    .unwrap();
    let ends_itself = Arc::new(Mutex::new(true));
    let first = ends_itself.clone();
    let delegate = tool("delegate", "", move |ctx: ToolContext, _: Value| {
        let (child, alone) = (child.clone(), std::mem::replace(&mut *first.lock(), false));
        async move {
            let mut handle = child.run_under(ctx.as_parent(), "go")?;
            if alone {
                tokio::time::sleep(MS * 30).await;
                handle.cancel(CancelCause::requested("child's own"));
            }
            let result = handle.result().await.unwrap();
            Ok::<_, ToolError>(format!("{:?}", result.outcome()))
        }
    });
    let call = |id: &str| Reply::new().call(id, "delegate", "{}").finish();
    let parent = agent([call("a"), call("b")]).tool(delegate).build().unwrap();
    let session = parent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(MS * 500).await;
    handle.cancel(CancelCause::requested("ann"));
    let ran = read(&session, handle).await;
    assert_eq!(ran.result().cancelled_by.as_ref().unwrap().actor, "ann");
    let results: Vec<_> =
        ran.messages.iter().flat_map(|m| m.tool_results().map(|r| r.content.clone())).collect();
    assert_eq!(results[0], "Cancelled", "the first child ended alone, and its parent went on");
    assert_eq!(
        ran.messages.iter().filter(|m| m.text() == "go").count(),
        0,
        "the history is the parent's own"
    );
    tokio::time::sleep(MS * 200).await;
    let then = asked.load(SeqCst);
    tokio::time::sleep(MS * 2_000).await;
    assert_eq!(asked.load(SeqCst), then, "nothing makes progress any more");
}

#[tokio::test(start_paused = true)]
async fn fault_c4_c11_what_was_answered_runs_once_and_what_was_not_waits() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = ran.clone();
    let write = tool("write", "", move |ctx: ToolContext, _: Value| {
        log.lock().push(ctx.call_id().to_string());
        async { Ok::<_, ToolError>("done".to_owned()) }
    });
    let calls =
        Reply::new().call("a", "write", "{}").call("b", "write", "{}").call("c", "write", "{}").finish();
    let agent = agent([calls, Reply::new().text("ok").finish()])
        .tool(write)
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    for (answered, wanted) in [("b", vec!["b"]), ("a", vec!["b", "a"]), ("c", vec!["b", "a", "c"])] {
        let decision = Decision::allow([CallId::from(answered)], "ann", Timestamp::UNIX_EPOCH);
        session.decide(&decision).await.unwrap();
        let _ = read(&session, session.resume().unwrap()).await;
        assert_eq!(*ran.lock(), wanted);
    }
    let calls = session.messages().iter().map(|m| m.tool_calls().count()).sum::<usize>();
    assert_eq!((calls, session.is_parked()), (3, false), "each call is in the history once");
}

#[tokio::test(start_paused = true)]
async fn fault_l10_a_turn_is_known_and_can_be_cancelled_before_anything_ran() {
    let model = ScriptedModel::new([Reply::new().text("never").finish()]);
    let agent = agent_of(&model).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("do not lose me").unwrap();
    let turn = handle.turn();
    handle.cancel(CancelCause::requested("ann"));
    let ran = read(&session, handle).await;
    assert_eq!((ran.result().outcome(), model.calls()), (Outcome::Cancelled, 0));
    assert!(ran.events.iter().all(|e| e.turn == turn));
    assert_eq!(ran.messages[0].text(), "do not lose me");
}

/// Never answers when a leg notes something.
struct Silent(MemoryStore);

impl SessionStore for Silent {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        self.0.commit(change)
    }
    fn append(&self, _: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::pending())
    }
    fn renew<'a>(
        &'a self,
        s: &'a SessionId,
        f: Fence,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.renew(s, f, ttl)
    }
    fn release<'a>(
        &'a self,
        s: &'a SessionId,
        f: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.release(s, f, events)
    }
    fn delete<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.delete(s)
    }
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.0.list(query)
    }
    fn events<'a>(
        &'a self,
        s: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.0.events(s, after, limit)
    }
    fn watch(&self, s: &SessionId) -> turnwright_control::Wakeup {
        self.0.watch(s)
    }
}

#[tokio::test(start_paused = true)]
async fn fault_n5_a_cancel_inside_a_step_that_hangs_ends_the_turn_and_the_tool_was_not_entered() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let act = tool("act", "", move |_: ToolContext, _: Value| {
        count.fetch_add(1, SeqCst);
        async { Ok::<_, ToolError>("done".to_owned()) }
    });
    let agent = agent([Reply::new().call("a", "act", "{}").finish()])
        .tool(act)
        .store(Arc::new(Silent(MemoryStore::new())))
        .build()
        .unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(MS * 100).await;
    handle.cancel(CancelCause::requested("ann"));
    let ran_leg = tokio::time::timeout(Duration::from_secs(2), read(&session, handle)).await.unwrap();
    assert_eq!((ran_leg.result().outcome(), ran.load(SeqCst)), (Outcome::Cancelled, 0));
}

#[tokio::test(start_paused = true)]
async fn fault_n6_the_same_call_id_of_two_turns_has_two_keys() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let log = keys.clone();
    let look = tool("look", "", move |ctx: ToolContext, _: Value| {
        log.lock().push(ctx.idempotency_key());
        async { Ok::<_, ToolError>("seen".to_owned()) }
    });
    let turn = || [Reply::new().call("a", "look", "{}").finish(), Reply::new().text("ok").finish()];
    let agent = agent(turn()).tool(look).build().unwrap();
    let _ = run(&agent, "one").await;
    let _ = run(&agent, "two").await;
    let keys = keys.lock();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}
