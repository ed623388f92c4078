//! Rows of the fault list about hooks: who is told what, in which order, and what a bad callback may not do.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use turnwright_control::{
    Ack, CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate,
    InMemoryControlChannel, Receipt, SendError, Wakeup,
};
use turnwright_core::{
    AgentResult, BoxFuture, CancelCause, Clock, ErrorInfo, ErrorKind, Outcome, SessionId, StopReason,
    ToolCall, ToolResult, TurnContext, clock::SystemClock,
};
use turnwright_hook::{
    DecidedCall, HookError, HookFailureKind, HookPoint, OutcomeFinallyHook, ToolDecision, hook,
    point::{AfterGraph, AfterToolExecution, BeforeLlm, BeforeToolExecution},
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_llm_stream::{LlmRequest, ToolChoice};
use turnwright_react_runtime::{
    AgentBuilder, BuildError, TurnEventKind,
    gate::AskFor,
    machine::Limits,
    tool::{ToolError, tool},
};
use turnwright_testkit::{
    Reply, ScriptedModel,
    trace::{HookTrace, Misbehaviour, TraceHook},
    virtual_sources,
};

use crate::support::{Ran, agent, agent_of, read, run};

fn echo() -> impl turnwright_react_runtime::tool::Tool {
    tool("echo", "", async |_ctx, args: serde_json::Value| Ok(args.to_string())).parallel()
}

fn called() -> [Reply; 2] {
    [Reply::new().text("look ").call("c", "echo", "{}").finish(), Reply::new().text("done").finish()]
}

#[test]
fn fault_h10_what_the_model_must_call_is_checked_when_the_agent_is_built() {
    let choose = |choice| agent([]).tool_choice(choice);
    let missing = choose(ToolChoice::Tool("ehco".into())).tool(echo()).build().unwrap_err();
    assert_eq!(missing, BuildError::ToolChoice("ehco".into()));
    assert!(missing.to_string().contains("\"ehco\", which is no tool of the agent"));
    assert_eq!(choose(ToolChoice::Required).build().unwrap_err(), BuildError::NoTool);
    for fits in [ToolChoice::Tool("echo".into()), ToolChoice::Required, ToolChoice::None, ToolChoice::Auto] {
        assert!(choose(fits).tool(echo()).build().is_ok());
    }
    let zero = tool("echo", "", async |_ctx, (): ()| Ok(())).idle_timeout(Duration::ZERO);
    assert_eq!(agent([]).tool(zero).build().unwrap_err(), BuildError::ZeroToolTimeout("echo".into()));
    let idle = agent([]).tool_idle_timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!(idle, BuildError::ZeroTimeout("tool_idle_timeout"));
    let tokens = agent([]).tool_result_tokens(0).build().unwrap_err();
    assert_eq!(tokens, BuildError::ZeroLimit("tool_result_tokens"));
}

/// Keeps the content of each result it sees; or puts its own in its place.
struct Judge(Option<&'static str>, Arc<Mutex<Vec<String>>>);
impl Around<scope::ToolCall> for Judge {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let result = next.run(call).await?;
        self.1.lock().push(result.content.clone());
        Ok(match self.0 {
            Some(content) => result.with_content(content),
            None => result,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h14_the_plan_names_the_gate_and_an_inherited_layer_sees_the_final_values() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let parent = agent([]).interceptor(interceptor!(Judge(None, seen.clone())).inherited()).build().unwrap();
    let agent = agent(called())
        .tool(echo())
        .inherit(&parent)
        .gate(AskFor::tools(["other"]))
        .interceptor(interceptor!(Judge(Some("replaced"), Arc::default())))
        .build()
        .unwrap();
    let plan = agent.plan();
    assert_eq!(plan.gate, "AskFor");
    assert!(plan.to_string().contains("checked again inside them)\n  AskFor"), "{plan}");
    let _ = run(&agent, "hi").await;
    assert_eq!(*seen.lock(), ["replaced"], "what enforces stands outside and sees what becomes history");
}

/// Wakes by panicking, when it is told to.
struct Bomb(AtomicUsize);
impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        panic!("hook");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h19_a_waker_that_panics_stops_nobody_but_its_reader() {
    crate::sweep::quiet_panics();
    let agent = agent(called()).tool(echo()).build().unwrap();
    let session = agent.new_session();
    let mut handle = session.start("hi").unwrap();
    let bomb = Arc::new(Bomb(AtomicUsize::new(0)));
    let waker = Waker::from(bomb.clone());
    // Registered anew after each time it went off, until the leg is over.
    while session.is_busy() {
        while let Poll::Ready(Some(_)) = pin!(&mut handle).poll_next(&mut Context::from_waker(&waker)) {}
        tokio::task::yield_now().await;
    }
    assert!(bomb.0.load(SeqCst) > 5, "it went off at each event it waited for");
    assert_eq!(handle.result().await.unwrap().content, "done");
    assert_eq!(session.messages().len(), 4);
}

/// A channel whose sender panics when it is told the fate of its steer, or which panics itself.
struct BadChannel {
    inner: InMemoryControlChannel,
    steer: Mutex<Option<Delivery>>,
    takes_panic: bool,
}
impl ControlChannel for BadChannel {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        self.inner.send(command)
    }
    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        assert!(!self.takes_panic, "channel");
        match types {
            [CommandType::InjectSteer, ..] => self.steer.lock().take().into_iter().collect(),
            _ => self.inner.take(scope, types),
        }
    }
    fn wakeup(&self, session: &SessionId) -> Wakeup {
        self.inner.wakeup(session)
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h19_a_sender_that_panics_when_told_stops_nothing_and_a_channel_that_panics_ends_its_turn_only()
{
    crate::sweep::quiet_panics();
    let sources = virtual_sources(1);
    let id = SessionId::new("s").unwrap();
    let body = CommandBody::InjectSteer { parts: vec![turnwright_core::Part::text("left")] };
    let command = ControlCommand::new(&sources, ControlScope::session(id.clone()), "ann", body);
    let delivery = Delivery::new(command, sources.clock.now(), Ack::new(|_| panic!("hook")));
    let with = |steer, takes_panic| {
        let inner = InMemoryControlChannel::new(&sources);
        Arc::new(BadChannel { inner, steer: Mutex::new(steer), takes_panic })
    };
    let build = |channel| agent(called()).tool(echo()).channel(channel).build().unwrap();

    let agent = build(with(Some(delivery), false));
    let session = agent.open_session(id).await.unwrap();
    let ran = read(&session, session.start("hi").unwrap()).await;
    assert_eq!(ran.result().content, "done");
    assert!(ran.messages.iter().any(|m| m.text() == "left"), "it landed all the same");
    assert!(ran.kinds().any(|k| matches!(k, TurnEventKind::Command { fate: Fate::Applied, .. })));

    let agent = build(with(None, true));
    let trace = run(&agent, "hi").await;
    let error = trace.result().error.clone().unwrap();
    assert_eq!((trace.result().outcome(), error.kind), (Outcome::Failed, ErrorKind::Panic));
    assert!(error.message.contains("channel"), "a turn that cannot be controlled does not go on: {error}");
}

/// Points at which a hook that leaves does so in the work, and what closes them.
const WORK: [(HookPoint, Option<HookPoint>); 10] = [
    (HookPoint::BeforeGraph, None),
    (HookPoint::StartNodeTurn, Some(HookPoint::EndNodeTurn)),
    (HookPoint::BeforeTurn, Some(HookPoint::AfterTurn)),
    (HookPoint::BeforeIteration, Some(HookPoint::AfterIteration)),
    (HookPoint::BeforeLlm, Some(HookPoint::AfterLlmResponse)),
    (HookPoint::AfterLlmResponse, None),
    (HookPoint::BeforeToolExecution, Some(HookPoint::AfterToolExecution)),
    (HookPoint::AfterToolExecution, None),
    (HookPoint::AfterIteration, None),
    (HookPoint::AfterTurn, None),
];

#[tokio::test(start_paused = true)]
async fn fault_r3_48_r4_65_a_hook_that_leaves_ends_the_turn_by_name_and_every_later_hook_gets_its_afters() {
    for (point, closed_by) in WORK {
        let trace = HookTrace::new();
        let agent = agent(called())
            .tool(echo())
            .hook(hook!(TraceHook::new(0, &trace).misbehave(point, Misbehaviour::Exit)).name("decider"))
            .hook(hook!(TraceHook::new(1, &trace)).name("observer"))
            .build()
            .unwrap();
        let ran = run(&agent, "hi").await;
        assert_eq!(ran.result().stop_reason, StopReason::LoopDetected, "{point}");
        let last = ran.kinds().last();
        let Some(TurnEventKind::TurnFinished(end)) = last else { panic!("{point}: {last:?}") };
        assert!(end.error.as_ref().unwrap().message.contains("on purpose"), "{point}: {end:?}");
        let mut by_hook: [BTreeMap<HookPoint, usize>; 2] = Default::default();
        for (at, hook) in trace.calls() {
            *by_hook[hook].entry(at).or_default() += 1;
        }
        let [mut decider, observer] = by_hook;
        if closed_by.is_some() || point == HookPoint::BeforeGraph {
            // The one call that later hooks do not get: the before at which the turn was left.
            *decider.get_mut(&point).unwrap() -= 1;
            decider.retain(|_, n| *n > 0);
        }
        assert_eq!(decider, observer, "{point}: nobody is skipped but at the point of a before itself");
        for owed in closed_by.into_iter().chain([HookPoint::AfterGraph, HookPoint::FinallyGraph]) {
            assert!(observer.contains_key(&owed), "{point}: {owed} of {observer:?}");
        }
    }
}

/// Which calls the hooks were told of, before and after.
#[derive(Clone, Default)]
struct Pairs(Arc<Mutex<[BTreeMap<String, usize>; 2]>>);
impl BeforeToolExecution for Pairs {
    async fn before_tool_execution(&self, _: &TurnContext, calls: &[DecidedCall]) -> Result<(), HookError> {
        for call in calls {
            *self.0.lock()[0].entry(call.call.id.to_string()).or_default() += 1;
        }
        Ok(())
    }
}
impl AfterToolExecution for Pairs {
    async fn after_tool_execution(&self, _: &TurnContext, results: &[ToolResult]) -> Result<(), HookError> {
        for result in results {
            *self.0.lock()[1].entry(result.call_id().to_string()).or_default() += 1;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_63_r4_66_each_call_has_one_before_and_one_after_and_one_result_whatever_ends_it() {
    crate::sweep::quiet_panics();
    let batch = || {
        Reply::new()
            .call("fine", "echo", "{}")
            .call("broken", "echo", "{")
            .call("unknown", "nobody", "{}")
            .call("panics", "panics", "{}")
            .call("hangs", "hangs", "{}")
            .call("waits", "echo", "{}")
            .finish()
    };
    // The call that hangs: a cancel, an interrupt, its deadline, and an iteration that is cut.
    for how in 0..4 {
        let pairs = Pairs::default();
        let hangs = tool("hangs", "", async |_ctx, (): ()| {
            std::future::pending::<()>().await;
            Ok("never")
        });
        let mut builder = agent([batch(), Reply::new().text("done").finish()])
            .tool(echo())
            .tool(tool("panics", "", async |_ctx, (): ()| -> Result<(), ToolError> { panic!("tool") }))
            .tool(hangs.timeout(Duration::from_secs(30)))
            .hook(hook!(pairs.clone()));
        if how == 3 {
            builder = builder.deadline(Duration::from_secs(5));
        }
        let session = builder.build().unwrap().new_session();
        let handle = session.start("hi").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        match how {
            0 => drop(handle.cancel(CancelCause::requested("user"))),
            1 => drop(handle.interrupt(CancelCause::requested("user"))),
            _ => {}
        }
        let ran = read(&session, handle).await;
        let mut made = BTreeMap::new();
        for call in ran.messages.iter().flat_map(|m| m.tool_calls()) {
            *made.entry(call.id.to_string()).or_default() += 1;
        }
        let mut shown: BTreeMap<String, usize> = BTreeMap::new();
        for kind in ran.kinds() {
            if let TurnEventKind::ToolResult(result) = kind {
                *shown.entry(result.call_id().to_string()).or_default() += 1;
            }
        }
        let [before, after] = pairs.0.lock().clone();
        assert_eq!((made.len(), &before, &after, &shown), (6, &made, &made, &made), "{how}");
    }
}

/// What the last hooks of a turn were given.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<AgentResult>>>);
impl OutcomeFinallyHook for Ends {
    async fn on_outcome(&self, _: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        self.0.lock().push(result.clone());
        Ok(())
    }
}
impl AfterGraph for Ends {
    async fn after_graph(&self, _: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        self.0.lock().push(result.clone());
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Answers,
    Fails,
    IsCancelled,
    IsInterrupted,
    RunsOut,
    ReachesTheLimit,
    IsLeft,
    Panics,
}

async fn ended(how: How) -> (Ran, Vec<AgentResult>) {
    let broken = ErrorInfo::new(ErrorKind::Server, "500");
    let second = match how {
        How::Fails => Reply::new().text("half").fail(broken),
        How::IsCancelled | How::IsInterrupted | How::RunsOut => Reply::new().text("half").silence(),
        How::Panics => Reply::new().text("half").panic("tool"),
        _ => Reply::new().text("done").finish(),
    };
    let ends = Ends::default();
    let mut builder: AgentBuilder =
        agent([called()[0].clone(), second]).tool(echo()).hook(hook!(ends.clone()));
    builder = match how {
        How::RunsOut => builder.deadline(Duration::from_secs(9)),
        How::ReachesTheLimit => builder.limits(Limits { iterations: 1, ..Limits::default() }),
        How::IsLeft => {
            let trace = HookTrace::new();
            let leaves = TraceHook::new(0, &trace).misbehave(HookPoint::AfterIteration, Misbehaviour::Exit);
            builder.hook(hook!(leaves))
        }
        _ => builder,
    };
    let session = builder.build().unwrap().new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    match how {
        How::IsCancelled => drop(handle.cancel(CancelCause::requested("ann").reason("enough"))),
        How::IsInterrupted => drop(handle.interrupt(CancelCause::requested("ben"))),
        _ => {}
    }
    let ran = read(&session, handle).await;
    let told = ends.0.lock().clone();
    (ran, told)
}

#[tokio::test(start_paused = true)]
async fn fault_h6_h7_r4_67_the_last_hooks_are_told_reason_and_error_of_every_ending() {
    crate::sweep::quiet_panics();
    for (how, reason, kind, who) in [
        (How::Answers, StopReason::Completed, None, None),
        (How::Fails, StopReason::Error, Some(ErrorKind::Server), None),
        (How::IsCancelled, StopReason::Cancelled, None, Some("ann")),
        (How::IsInterrupted, StopReason::Cancelled, None, Some("ben")),
        (How::RunsOut, StopReason::Timeout, Some(ErrorKind::DeadlineExceeded), None),
        (How::ReachesTheLimit, StopReason::MaxIterations, None, None),
        (How::IsLeft, StopReason::LoopDetected, Some(ErrorKind::LoopDetected), None),
        (How::Panics, StopReason::Error, Some(ErrorKind::Panic), None),
    ] {
        let (ran, told) = ended(how).await;
        let result = ran.result();
        assert_eq!(told.len(), 2, "{how:?}: AFTER_GRAPH and the turn's end, once each");
        for seen in &told {
            assert_eq!(seen.stop_reason, reason, "{how:?}");
            assert_eq!((&seen.error, &seen.cancelled_by), (&result.error, &result.cancelled_by), "{how:?}");
            assert_eq!(seen.content, result.content, "{how:?}");
        }
        if let Some(kind) = kind {
            assert_eq!(result.error.as_ref().unwrap().kind, kind, "{how:?}");
        }
        assert_eq!(result.cancelled_by.as_ref().map(|c| c.actor.as_str()), who, "{how:?}");
    }
}

/// Counts how many of it run at the same time, at most.
#[derive(Clone, Default)]
struct Gauge(Arc<Mutex<(usize, usize)>>);
impl Gauge {
    async fn hold(&self) {
        {
            let mut now = self.0.lock();
            *now = (now.0 + 1, now.1.max(now.0 + 1));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.lock().0 -= 1;
    }
    fn most(&self) -> usize {
        self.0.lock().1
    }
}
impl BeforeToolExecution for Gauge {
    async fn before_tool_execution(&self, _: &TurnContext, _: &[DecidedCall]) -> Result<(), HookError> {
        self.hold().await;
        Ok(())
    }
}
impl AfterToolExecution for Gauge {
    async fn after_tool_execution(&self, _: &TurnContext, _: &[ToolResult]) -> Result<(), HookError> {
        self.hold().await;
        Ok(())
    }
}
/// The same as a layer round each call.
struct Held(Gauge);
impl Around<scope::ToolCall> for Held {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        self.0.hold().await;
        next.run(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_69_hooks_of_a_batch_run_one_by_one_and_layers_of_its_calls_beside_each_other_unless_told() {
    for (at_once, layers) in [(5, 4), (1, 1)] {
        let (hooks, held) = (Gauge::default(), Gauge::default());
        let batch = (0..4).fold(Reply::new(), |reply, n| reply.call(&format!("c{n}"), "echo", "{}"));
        let agent = agent([batch.finish(), Reply::new().text("done").finish()])
            .tool(echo())
            .hook(hook!(hooks.clone()))
            .hook(hook!(hooks.clone()))
            .interceptor(interceptor!(Held(held.clone())))
            .parallel_tools(at_once)
            .build()
            .unwrap();
        let start = SystemClock.instant();
        let _ = run(&agent, "hi").await;
        assert_eq!((hooks.most(), held.most()), (1, layers), "{at_once} at once");
        // Two hooks before and two after, and the layers in so many rounds.
        let rounds = 4 + 4 / layers as u32;
        assert_eq!(SystemClock.instant() - start, Duration::from_millis(10) * rounds);
    }
}

struct Sleepy;
impl BeforeLlm for Sleepy {
    async fn before_llm(&self, _: &TurnContext, _: &LlmRequest) -> Result<(), HookError> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_60_a_hook_that_sleeps_past_its_limit_is_cut_there_and_recorded() {
    let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
    let limit = Duration::from_secs(3);
    let agent = agent_of(&model).hook(hook!(Sleepy).timeout(limit)).build().unwrap();
    let start = SystemClock.instant();
    let ran = run(&agent, "hi").await;
    let took = SystemClock.instant() - start;
    assert!(took >= limit && took <= limit + Duration::from_millis(50), "{took:?}");
    let failures: Vec<_> = ran
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::HookFailed(failure) => Some((failure.hook.as_str(), failure.kind)),
            _ => None,
        })
        .collect();
    assert_eq!(failures, [("Sleepy", HookFailureKind::Timeout(limit))]);
    assert_eq!((ran.result().content.as_str(), model.calls()), ("ok", 1));
}

/// What the gate said about each call, as hooks are told.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<ToolDecision>>>);
impl BeforeToolExecution for Said {
    async fn before_tool_execution(&self, _: &TurnContext, calls: &[DecidedCall]) -> Result<(), HookError> {
        self.0.lock().extend(calls.iter().map(|c| c.decision.clone()));
        Ok(())
    }
}

struct Mixed;
impl turnwright_react_runtime::gate::Gate for Mixed {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &turnwright_core::ToolDefinition,
    ) -> Result<turnwright_react_runtime::gate::GateDecision, Exit> {
        use turnwright_react_runtime::gate::GateDecision;
        match call.id.as_str() {
            "denied" => Ok(GateDecision::Deny { reason: "no".into() }),
            "broken" => Err(Exit::failed(ErrorKind::Internal, "the policy file is gone")),
            _ => Ok(GateDecision::Allow),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h3_denied_could_not_run_and_failed_are_three_things_to_hooks_history_and_readers() {
    let said = Said::default();
    let fails = tool("echo", "", async |_ctx, (): ()| Err::<(), _>(ToolError::model("no such city")));
    let batch =
        Reply::new().call("denied", "echo", "{}").call("broken", "echo", "{}").call("ran", "echo", "{}");
    let agent = agent([batch.finish(), Reply::new().text("done").finish()])
        .tool(fails)
        .gate(Mixed)
        .hook(hook!(said.clone()))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    use turnwright_core::Synthetic::{Denied, Unrunnable};
    let kinds: Vec<_> = ran
        .messages
        .iter()
        .flat_map(|m| m.tool_results())
        .map(|r| (r.synthetic, r.error.as_ref().unwrap().kind))
        .collect();
    assert_eq!(
        kinds,
        [
            (Some(Denied), ErrorKind::Denied),
            (Some(Unrunnable), ErrorKind::Internal),
            (None, ErrorKind::ToolFailed)
        ]
    );
    let said = said.0.lock().clone();
    assert!(
        matches!(&said[..], [ToolDecision::Denied(_), ToolDecision::Unrunnable(_), ToolDecision::Allowed]),
        "{said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn fault_r4_70_a_hook_gets_the_partial_answer_of_a_cut_call_too() {
    #[derive(Clone, Default)]
    struct Partial(Arc<Mutex<Vec<String>>>);
    impl turnwright_hook::point::AfterLlmResponse for Partial {
        async fn after_llm_response(
            &self,
            _: &TurnContext,
            response: &turnwright_llm_stream::LlmResponse,
        ) -> Result<(), HookError> {
            self.0.lock().push(response.text());
            Ok(())
        }
    }
    let partial = Partial::default();
    let agent =
        agent([Reply::new().text("Hel").text("lo").silence()]).hook(hook!(partial.clone())).build().unwrap();
    let session = agent.new_session();
    let mut handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel(CancelCause::requested("user"));
    assert!(handle.next().now_or_never().is_some(), "there is something to read");
    let _ = handle.outcome().await;
    assert_eq!(*partial.0.lock(), ["Hello"]);
}
