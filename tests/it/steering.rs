//! Rows of the fault list about cancelling and steering: tokens, races, bursts, and what is found again afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;
use turnwright_control::{
    CommandBody, ControlChannel, ControlCommand, ControlScope, Fate, InMemoryControlChannel,
};
use turnwright_core::{
    BoxFuture, CallId, CancelCause, CancelKind, CancelToken, Clock, Decision, ErrorKind, LegOutcome, Message,
    Origin, Outcome, Part, Role, SessionId, StopReason, Timestamp, ToolCall, ToolDefinition, ToolResult,
    TurnContext, clock::SystemClock,
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_llm_stream::wire::chat::chat_body;
use turnwright_react_runtime::{
    Agent, AgentBuilder, GRACE, Session, TurnEventKind,
    gate::{AskFor, Gate, GateDecision},
    store::{Committed, MemoryStore, SessionCommit, SessionStore, StoreError, StoredSession},
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use crate::support::{Ran, agent, agent_of, read, rest_of_store};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn fault_r3_49_a_token_of_the_caller_cancels_the_turn_and_is_not_cancelled_by_it() {
    let callers = CancellationToken::new();
    let token = CancelToken::from(&callers);
    let model = ScriptedModel::new([Reply::new().text("Hel").silence()]);
    let agent = agent_of(&model).build().unwrap();
    let (one, two) = (agent.new_session(), agent.new_session());
    let first = one.start_under(&token, "hi").unwrap();
    let second = two.start_under(&token, "hi").unwrap();
    tokio::time::sleep(MS).await;
    first.cancel(CancelCause::requested("ann"));
    let ran = read(&one, first).await;
    assert_eq!(ran.result().cancelled_by, Some(CancelCause::requested("ann")));
    assert!(!callers.is_cancelled() && two.is_busy(), "one turn's end is not the others'");
    callers.cancel();
    let ran = read(&two, second).await;
    assert_eq!((ran.result().outcome(), ran.result().content.as_str()), (Outcome::Cancelled, "Hel"));
    assert_eq!(ran.result().cancelled_by, Some(CancelCause::requested("caller")));
    // Cancelled already: no model is asked, and the message is kept.
    let asked = model.calls();
    let three = agent.new_session();
    let ran = read(&three, three.start_under(&token, "do not lose me").unwrap()).await;
    assert_eq!((ran.result().outcome(), model.calls()), (Outcome::Cancelled, asked));
    assert_eq!(ran.messages[0].text(), "do not lose me");
}

#[tokio::test(start_paused = true)]
async fn fault_r3_49_a_resumed_leg_hangs_under_the_callers_token_too() {
    let agent = agent([Reply::new().call("c", "wait", "{}").finish()])
        .tool(tool("wait", "", async |_ctx, (): ()| {
            std::future::pending::<()>().await;
            Ok("never")
        }))
        .gate(AskFor::tools(["wait"]))
        .build()
        .unwrap();
    let session = agent.new_session();
    let token = CancelToken::new();
    let _ = read(&session, session.start_under(&token, "hi").unwrap()).await;
    session.decide(&Decision::allow(["c".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let handle = session.resume_under(&token).unwrap();
    tokio::time::sleep(MS).await;
    token.cancel(CancelCause::runtime(CancelKind::Shutdown, "the service stops"));
    let ran = read(&session, handle).await;
    assert_eq!(ran.result().cancelled_by.as_ref().unwrap().kind, CancelKind::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn fault_r3_54_a_childs_cancel_is_the_parents_and_no_failure() {
    let child = agent([Reply::new().text("half").silence()]).build().unwrap();
    let ends: Arc<Mutex<Vec<Session>>> = Arc::default();
    let keep = ends.clone();
    let delegate = tool("delegate", "", move |ctx: ToolContext, (): ()| {
        let session = child.new_session();
        keep.lock().push(session.clone());
        async move {
            let mut handle = session.start_under(ctx.cancel(), "go")?;
            Ok(handle.result().await.map(|r| r.content).unwrap_or_default())
        }
    });
    let parent = agent([Reply::new().call("c", "delegate", "{}").finish()]).tool(delegate).build().unwrap();
    for how in 0..3 {
        let session = parent.new_session();
        let handle = session.start("hi").unwrap();
        tokio::time::sleep(MS).await;
        match how {
            0 => drop(handle.cancel(CancelCause::requested("ann"))),
            1 => drop(handle.interrupt(CancelCause::requested("ann"))),
            _ => {
                let kind = CancelKind::Deadline;
                handle.cancel(CancelCause::runtime(kind, "the turn's deadline passed"));
            }
        }
        let ran = read(&session, handle).await;
        let child = ends.lock().pop().unwrap();
        while child.is_busy() {
            tokio::task::yield_now().await;
        }
        let expected = if how == 2 { Outcome::TimedOut } else { Outcome::Cancelled };
        assert_eq!(ran.result().outcome(), expected);
        let last = child.messages().last().unwrap().clone();
        let reason = last.interrupted.as_ref().unwrap().reason.clone();
        // An interrupt drops the work and with it the child's handle; a cancel reaches the child as what it is.
        let expected = ["user_stop", "cancelled", "timeout"][how];
        assert_eq!((last.text().as_str(), reason.as_str()), ("half", expected), "{how}");
        assert!(
            ran.messages
                .iter()
                .flat_map(|m| m.tool_results())
                .all(|r| { r.error.as_ref().is_some_and(|e| e.kind == ErrorKind::NotRun) })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r3_54_a_handle_that_is_dropped_because_of_a_cancel_tells_of_the_cancel() {
    let agent = agent([Reply::new().text("half").silence()]).build().unwrap();
    for cancelled in [false, true] {
        let (session, token) = (agent.new_session(), CancelToken::new());
        let handle = session.start_under(&token, "hi").unwrap();
        tokio::time::sleep(MS).await;
        if cancelled {
            token.cancel(CancelCause::requested("ann"));
        }
        drop(handle);
        while session.is_busy() {
            tokio::task::yield_now().await;
        }
        let reason = session.messages().last().unwrap().interrupted.clone().unwrap().reason;
        assert_eq!(reason, if cancelled { "user_stop" } else { "cancelled" });
    }
}

/// An agent whose turn takes about 50 ms, with a channel.
struct Desk {
    channel: Arc<InMemoryControlChannel>,
    sources: turnwright_core::Sources,
    agent: Agent,
}

impl Desk {
    fn new(build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        let sources = virtual_sources(1);
        let channel = Arc::new(InMemoryControlChannel::new(&sources));
        let call =
            |n: usize| Reply::new().text("a").wait(5 * MS).call(&format!("c{n}"), "wait", "{}").finish();
        let replies = (0..4).map(call).chain((0..30).map(|_| Reply::new().text("done").finish()));
        let builder = agent(replies).sources(sources.clone()).channel(channel.clone()).tool(tool(
            "wait",
            "",
            async |_ctx, (): ()| {
                tokio::time::sleep(5 * MS).await;
                Ok("waited")
            },
        ));
        Self { channel, sources, agent: build(builder).build().unwrap() }
    }
    fn send(&self, session: &Session, body: CommandBody) -> turnwright_control::Receipt {
        let scope = ControlScope::session(session.id().clone());
        let command = ControlCommand::new(&self.sources, scope, "ann", body);
        self.channel.send(command).now_or_never().unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r3_42_r3_43_r3_44_of_a_burst_each_message_is_applied_once_in_order_or_returned() {
    let (mut applied, mut returned) = (0, 0);
    for stop_at in (0..60).step_by(4) {
        let desk = Desk::new(|b| b);
        let session = desk.agent.new_session();
        let handle = session.start("go").unwrap();
        let reader = tokio::spawn({
            let session = session.clone();
            async move { read(&session, handle).await }
        });
        let mut receipts = Vec::new();
        for ms in 0..60 {
            if ms == stop_at {
                desk.send(&session, CommandBody::CancelTurn { reason: None });
            }
            if session.is_busy() {
                for n in 0..3 {
                    let text = format!("steer {ms}.{n}");
                    let body = CommandBody::InjectSteer { parts: vec![Part::text(text.clone())] };
                    receipts.push((text, desk.send(&session, body)));
                }
            }
            tokio::time::sleep(MS).await;
        }
        let ran = reader.await.unwrap();
        let landed: Vec<_> =
            ran.messages.iter().filter(|m| m.origin == Origin::Steer).map(|m| m.text()).collect();
        let mut expected = Vec::new();
        for (text, receipt) in receipts {
            match receipt.fate().await {
                Fate::Applied => expected.push(text),
                Fate::Returned { .. } => returned += 1,
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(
            landed, expected,
            "stopped after {stop_at} ms: applied says that it is in history, in order"
        );
        applied += landed.len();
    }
    assert!(applied > 100 && returned > 10, "{applied} {returned}: both were tried");
}

#[tokio::test]
async fn fault_r3_45_a_cancel_does_not_wait_for_a_tool_that_ignores_it() {
    // Real time: a thread that blocks does not follow the paused clock.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let entered = Arc::new(AtomicUsize::new(0));
    let inside = entered.clone();
    let stubborn = tool("wait", "", move |ctx: ToolContext, (): ()| {
        let (blocked, inside) = (blocked.clone(), inside.clone());
        async move {
            ctx.blocking(move |_| {
                inside.fetch_add(1, SeqCst);
                let _ = blocked.lock().recv();
                Ok::<_, ToolError>("at last")
            })
            .await
        }
    });
    let agent = agent([Reply::new().call("c", "wait", "{}").finish()]).tool(stubborn).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    while entered.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let start = SystemClock.instant();
    handle.cancel(CancelCause::requested("ann"));
    let ran = read(&session, handle).await;
    // The body has not returned: only this sends what it waits for.
    assert!(SystemClock.instant() - start < GRACE + Duration::from_secs(5), "a generous outer limit");
    assert_eq!(ran.result().outcome(), Outcome::Cancelled);
    let result = ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
    assert!(result.content.contains("may have had effects"), "{}", result.content);
    release.send(()).unwrap();
    while agent.late_results() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r3_38_r3_46_after_a_cut_the_next_request_is_legal_and_the_model_is_told() {
    let model = ScriptedModel::new([
        Reply::new().text("I look").call("c", "wait", "{}").finish(),
        Reply::new().text("Hel<lo").silence(),
        Reply::new().text("done").finish(),
    ]);
    let wait = tool("wait", "", async |_ctx, (): ()| {
        tokio::time::sleep(Duration::from_secs(9)).await;
        Ok("waited")
    });
    let session = agent_of(&model).tool(wait).build().unwrap().new_session();
    // One turn is cut while a tool runs, the next one in the middle of an answer.
    for _ in 0..2 {
        let handle = session.start("go").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.cancel(CancelCause::requested("ann"));
        let _ = read(&session, handle).await;
    }
    let ran = read(&session, session.start("and now?").unwrap()).await;
    assert_eq!(ran.result().content, "done");
    let requests = model.requests();
    let body = String::from_utf8(chat_body(requests.last().unwrap()).unwrap()).unwrap();
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant", "user"]);
    let (tool, cut) = (&body["messages"][2]["content"], &body["messages"][4]["content"]);
    assert!(tool.as_str().unwrap().contains("the turn was interrupted"), "{tool}");
    assert_eq!(
        cut,
        "<interrupted_response reason=\"user_stop\"><content>Hel&lt;lo</content></interrupted_response>"
    );
}

#[tokio::test(start_paused = true)]
async fn fault_r3_38_an_illegal_history_is_found_before_a_request_goes_out() {
    let (store, id) = (Arc::new(MemoryStore::new()), SessionId::new("s").unwrap());
    let sources = virtual_sources(1);
    // Another program left a call without its result.
    let call = Part::ToolCall(ToolCall::new("c", "t", "{}"));
    let messages = vec![
        Arc::new(Message::user(sources.id(), "hi")),
        Arc::new(Message::new(sources.id(), Role::Assistant, vec![call])),
    ];
    let change = SessionCommit { messages, ..SessionCommit::new(id.clone(), sources.id(), 0) };
    store.commit(change).await.unwrap();
    let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
    let agent = agent_of(&model).store(store).build().unwrap();
    let session = agent.open_session(id).await.unwrap();
    let mut handle = session.start("go on").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::InvalidHistory);
    assert_eq!((result.stop_reason, model.calls()), (StopReason::Error, 0));
}

/// Keeps nothing but what a file would hold: everything goes through its text.
#[derive(Default)]
struct Disk(MemoryStore);

fn written<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

impl SessionStore for Disk {
    fn load<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(id)
    }
    fn commit(&self, mut change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            // Not at once: whoever tells the end before the save is over is found out.
            tokio::time::sleep(MS).await;
            change.messages = written(&change.messages);
            change.snapshot = written(&change.snapshot);
            self.0.commit(change).await
        })
    }
    rest_of_store!(self => self.0);
}

/// What of a session is the same in every process.
fn state_of(session: &Session) -> (Vec<String>, Option<String>) {
    let messages = session.messages().iter().map(|m| serde_json::to_string(m).unwrap()).collect();
    (messages, session.snapshot().map(|s| serde_json::to_string(&s).unwrap()))
}

fn said(messages: &[Arc<Message>]) -> Vec<(Role, String)> {
    let words = |m: &Message| {
        let results: String = m.tool_results().map(|r| r.content.clone()).collect();
        m.text() + &results
    };
    messages.iter().map(|m| (m.role, words(m))).collect()
}

/// A script of three tool batches, one of which is asked about, on this disk: a new process each time.
fn process(model: &ScriptedModel, disk: &Arc<Disk>) -> Agent {
    let echo = |name: &str| tool(name, "", async |_ctx, args: serde_json::Value| Ok(args.to_string()));
    agent_of(model)
        .store(disk.clone())
        .lease(MS)
        .tool(echo("look").parallel())
        .tool(echo("write"))
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap()
}

fn script() -> ScriptedModel {
    ScriptedModel::new([
        Reply::new().text("one ").call("a", "look", r#"{"n":1}"#).call("b", "look", r#"{"n":2}"#).finish(),
        Reply::new()
            .reasoning("hm")
            .text("two ")
            .call("c", "write", r#"{"n":3}"#)
            .call("d", "look", "")
            .finish(),
        Reply::new().text("three ").call("e", "look", r#"{"n":4}"#).finish(),
        Reply::new().text("done").finish(),
    ])
}

/// Runs a turn to its end, drained after so many events of each leg and taken up by another process after each leg.
/// Returns what was said, and how many legs it took.
async fn in_pieces(drain_after: usize) -> (Vec<(Role, String)>, usize) {
    let (model, disk, id) = (script(), Arc::new(Disk::default()), SessionId::new("s").unwrap());
    let mut legs = 0;
    loop {
        let agent = process(&model, &disk);
        let session = agent.open_session(id.clone()).await.unwrap();
        let pending: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
        if !pending.is_empty() {
            session.decide(&Decision::allow(pending, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
        }
        let mut handle = if legs == 0 { session.start("go") } else { session.resume() }.unwrap();
        legs += 1;
        let mut seen = 0;
        while handle.next().await.is_some() {
            seen += 1;
            // A leg that is always drained at once gets nowhere: the last ones may run.
            if seen == drain_after && legs < 12 {
                handle.drain();
            }
        }
        let outcome = handle.outcome().await;
        let left = state_of(&session);
        drop((handle, session, agent));
        let found = process(&model, &disk).open_session(id.clone()).await.unwrap();
        assert_eq!(state_of(&found), left, "drained after {drain_after} events, leg {legs}");
        if matches!(outcome, LegOutcome::Finished(_)) {
            return (said(&found.messages()), legs);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r3_47_what_another_process_finds_is_what_was_left_and_it_ends_as_if_nothing_had_been() {
    let (whole, legs) = in_pieces(usize::MAX).await;
    assert_eq!((legs, whole.last().unwrap().1.as_str()), (2, "done"), "the approval alone parts it");
    let mut most = 0;
    for drain_after in 1..40 {
        let (said, legs) = in_pieces(drain_after).await;
        assert_eq!(said, whole, "drained after {drain_after} events");
        most = most.max(legs);
    }
    assert!(most > 4, "{most} legs: it was parted at its boundaries");
}

#[test]
fn fault_r3_47_a_process_that_dies_anywhere_leaves_a_session_that_opens_and_goes_on() {
    // Killed after so many polls of the reader: before, between and after the saves.
    let mut found_running = 0;
    for polls in 0..60 {
        let (model, disk, id) = (script(), Arc::new(Disk::default()), SessionId::new("s").unwrap());
        let runtime = || {
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
        };
        let dying = runtime();
        dying.block_on(async {
            let session = process(&model, &disk).open_session(id.clone()).await.unwrap();
            session.start("do not lose me").unwrap().detach();
            if polls > 5 {
                // The start is being stored just now.
                tokio::time::sleep(MS).await;
            }
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        });
        drop(dying);
        runtime().block_on(async {
            // Its lease ends.
            tokio::time::advance(MS * 50).await;
            let session = process(&model, &disk).open_session(id.clone()).await.unwrap();
            found_running += usize::from(session.is_interrupted());
            if session.is_parked() {
                let handle = session.cancel_parked(CancelCause::requested("operator")).unwrap();
                assert_eq!(read(&session, handle).await.result().outcome(), Outcome::Cancelled);
            }
            let kept = session.messages();
            let stored = disk.load(&id).await.unwrap().map(|s| s.messages).unwrap_or_default();
            assert_eq!(said(&kept), said(&stored), "killed after {polls} polls");
            assert!(kept.is_empty() || kept[0].text() == "do not lose me");
            let next = session.start("and now?").unwrap();
            assert!(read(&session, next).await.result.is_some() || session.is_parked());
        });
    }
    assert!(found_running > 10, "{found_running}: it died in the middle");
}

#[tokio::test(start_paused = true)]
async fn fault_r3_51_r3_53_a_cancel_and_an_answer_that_race_have_one_outcome_which_is_stored_before_it_is_told()
 {
    let (mut cancelled, mut completed) = (0, 0);
    for at in 0..90 {
        let disk = Arc::new(Disk::default());
        let desk = Desk::new(|b| b.store(disk.clone()));
        let session = desk.agent.new_session();
        let mut handle = session.start("go").unwrap();
        let send = async {
            tokio::time::sleep(MS * at).await;
            desk.send(&session, CommandBody::CancelTurn { reason: None })
        };
        let watch = async {
            let mut told = Vec::new();
            while let Some(event) = handle.next().await {
                if let TurnEventKind::TurnFinished(end) = event.kind {
                    let stored = disk.load(session.id()).await.unwrap().unwrap();
                    assert_eq!(said(&stored.messages), said(&session.messages()), "{at} ms: stored before");
                    assert!(stored.snapshot.is_none());
                    told.push(end.outcome);
                }
            }
            let result = handle.result().await.unwrap();
            (told, result.outcome())
        };
        let (receipt, (told, outcome)) = futures::join!(send, watch);
        assert_eq!(told, [outcome], "{at} ms: one ending, and whoever waits for the result has it");
        match outcome {
            Outcome::Cancelled => {
                cancelled += 1;
                assert_eq!(receipt.fate().await, Fate::Applied, "{at} ms");
            }
            Outcome::Completed => {
                completed += 1;
                // It waits for a later turn, for which it is stale.
                tokio::time::sleep(MS).await;
                let _ = read(&session, session.start("more").unwrap()).await;
                assert_eq!(receipt.fate().await, Fate::Stale, "{at} ms");
            }
            other => panic!("{at} ms: {other:?}"),
        }
    }
    assert!(cancelled > 10 && completed > 10, "{cancelled} {completed}: both were tried");
}

/// Awaits so often before it allows.
struct SlowGate(usize);
impl Gate for SlowGate {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        for _ in 0..self.0 {
            tokio::task::yield_now().await;
        }
        Ok(GateDecision::Allow)
    }
}
/// Awaits so often before it goes on, whatever the token says; may rewrite the call, so that the gate is asked again.
struct SlowLayer(usize, bool);
impl Around<scope::ToolCall> for SlowLayer {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        for _ in 0..self.0 {
            tokio::task::yield_now().await;
        }
        if self.1 {
            call.arguments = r#"{"again":true}"#.into();
        }
        next.run(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r3_55_the_token_is_asked_after_the_last_await_before_a_tool_is_entered() {
    let (mut entered, mut kept_out) = (0, 0);
    // A cancel in every gap between two polls, from the start of the turn to its end.
    for (gap, rewrites) in (0..80).flat_map(|gap| [(gap, false), (gap, true)]) {
        let inside: Arc<Mutex<Vec<bool>>> = Arc::default();
        let note = inside.clone();
        let effect = tool("effect", "", move |ctx: ToolContext, _: serde_json::Value| {
            note.lock().push(ctx.turn().cancel().is_cancelled());
            async { Ok("done") }
        });
        let agent =
            agent([Reply::new().call("c", "effect", "{}").finish(), Reply::new().text("ok").finish()])
                .tool(effect)
                .gate(SlowGate(5))
                .interceptor(interceptor!(SlowLayer(5, rewrites)))
                .interceptor(interceptor!(SlowLayer(5, rewrites)))
                .build()
                .unwrap();
        let session = agent.new_session();
        let handle = session.start("hi").unwrap();
        for _ in 0..gap {
            tokio::task::yield_now().await;
        }
        handle.cancel(CancelCause::requested("ann"));
        let ran: Ran = read(&session, handle).await;
        let inside = inside.lock().clone();
        assert!(!inside.contains(&true), "gap {gap}, {rewrites}: entered after the cancel");
        match (inside.len(), ran.result().outcome()) {
            (0, _) => kept_out += 1,
            _ => entered += 1,
        }
    }
    assert!(entered > 10 && kept_out > 10, "{entered} {kept_out}: both were tried");
}

#[tokio::test(start_paused = true)]
async fn fault_r3_56_a_steer_a_follow_up_and_an_interrupt_are_three_ways() {
    let desk = Desk::new(|b| b);
    let session = desk.agent.new_session();
    let handle = session.start("go").unwrap();
    tokio::time::sleep(7 * MS).await;
    let parts = |text: &str| vec![Part::text(text)];
    desk.send(&session, CommandBody::InjectUserMessage { parts: parts("and then?") });
    desk.send(&session, CommandBody::InjectSteer { parts: parts("left") });
    let ran = read(&session, handle).await;
    let at = |text: &str| ran.messages.iter().position(|m| m.text() == text).unwrap();
    assert_eq!(ran.messages[at("left") - 1].role, Role::Tool, "after the batch that ran");
    assert_eq!(ran.messages[at("and then?") - 1].text(), "done", "where the turn would have ended");
    let handle = session.start("more").unwrap();
    assert!(handle.interrupt(CancelCause::requested("ann")), "and an interrupt ends it");
    assert_eq!(read(&session, handle).await.result().outcome(), Outcome::Cancelled);
}
