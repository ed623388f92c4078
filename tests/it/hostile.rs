//! Hooks, interceptors and tools that fail, panic, hang and leave, each kind at each place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use turnwright_control::ControlError;
use turnwright_core::{
    Decision, ErrorKind, IterationEnd, LegOutcome, Outcome, Part, StopReason, Timestamp, ToolCall,
    ToolResult, TurnContext,
};
use turnwright_hook::{ErrorPolicy, HookPoint, hook};
use turnwright_interceptor::{Around, AroundStream, Exit, Next, StreamCall, interceptor, scope};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    Agent, AgentBuilder, TurnEventKind,
    gate::AskFor,
    tool::{OrAbort, ToolError, tool},
};
use turnwright_testkit::{
    Reply,
    check::{HookExpectation, hook_trace},
    trace::{HookTrace, Misbehaviour, TraceHook},
};

use crate::support::{Ran, agent, read, run};

fn replies() -> [Reply; 2] {
    [Reply::new().text("look ").call("c1", "work", "{}").finish(), Reply::new().text("done").finish()]
}

fn works() -> AgentBuilder {
    agent(replies()).tool(tool("work", "Works", async |_ctx, (): ()| Ok("worked")).parallel())
}

/// Runs a turn that suspends once and is approved, so that every point fires.
async fn run_approved(agent: &Agent) -> (Ran, usize) {
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    if first.result.is_some() {
        return (first, 1);
    }
    let calls: Vec<_> = session.pending().iter().map(|r| r.call.id.clone()).collect();
    session.decide(&Decision::allow(calls, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let handle = session.resume().unwrap();
    (read(&session, handle).await, 2)
}

/// Points fired when the turn's fate is settled: nothing a hook does there changes it, but the content's last word.
fn is_owed(point: HookPoint) -> bool {
    matches!(point, HookPoint::EndNodeTurn | HookPoint::AfterGraph | HookPoint::FinallyGraph)
}

#[tokio::test(start_paused = true)]
async fn fault_h1_r4_68_a_bad_hook_ends_as_its_policy_says_at_every_point() {
    crate::sweep::quiet_panics();
    for point in HookPoint::ALL {
        for how in [Misbehaviour::Fail, Misbehaviour::Panic, Misbehaviour::Hang, Misbehaviour::Exit] {
            for policy in [ErrorPolicy::Ignore, ErrorPolicy::Log, ErrorPolicy::Abort] {
                let trace = HookTrace::new();
                let agent = works()
                    .gate(AskFor::tools(["work"]))
                    .hook(hook!(TraceHook::new(0, &trace).misbehave(point, how)).name("bad").on_error(policy))
                    .hook(hook!(TraceHook::new(1, &trace)))
                    .build()
                    .unwrap();
                let (ran, legs) = run_approved(&agent).await;
                let what = format!("{point} {how:?} {policy:?}");
                let expected = match (how, policy) {
                    // At the suspended leg's end nothing is obeyed either.
                    _ if is_owed(point) => StopReason::Completed,
                    (Misbehaviour::Exit, _) => StopReason::LoopDetected,
                    // A finaliser that fails leaves the content as it was.
                    _ if point == HookPoint::FinalizeContent => StopReason::Completed,
                    (_, ErrorPolicy::Abort) => StopReason::PolicyViolation,
                    _ => StopReason::Completed,
                };
                assert_eq!(ran.result().stop_reason, expected, "{what}");
                let cut = expected != StopReason::Completed;
                let expect = HookExpectation { hooks: 2, legs, over: true, cut };
                hook_trace(&trace.calls(), expect)
                    .unwrap_or_else(|e| panic!("{what}: {e}: {:?}", trace.calls()));
                if policy == ErrorPolicy::Ignore && how != Misbehaviour::Exit {
                    assert!(!ran.kinds().any(|k| matches!(k, TurnEventKind::HookFailed(_))), "{what}");
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bad {
    Fails,
    Panics,
    PanicsAtOnce,
    Hangs,
    Leaves,
}
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    Before,
    After,
}

struct BadLayer(turnwright_interceptor::ScopeName, Bad, When);

impl BadLayer {
    async fn misbehave(&self) -> Result<(), Exit> {
        match self.1 {
            Bad::Fails => Err(Exit::failed(ErrorKind::Interceptor, "on purpose")),
            Bad::Panics | Bad::PanicsAtOnce => panic!("layer"),
            Bad::Hangs => std::future::pending().await,
            Bad::Leaves => Err(ControlError::policy_violation("on purpose").into()),
        }
    }
    async fn around<T>(
        &self,
        here: turnwright_interceptor::ScopeName,
        rest: impl Future<Output = Result<T, Exit>>,
    ) -> Result<T, Exit> {
        if here == self.0 && self.2 == When::Before {
            self.misbehave().await?;
        }
        let out = rest.await;
        if here == self.0 && self.2 == When::After {
            self.misbehave().await?;
        }
        out
    }
    fn at_once(&self, here: turnwright_interceptor::ScopeName) {
        assert!(!(here == self.0 && self.1 == Bad::PanicsAtOnce), "layer");
    }
}

macro_rules! bad_layer {
    ($($scope:ident($in:ty) -> $out:ty;)*) => {
        $(impl Around<scope::$scope> for BadLayer {
            fn around(
                &self,
                _: &TurnContext,
                input: $in,
                next: Next<'_, scope::$scope>,
            ) -> impl Future<Output = Result<$out, Exit>> + Send {
                let here = turnwright_interceptor::ScopeName::$scope;
                self.at_once(here);
                BadLayer::around(self, here, next.run(input))
            }
        })*
    };
}
bad_layer! {
    AgentRun(Vec<Part>) -> LegOutcome;
    Turn(()) -> LegOutcome;
    Iteration(u32) -> IterationEnd;
    LlmCall(LlmRequest) -> LlmResponse;
    ToolCall(ToolCall) -> ToolResult;
}

#[tokio::test(start_paused = true)]
async fn fault_a7_r4_68_a_bad_layer_ends_as_documented_at_every_scope() {
    use turnwright_interceptor::ScopeName::{AgentRun, Iteration, LlmCall, ToolCall, Turn};
    crate::sweep::quiet_panics();
    for scope in [AgentRun, Turn, Iteration, LlmCall, ToolCall] {
        for bad in [Bad::Fails, Bad::Panics, Bad::PanicsAtOnce, Bad::Hangs, Bad::Leaves] {
            for when in [When::Before, When::After] {
                let trace = HookTrace::new();
                let agent = works()
                    .hook(hook!(TraceHook::new(0, &trace)))
                    .interceptor(interceptor!(BadLayer(scope, bad, when)))
                    .deadline(Duration::from_secs(60))
                    .build()
                    .unwrap();
                let ran = run(&agent, "hi").await;
                let what = format!("{scope} {bad:?} {when:?}");
                let result = ran.result();
                let expected = match bad {
                    Bad::Leaves => StopReason::PolicyViolation,
                    // A layer that awaits on its own is dropped after the grace, when the deadline cancels the turn. Round
                    // the finished work it can only hold back an answer that was whole.
                    Bad::Hangs if when == When::After && matches!(scope, AgentRun | Turn) => {
                        StopReason::Completed
                    }
                    Bad::Hangs => StopReason::Timeout,
                    // A failing tool layer is the tool's error result.
                    _ if scope == ToolCall => StopReason::Completed,
                    _ => StopReason::Error,
                };
                assert_eq!(result.stop_reason, expected, "{what}: {result:?}");
                let cut = expected != StopReason::Completed;
                hook_trace(&trace.calls(), HookExpectation { hooks: 1, legs: 1, over: true, cut })
                    .unwrap_or_else(|e| panic!("{what}: {e}: {:?}", trace.calls()));
                if scope == ToolCall && expected == StopReason::Completed {
                    let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).collect();
                    assert!(results[0].is_error() && results[0].tool() == "work", "{what}: {results:?}");
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum BadStream {
    PanicsOnOpen,
    PanicsInPoll,
    EatsTheEnd,
    AddsAfterTheEnd,
    Hangs,
    Raises,
    Rewrites,
}

impl AroundStream for BadStream {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        let boxed: std::pin::Pin<Box<dyn Stream<Item = LlmEvent> + Send + '_>> = match self {
            Self::PanicsOnOpen => panic!("layer"),
            Self::PanicsInPoll => Box::pin(inner.map(|e| match e.is_terminal() {
                true => panic!("layer"),
                false => e,
            })),
            Self::EatsTheEnd => Box::pin(inner.filter(|e| std::future::ready(!e.is_terminal()))),
            Self::AddsAfterTheEnd => Box::pin(inner.chain(stream::iter([LlmEvent::text("late")]))),
            Self::Hangs => Box::pin(stream::pending()),
            Self::Raises => {
                let raised = call.raise(ControlError::policy_violation("on purpose"));
                Box::pin(stream::iter([raised]))
            }
            // Makes every end look like a success.
            Self::Rewrites => Box::pin(inner.map(|e| match e {
                LlmEvent::StreamFailure(_) => LlmEvent::finish(turnwright_llm_stream::FinishReason::Stop),
                e => e,
            })),
        };
        boxed
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_stream_layer_is_one_failed_call_and_cannot_hide_a_cancel() {
    crate::sweep::quiet_panics();
    for (bad, expected) in [
        (BadStream::PanicsOnOpen, StopReason::Error),
        (BadStream::PanicsInPoll, StopReason::Error),
        (BadStream::EatsTheEnd, StopReason::Error),
        (BadStream::AddsAfterTheEnd, StopReason::Completed),
        (BadStream::Hangs, StopReason::Timeout),
        (BadStream::Raises, StopReason::PolicyViolation),
        (BadStream::Rewrites, StopReason::Completed),
    ] {
        let agent = works().interceptor(interceptor!(bad)).deadline(Duration::from_secs(60)).build().unwrap();
        let ran = run(&agent, "hi").await;
        assert_eq!(ran.result().stop_reason, expected, "{bad:?}: {:?}", ran.result());
    }
    let silent = agent([Reply::new().text("half").silence()])
        .interceptor(interceptor!(BadStream::Rewrites))
        .deadline(Duration::from_secs(60))
        .build()
        .unwrap();
    let ran = run(&silent, "hi").await;
    assert_eq!(ran.result().stop_reason, StopReason::Timeout, "the token is asked, not the event");
    assert_eq!(ran.result().content, "half");
}

/// A turn whose one tool is this one; returns what the tool came to and how the turn ended.
async fn with_tool(builder: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (Option<ToolResult>, Ran, Agent) {
    let agent = builder(agent(replies())).build().unwrap();
    let ran = run(&agent, "hi").await;
    let result = ran.messages.iter().flat_map(|m| m.tool_results()).next().cloned();
    (result, ran, agent)
}

#[tokio::test(start_paused = true)]
async fn fault_i16_a_failing_or_panicking_tool_is_its_own_result() {
    crate::sweep::quiet_panics();
    let failing = tool("work", "", async |_ctx, (): ()| Err::<String, _>(ToolError::model("no such city")));
    let (result, ran, _) = with_tool(|a| a.tool(failing)).await;
    assert_eq!(result.unwrap().error.unwrap().message, "no such city");
    assert_eq!(ran.result().stop_reason, StopReason::Completed);

    let panicking = tool("work", "", async |_ctx, (): ()| -> Result<String, ToolError> { panic!("tool") });
    let (result, ran, _) = with_tool(|a| a.tool(panicking)).await;
    assert_eq!(result.unwrap().error.unwrap().kind, ErrorKind::Panic);
    assert_eq!(ran.result().stop_reason, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_tool_ends_at_its_deadline_and_the_loop_goes_on() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let flag = dropped.clone();
    let hanging = tool("work", "", move |_ctx, (): ()| {
        let flag = Flag(flag.clone());
        async move {
            let _flag = flag;
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let (result, ran, _) = with_tool(|a| a.tool(hanging)).await;
    let result = result.unwrap();
    assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::ToolTimeout);
    assert!(result.content.starts_with("<tool_timeout><tool_name>work</tool_name>"), "{}", result.content);
    assert_eq!(result.elapsed, Some(Duration::from_secs(540)), "the seed's deadline");
    assert_eq!(ran.result().stop_reason, StopReason::Completed);
    assert!(dropped.load(SeqCst));
}

#[tokio::test]
async fn fault_i5_r1_29_a_blocking_tool_is_fenced_at_its_deadline_and_its_late_result_refused() {
    // Real time: a thread that blocks does not follow the paused clock.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(parking_lot::Mutex::new(blocked));
    let effects = Arc::new(AtomicUsize::new(0));
    let counted = effects.clone();
    let blocking = tool("work", "", move |ctx: turnwright_react_runtime::tool::ToolContext, (): ()| {
        let (blocked, effects) = (blocked.clone(), counted.clone());
        async move {
            ctx.blocking(move |ctx| {
                let _ = blocked.lock().recv();
                ctx.check_open()?;
                effects.fetch_add(1, SeqCst);
                Ok::<_, ToolError>("late")
            })
            .await
        }
    })
    .timeout(Duration::from_millis(30));
    let (result, ran, agent) = with_tool(|a| a.tool(blocking)).await;
    assert_eq!(result.unwrap().error.unwrap().kind, ErrorKind::ToolTimeout);
    assert_eq!(ran.result().stop_reason, StopReason::Completed);
    release.send(()).unwrap();
    // The thread ends on its own; its effect was refused, and both effect and result were counted.
    while agent.late_results() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(effects.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn only_an_abort_or_a_control_error_of_a_tool_ends_the_turn() {
    let aborting = tool("work", "", async |_ctx, (): ()| {
        let row: Result<String, std::io::Error> = Err(std::io::Error::other("the database is gone"));
        let row = row.or_abort()?;
        Ok(row)
    });
    let (result, ran, _) = with_tool(|a| a.tool(aborting)).await;
    assert_eq!(ran.result().stop_reason, StopReason::Error);
    assert_eq!(ran.result().error.as_ref().unwrap().message, "the database is gone");
    assert!(result.unwrap().is_error(), "and the call has its result all the same");

    let leaving = tool("work", "", async |_ctx, (): ()| {
        Err::<String, ToolError>(ControlError::loop_detected("again").user_content("I am stuck.").into())
    });
    let (result, ran, _) = with_tool(|a| a.tool(leaving)).await;
    assert_eq!(ran.result().outcome(), Outcome::LoopDetected);
    assert_eq!(ran.result().content, "I am stuck.");
    assert!(result.is_some(), "fault w: no control error leaves a call without a result");
    assert_eq!(ran.messages.last().unwrap().text(), "I am stuck.", "what the user is told is history");
}
