//! Edges that reviews found: stores that fail or hang, spawners that refuse, layers that abandon, and what each leaves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::FutureExt;
use parking_lot::Mutex;
use turnwright_control::ControlError;
use turnwright_core::{
    AgentResult, BoxFuture, CallId, CancelCause, Decision, ErrorKind, LegOutcome, Message, Outcome, Part,
    SessionId, StopReason, Synthetic, Timestamp, ToolCall, ToolResult, TurnContext,
};
use turnwright_hook::{
    HookError, HookPoint, LegEnd, TurnAnswer, hook,
    point::{AfterTurn, FinalizeContent, FinallyGraph},
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    AgentBuilder, Session, Spawner, StartError, TurnEventKind,
    gate::AskFor,
    store::{Committed, MemoryStore, SessionCommit, SessionStore, StoreError, StoredSession},
    tool::{OrAbort, ToolError, tool},
};
use turnwright_testkit::{
    Reply, ScriptedModel,
    check::history,
    trace::{HookTrace, TraceHook},
};

use crate::support::{Ran, agent, agent_of, read, rest_of_store, run};

/// A store that misbehaves from its n-th commit on.
struct Bad {
    inner: MemoryStore,
    commits: AtomicUsize,
    from: usize,
    how: How,
}
#[derive(Clone, Copy, PartialEq)]
enum How {
    Fails,
    Hangs,
    Panics,
}
impl Bad {
    fn new(from: usize, how: How) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), commits: AtomicUsize::new(0), from, how })
    }
}
impl SessionStore for Bad {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.inner.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        if self.commits.fetch_add(1, SeqCst) < self.from {
            return self.inner.commit(change);
        }
        match self.how {
            How::Fails => Box::pin(async { Err(StoreError::Backend("disk full".into())) }),
            How::Hangs => Box::pin(std::future::pending()),
            How::Panics => panic!("tool"),
        }
    }
    rest_of_store!(self => self.inner);
}

fn writes(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    agent(replies)
        .tool(tool("write", "", async |_ctx, arguments: serde_json::Value| Ok(arguments.to_string())))
        .gate(AskFor::tools(["write"]))
}
fn asks() -> [Reply; 2] {
    [Reply::new().text("I ask ").call("a", "write", "{}").finish(), Reply::new().text("ok").finish()]
}
async fn allow_all(session: &Session) {
    let calls: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
    session.decide(&Decision::allow(calls, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fault_a10_r3_53_a_store_that_fails_hangs_or_panics_is_an_honest_end_in_bounded_time() {
    crate::sweep::quiet_panics();
    for how in [How::Fails, How::Hangs, How::Panics] {
        let trace = HookTrace::new();
        let agent = agent([Reply::new().text("ok").finish()])
            .store(Bad::new(1, how))
            .hook(hook!(TraceHook::new(0, &trace)))
            .build()
            .unwrap();
        let ran = run(&agent, "hi").await;
        let result = ran.result();
        assert_eq!((result.stop_reason, result.content.as_str()), (StopReason::Error, "ok"));
        assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::Store);
        assert_eq!(trace.points().last(), Some(&HookPoint::FinallyGraph));
    }
}

struct Says;
impl FinallyGraph for Says {
    async fn finally_graph(&self, ctx: &TurnContext, end: LegEnd<'_>) -> Result<(), HookError> {
        if end == LegEnd::Suspended {
            ctx.history().append(Message::user(ctx.sources().id(), "do not forget"))?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_turn_stays_parked_when_its_last_words_cannot_be_stored() {
    // The start, the batch and the parking are stored; what FINALLY_GRAPH adds is not.
    let agent = writes(asks()).store(Bad::new(3, How::Fails)).hook(hook!(Says)).build().unwrap();
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    assert!(first.result.is_none() && session.pending().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_last_hooks_of_a_parked_leg_say_is_stored_and_lands_after_the_batch() {
    let store = Arc::new(MemoryStore::new());
    let agent = writes(asks()).store(store.clone()).hook(hook!(Says)).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let stored = store.load(session.id()).await.unwrap().unwrap();
    assert_eq!(stored.snapshot.unwrap().deferred.len(), 1);
    allow_all(&session).await;
    let last = read(&session, session.resume().unwrap()).await;
    let texts: Vec<_> = last.messages.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["hi", "I ask ", "", "do not forget", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_spawner_that_refuses_changes_nothing() {
    let refuse = Arc::new(AtomicBool::new(true));
    let refuses = refuse.clone();
    let spawner = Spawner::new(move |leg| match refuses.load(SeqCst) {
        true => Err(StartError::Spawn("full".into())),
        false => {
            tokio::spawn(leg);
            Ok(())
        }
    });
    let agent = writes(asks()).spawner(spawner).build().unwrap();
    let session = agent.new_session();
    assert_eq!(session.start("hi").unwrap_err(), StartError::Spawn("full".into()));
    assert!(session.messages().is_empty() && !session.is_busy());
    refuse.store(false, SeqCst);
    let _ = read(&session, session.start("hi").unwrap()).await;
    allow_all(&session).await;
    refuse.store(true, SeqCst);
    assert!(session.resume().is_err() && session.is_parked(), "the turn waits as before");
    refuse.store(false, SeqCst);
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_spawner_that_panics_leaves_the_session_free() {
    let panics = Arc::new(AtomicBool::new(true));
    let flag = panics.clone();
    let spawner = Spawner::new(move |leg| {
        assert!(!flag.load(SeqCst), "tool");
        tokio::spawn(leg);
        Ok(())
    });
    let session = agent([Reply::new().text("ok").finish()]).spawner(spawner).build().unwrap().new_session();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| session.start("hi"))).is_err());
    assert!(session.messages().is_empty() && !session.is_busy());
    panics.store(false, SeqCst);
    assert_eq!(read(&session, session.start("hi").unwrap()).await.result().content, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_leg_whose_start_cannot_be_stored_leaves_the_turn_waiting() {
    let store = Bad::new(500, How::Fails);
    let session = writes(asks()).store(store.clone()).build().unwrap().new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    allow_all(&session).await;
    let healthy = store.commits.swap(1000, SeqCst);
    let failed = session.resume().unwrap().outcome().await.finished().unwrap();
    assert!(failed.error.unwrap().message.contains("disk full"));
    assert!(session.is_parked() && !session.is_busy(), "the turn and its decision are still there");
    store.commits.store(healthy, SeqCst);
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
}

/// Never returns from the end of a second leg.
struct Stays;
impl FinallyGraph for Stays {
    async fn finally_graph(&self, ctx: &TurnContext, _: LegEnd<'_>) -> Result<(), HookError> {
        match ctx.leg() {
            1 => Ok(()),
            _ => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leg_that_never_began_leaves_the_turn_waiting_when_the_runtime_goes_away() {
    let (store, task) = (Bad::new(500, How::Fails), Arc::new(Mutex::new(None)));
    let spawned = task.clone();
    let spawner = Spawner::new(move |leg| {
        *spawned.lock() = Some(tokio::spawn(leg));
        Ok(())
    });
    let agent = writes(asks()).store(store.clone()).spawner(spawner).hook(hook!(Stays)).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    allow_all(&session).await;
    store.commits.store(1000, SeqCst);
    let mut handle = session.resume().unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let task = task.lock().take().unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let failed = handle.outcome().now_or_never().unwrap().finished().unwrap();
    assert!(failed.error.unwrap().message.contains("disk full"));
    assert!(session.is_parked() && !session.is_busy());
}

#[tokio::test(start_paused = true)]
async fn a_spawner_that_accepts_and_drops_is_a_runtime_that_went_away() {
    let agent = agent([])
        .spawner(Spawner::new(|leg| {
            drop(leg);
            Ok(())
        }))
        .build()
        .unwrap();
    let session = agent.new_session();
    let mut handle = session.start("hi").unwrap();
    let result = handle.outcome().now_or_never().unwrap().finished().unwrap();
    assert!(result.error.unwrap().message.contains("shut down"));
    assert!(!session.is_busy());
}

#[test]
fn a_leg_that_dies_in_mid_run_is_found_interrupted_and_runs_nothing_twice() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    let build = |replies: Vec<Reply>| {
        let ran = ran.clone();
        let hangs = tool("write", "", move |_ctx, (): ()| {
            ran.fetch_add(1, SeqCst);
            std::future::pending::<Result<String, ToolError>>()
        });
        turnwright_react_runtime::Agent::builder("t", ScriptedModel::new(replies).handle())
            .tool(hangs)
            .gate(AskFor::tools(["write"]))
            .store(store.clone())
            .lease(Duration::from_millis(1))
            .build()
            .unwrap()
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let id = SessionId::new("s").unwrap();
    let first = runtime();
    first.block_on(async {
        let agent = build(asks().into());
        let session = agent.open_session(id.clone()).await.unwrap();
        let _ = read(&session, session.start("hi").unwrap()).await;
        allow_all(&session).await;
        session.resume().unwrap().detach();
        while ran.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(first);
    runtime().block_on(async {
        // Its lease ends.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let agent = build(vec![Reply::new().text("again").finish()]);
        let session = agent.open_session(id.clone()).await.unwrap();
        assert!(session.is_interrupted());
        let ended = read(&session, session.resume().unwrap()).await;
        assert_eq!((ended.result().content.as_str(), ran.load(SeqCst)), ("again", 1));
        let results: Vec<_> =
            session.messages().iter().flat_map(|m| m.tool_results().cloned().collect::<Vec<_>>()).collect();
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].synthetic, Some(Synthetic::InDoubt));
    });
}

#[tokio::test(start_paused = true)]
async fn fault_k3_two_processes_cannot_overwrite_each_other() {
    let store = Arc::new(MemoryStore::new());
    let mine = writes(asks()).store(store.clone()).build().unwrap();
    let session = mine.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let theirs = writes(asks()).store(store.clone()).build().unwrap();
    let same = theirs.open_session(session.id().clone()).await.unwrap();
    allow_all(&session).await;
    let deny = Decision::deny(["a".into()], "bob", Timestamp::UNIX_EPOCH, None);
    let e = same.decide(&deny).await.unwrap_err();
    assert_eq!(e.to_string(), "call a is decided already", "what was stored meanwhile counts");
}

/// Applies every change, and for the first ones never says so.
struct Mute(MemoryStore, AtomicUsize);
impl SessionStore for Mute {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let done = self.0.commit(change).now_or_never().unwrap();
        match done.is_ok() && self.1.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok() {
            true => Box::pin(std::future::pending()),
            false => Box::pin(async { done }),
        }
    }
    rest_of_store!(self => self.0);
}

#[tokio::test(start_paused = true)]
async fn changes_that_were_applied_in_silence_are_found_by_the_next_one() {
    let store = Arc::new(Mute(MemoryStore::new(), AtomicUsize::new(3)));
    let agent = agent([Reply::new().text("ok").finish()]).store(store.clone()).build().unwrap();
    let session = agent.new_session();
    // The mark is dropped by a cancel, the end of the turn by its time limit.
    let handle = session.start("one").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel(CancelCause::requested("user"));
    assert_eq!(read(&session, handle).await.result().error.as_ref().unwrap().kind, ErrorKind::Store);
    // And so is the mark of the next.
    let handle = session.start("two").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel(CancelCause::requested("user"));
    assert_eq!(read(&session, handle).await.result().outcome(), Outcome::Cancelled);
    let ran = read(&session, session.start("three").unwrap()).await;
    assert_eq!(ran.result().content, "ok");
    let stored = store.load(session.id()).await.unwrap().unwrap();
    let ids = |messages: &[Arc<Message>]| messages.iter().map(|m| m.id).collect::<Vec<_>>();
    assert_eq!(ids(&stored.messages), ids(&session.messages()));
}

struct Impatient;
impl Around<scope::LlmCall> for Impatient {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        match tokio::time::timeout(Duration::from_secs(1), next.run(request)).await {
            Ok(out) => out,
            Err(_) => Ok(LlmResponse::text_only("fallback")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn text_of_an_attempt_that_a_layer_abandoned_is_kept_and_its_usage_counts() {
    let replies = [Reply::new().text("Hel").usage(5, 5).silence()];
    let ran = run(&agent(replies).interceptor(interceptor!(Impatient)).build().unwrap(), "hi").await;
    let texts: Vec<_> = ran.messages.iter().map(|m| (m.text(), m.interrupted.is_some())).collect();
    assert_eq!(texts[1..], [("Hel".into(), true), ("fallback".into(), false)]);
    assert_eq!((ran.result().content.as_str(), ran.result().usage.input_tokens), ("fallback", Some(5)));
}

/// Answers whatever comes of the call.
struct Unmoved;
impl Around<scope::LlmCall> for Unmoved {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        Ok(next.run(request).await.unwrap_or_else(|_| LlmResponse::text_only("sorry")))
    }
}

#[tokio::test(start_paused = true)]
async fn reasoning_of_a_failed_attempt_is_kept_when_a_layer_answers_in_its_place() {
    let broken = turnwright_core::ErrorInfo::new(ErrorKind::Server, "500");
    let replies = [Reply::new().reasoning("hm").fail(broken)];
    let ran = run(&agent(replies).interceptor(interceptor!(Unmoved)).build().unwrap(), "hi").await;
    assert_eq!(ran.result().content, "sorry");
    assert!(matches!(&ran.messages[1].parts[0], Part::Reasoning(r) if r.text == "hm"));
}

/// Layers that answer or change the input with what nobody can say.
struct Nonsense(&'static str);
impl Around<scope::AgentRun> for Nonsense {
    async fn around(
        &self,
        _: &TurnContext,
        input: Vec<Part>,
        next: Next<'_, scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        next.run(if self.0 == "input" { vec![] } else { input }).await
    }
}
impl Around<scope::LlmCall> for Nonsense {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let mut response = next.run(request).await?;
        if self.0 == "answer" {
            response.parts.push(Part::Image(turnwright_core::ImageRef { uri: "x".into(), media_type: None }));
        }
        Ok(response)
    }
}

#[tokio::test(start_paused = true)]
async fn fault_b1_no_layer_can_make_a_session_unusable() {
    for what in ["input", "answer"] {
        let agent = agent([Reply::new().text("ok").finish(), Reply::new().text("ok").finish()])
            .interceptor(interceptor!(Nonsense(what)))
            .build()
            .unwrap();
        let session = agent.new_session();
        let ran = read(&session, session.start("hi").unwrap()).await;
        assert_eq!(ran.result().error.as_ref().unwrap().kind, ErrorKind::Interceptor, "{what}");
        history(&session.messages()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h18_no_tool_starts_after_one_aborted_the_turn() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = ran.clone();
    let other = tool("other", "", move |_ctx, (): ()| {
        log.lock().push("other");
        async { Ok("ran") }
    });
    let aborts =
        tool("aborts", "", async |_ctx, (): ()| Err::<String, _>(std::io::Error::other("gone")).or_abort());
    let batch = Reply::new().call("1", "aborts", "{}").call("2", "other", "{}").finish();
    let turn = run(&agent([batch]).tool(other).tool(aborts).build().unwrap(), "hi").await;
    assert_eq!((turn.result().stop_reason, ran.lock().len()), (StopReason::Error, 0));
}

/// Stamps each call: never twice the same.
struct Stamp(AtomicUsize);
impl Around<scope::ToolCall> for Stamp {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        call.arguments = format!(r#"{{"stamp":{}}}"#, self.0.fetch_add(1, SeqCst));
        next.run(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_approved_rewrite_runs_as_approved_whatever_the_layers_make_of_the_call_now() {
    let agent = writes(asks()).interceptor(interceptor!(Stamp(AtomicUsize::new(0)))).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let asked = session.pending()[0].call.arguments.clone();
    allow_all(&session).await;
    let mut last = read(&session, session.resume().unwrap()).await;
    // The gate asked about the call itself first; its approval does not cover the rewrite.
    if last.result.is_none() {
        let rewritten = session.pending()[0].call.arguments.clone();
        assert_ne!(rewritten, asked);
        allow_all(&session).await;
        last = read(&session, session.resume().unwrap()).await;
        let result = last.messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
        assert_eq!(result.content, rewritten);
    }
    assert_eq!(last.result().content, "ok", "and it is not asked about for ever");
}

#[tokio::test(start_paused = true)]
async fn a_drained_turn_with_some_decisions_goes_on() {
    let batch = Reply::new().call("a", "write", "{}").call("b", "write", "{}").finish();
    let agent = writes([batch, Reply::new().text("ok").finish()]).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&Decision::allow(["a".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let handle = session.resume().unwrap();
    handle.drain();
    let drained = read(&session, handle).await;
    assert!(drained.result.is_none() && session.is_parked());
    let again = read(&session, session.resume().unwrap()).await;
    assert!(again.result.is_none());
    assert_eq!(session.pending().len(), 1, "a ran, b still waits");
    allow_all(&session).await;
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
}

struct Late;
impl Around<scope::Turn> for Late {
    async fn around(&self, _: &TurnContext, (): (), next: Next<'_, scope::Turn>) -> Result<LegOutcome, Exit> {
        next.run(()).await?;
        Err(ControlError::timeout("the layer's own budget").into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_layers_own_control_error_counts_also_after_the_answer() {
    let agent = agent([Reply::new().text("ok").finish()]).interceptor(interceptor!(Late)).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().outcome(), ran.result().content.as_str()), (Outcome::TimedOut, "ok"));
}

#[tokio::test(start_paused = true)]
async fn fault_r4_63_progress_call_and_result_carry_one_id() {
    let call = || Reply::new().call("call_0", "write", r#"{"n":1}"#).finish();
    let agent = agent([call(), call(), Reply::new().text("ok").finish()])
        .tool(tool("write", "", async |_ctx, _: serde_json::Value| Ok("w")))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    let ids = |of: fn(&TurnEventKind) -> Option<&CallId>| -> Vec<String> {
        ran.kinds().filter_map(of).map(ToString::to_string).collect()
    };
    let started = ids(|k| match k {
        TurnEventKind::ToolArgsDelta { id, name: Some(_), .. } => Some(id),
        _ => None,
    });
    let called = ids(|k| match k {
        TurnEventKind::ToolCall(call) => Some(&call.id),
        _ => None,
    });
    assert_eq!(started, ["call_0", "call_0~2"]);
    assert_eq!(called, started);
}

struct Words;
impl AfterTurn for Words {
    async fn after_turn(&self, _: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        result.content = "edited".into();
        Ok(TurnAnswer::Done)
    }
}
struct Refuses;
impl FinalizeContent for Refuses {
    fn finalize_content(&self, _: &TurnContext, _: String) -> Result<String, HookError> {
        Err(ControlError::policy_violation("no").user_content("I may not say that.").into())
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_user_is_told_and_what_was_streamed_are_both_in_the_result() {
    let answer = || [Reply::new().text("ok").finish()];
    let ran = run(&agent(answer()).hook(hook!(Words)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), ran.result().streamed.as_deref()), ("edited", Some("ok")));
    let ran = run(&agent(answer()).hook(hook!(Refuses)).build().unwrap(), "hi").await;
    let result = ran.result();
    assert_eq!(
        (result.stop_reason, result.content.as_str()),
        (StopReason::PolicyViolation, "I may not say that.")
    );
    assert_eq!(result.streamed.as_deref(), Some("ok"));
    assert_eq!(ran.messages.last().unwrap().text(), "I may not say that.", "told, so it is history");
}

#[tokio::test(start_paused = true)]
async fn tool_errors_keep_their_kind_for_layers_to_decide_on() {
    let kind = |ran: &Ran| {
        ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap().error.clone().unwrap().kind
    };
    let typed =
        || tool("t", "", async |_ctx, n: std::collections::BTreeMap<String, u8>| Ok(format!("{n:?}")));
    let call =
        |arguments| [Reply::new().call("c", "t", arguments).finish(), Reply::new().text("ok").finish()];
    let ran = run(&agent(call(r#"{"a":"x"}"#)).tool(typed()).build().unwrap(), "hi").await;
    assert_eq!(kind(&ran), ErrorKind::InvalidArguments);
    let limited = tool("t", "", async |_ctx, (): ()| {
        let e = turnwright_core::ErrorInfo::new(ErrorKind::RateLimited, "slow down");
        Err::<String, ToolError>(e.into())
    });
    let ran = run(&agent(call("{}")).tool(limited).build().unwrap(), "hi").await;
    assert_eq!(kind(&ran), ErrorKind::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn a_destructor_that_panics_does_not_change_how_a_turn_ends() {
    crate::sweep::quiet_panics();
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("tool");
            }
        }
    }
    let trace = HookTrace::new();
    let bomb = tool("t", "", async |_ctx, (): ()| {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
        Ok("never")
    });
    let model = ScriptedModel::new([Reply::new().call("c", "t", "{}").finish()]);
    let agent = agent_of(&model).tool(bomb).hook(hook!(TraceHook::new(0, &trace))).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt(CancelCause::requested("user"));
    let ran = read(&session, handle).await;
    assert_eq!(ran.result().outcome(), Outcome::Cancelled);
    assert_eq!(trace.points().last(), Some(&HookPoint::FinallyGraph));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_start_cannot_be_stored_asks_no_model() {
    let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
    let agent = agent_of(&model).store(Bad::new(0, How::Fails)).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!(ran.result().error.as_ref().unwrap().kind, ErrorKind::Store);
    assert_eq!((model.calls(), ran.messages[0].text().as_str()), (0, "hi"));
}

#[test]
fn fault_r3_39_the_prompt_is_durable_before_the_first_model_byte() {
    let store = Arc::new(MemoryStore::new());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let id = SessionId::new("s").unwrap();
    let build = |reply: Reply| {
        let model = ScriptedModel::new([reply]);
        let agent = turnwright_react_runtime::Agent::builder("t", model.handle())
            .store(store.clone())
            .lease(Duration::from_millis(1))
            .build();
        (model, agent.unwrap())
    };
    let first = runtime();
    first.block_on(async {
        let (model, agent) = build(Reply::new().silence());
        let session = agent.open_session(id.clone()).await.unwrap();
        session.start("do not lose me").unwrap().detach();
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let stored = store.load(&id).await.unwrap().unwrap();
        assert_eq!(stored.messages[0].text(), "do not lose me");
    });
    drop(first);
    runtime().block_on(async {
        // Its lease ends.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (_, agent) = build(Reply::new().text("ok").finish());
        let session = agent.open_session(id.clone()).await.unwrap();
        assert!(session.is_interrupted());
        assert_eq!(session.start("more").unwrap_err(), StartError::Parked);
        let handle = session.cancel_parked(CancelCause::requested("operator")).unwrap();
        assert_eq!(read(&session, handle).await.result().outcome(), Outcome::Cancelled);
        let next = read(&session, session.start("more").unwrap()).await;
        assert_eq!((next.result().content.as_str(), next.messages.len()), ("ok", 3));
    });
}
