//! Rows of the fault list that are about a whole turn and have no better place.

use std::{sync::Arc, time::Duration};

use turnwright_control::ControlError;
use turnwright_core::{
    AgentResult, CancelCause, Clock, ErrorInfo, ErrorKind, Outcome, Part, RetryAdvice, Role, StopReason,
    ToolCall, ToolDefinition, TurnContext, clock::SystemClock,
};
use turnwright_hook::{
    HookError, HookPoint, OutcomeFinallyHook, TurnAnswer, hook,
    point::{AfterTurn, BeforeIteration, BeforeLlm},
};
use turnwright_interceptor::{Around, Exit, Next, builtin::Retry, interceptor, scope};
use turnwright_llm_stream::{FinishReason, LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    AgentBuilder, TurnEventKind,
    gate::{Gate, GateDecision},
    machine::Limits,
    store::MemoryStore,
    tool::tool,
};
use turnwright_testkit::{
    Reply, ScriptedModel,
    check::{HookExpectation, hook_trace},
    trace::{HookTrace, TraceHook},
};

use crate::support::{Ran, agent, agent_of, read, run};

struct Loop;
impl BeforeIteration for Loop {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        match ctx.iteration() {
            2 => Err(ControlError::loop_detected("again").into()),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Default)]
struct Ends(Arc<parking_lot::Mutex<Vec<Outcome>>>);
impl OutcomeFinallyHook for Ends {
    async fn on_outcome(&self, _: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        self.0.lock().push(result.outcome());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a3_d2_d3_d5_h6_h7_r1_31_every_ending_runs_the_afters_once_and_ends_once() {
    let calls = || Reply::new().text("a").call("c", "wait", "{}").finish();
    let broken = || ErrorInfo::new(ErrorKind::Server, "500");
    let limits = Limits { iterations: 1, ..Limits::default() };
    let plain = |b: AgentBuilder| b;
    type Setup = Box<dyn Fn(AgentBuilder) -> AgentBuilder>;
    let cases: [(Outcome, Vec<Reply>, Setup); 6] = [
        (Outcome::Completed, vec![calls(), Reply::new().text("b").finish()], Box::new(plain)),
        (Outcome::Failed, vec![calls(), Reply::new().text("b").fail(broken())], Box::new(plain)),
        (Outcome::Cancelled, vec![calls(), Reply::new().text("b").silence()], Box::new(plain)),
        (
            Outcome::TimedOut,
            vec![calls(), Reply::new().silence()],
            Box::new(|b| b.deadline(Duration::from_secs(20))),
        ),
        (Outcome::LimitReached, vec![calls()], Box::new(move |b| b.limits(limits))),
        (Outcome::LoopDetected, vec![calls()], Box::new(|b| b.hook(hook!(Loop)))),
    ];
    for (outcome, replies, setup) in cases {
        let (trace, ends) = (HookTrace::new(), Ends::default());
        let wait = tool("wait", "", async |_ctx, (): ()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok("waited")
        });
        let builder =
            agent(replies).tool(wait).hook(hook!(TraceHook::new(0, &trace))).hook(hook!(ends.clone()));
        let agent = setup(builder).build().unwrap();
        let session = agent.new_session();
        let handle = session.start("hi").unwrap();
        if outcome == Outcome::Cancelled {
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.cancel(CancelCause::requested("user"));
        }
        let ran = read(&session, handle).await;
        assert_eq!(ran.result().outcome(), outcome);
        assert_eq!(*ends.0.lock(), [outcome], "one end for every status");
        let cut = !matches!(outcome, Outcome::Completed | Outcome::Failed | Outcome::LimitReached);
        hook_trace(&trace.calls(), HookExpectation { hooks: 1, legs: 1, over: true, cut }).unwrap();
        let count = |p: HookPoint| trace.points().iter().filter(|q| **q == p).count();
        for (before, after) in [
            (HookPoint::BeforeTurn, HookPoint::AfterTurn),
            (HookPoint::BeforeIteration, HookPoint::AfterIteration),
            (HookPoint::BeforeLlm, HookPoint::AfterLlmResponse),
            (HookPoint::BeforeToolExecution, HookPoint::AfterToolExecution),
        ] {
            assert_eq!(count(before), count(after), "{outcome:?} {before}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a2_with_and_without_a_store_a_cut_leaves_equal_histories() {
    let cut = |stored: bool| async move {
        let mut builder = agent([Reply::new().text("Hel").text("lo").silence()]);
        if stored {
            builder = builder.store(Arc::new(MemoryStore::new()));
        }
        let session = builder.build().unwrap().new_session();
        let handle = session.start("hi").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.cancel(CancelCause::requested("user"));
        let ran = read(&session, handle).await;
        let strip = |ran: Ran| -> Vec<_> {
            ran.messages.iter().map(|m| (m.role, m.parts.clone(), m.interrupted.clone())).collect()
        };
        strip(ran)
    };
    assert_eq!(cut(true).await, cut(false).await);
}

#[tokio::test(start_paused = true)]
async fn fault_d7_a_suspension_ends_the_segment_and_not_the_run() {
    let gate = turnwright_react_runtime::gate::AskFor::tools(["t"]);
    let agent = agent([Reply::new().call("c", "t", "{}").finish()])
        .tool(tool("t", "", async |_ctx, (): ()| Ok("t")))
        .gate(gate)
        .build()
        .unwrap();
    let session = agent.new_session();
    let ran = read(&session, session.start("hi").unwrap()).await;
    match ran.kinds().last() {
        Some(TurnEventKind::TurnFinished(f)) => {
            assert_eq!((f.outcome, f.terminal, f.stop_reason), (Outcome::Suspended, false, None));
            assert_eq!(f.pending.len(), 1);
        }
        last => panic!("{last:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn fault_e30_empty_text_neither_ends_a_turn_nor_becomes_the_answer() {
    let first = Reply::new().text("").call("c", "t", "{}").finish();
    let agent = agent([first, Reply::new().text("").text("done").finish()])
        .tool(tool("t", "", async |_ctx, (): ()| Ok("t")))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!(ran.result().content, "done");
    let parts: Vec<_> =
        ran.messages.iter().filter(|m| m.role == Role::Assistant).map(|m| m.parts.clone()).collect();
    assert!(parts.iter().flatten().all(|p| p.as_text() != Some("")), "{parts:?}");
    assert!(matches!(parts[0][0], Part::ToolCall(_)));
}

#[tokio::test(start_paused = true)]
async fn fault_r3_40_the_prompt_survives_a_cancel_at_once() {
    let model = ScriptedModel::new([]);
    let session = agent_of(&model).store(Arc::new(MemoryStore::new())).build().unwrap().new_session();
    let handle = session.start("do not lose me").unwrap();
    handle.cancel(CancelCause::requested("user"));
    let ran = read(&session, handle).await;
    assert_eq!((ran.result().outcome(), model.calls()), (Outcome::Cancelled, 0));
    assert_eq!(ran.messages[0].text(), "do not lose me");
}

/// Never comes back, wherever it stands.
struct Hangs;
impl Gate for Hangs {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        std::future::pending().await
    }
}
impl Around<scope::LlmCall> for Hangs {
    async fn around(
        &self,
        _: &TurnContext,
        _: LlmRequest,
        _: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        std::future::pending().await
    }
}
impl BeforeLlm for Hangs {
    async fn before_llm(&self, _: &TurnContext, _: &LlmRequest) -> Result<(), HookError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r1_33_wherever_a_turn_hangs_its_deadline_leads_to_one_end() {
    let calls = || Reply::new().text("a").call("c", "wait", "{}").finish();
    let waits = || tool("wait", "", async |_ctx, (): ()| std::future::pending::<Result<&str, _>>().await);
    let later =
        ErrorInfo::new(ErrorKind::Overloaded, "busy").retry(RetryAdvice::After(Duration::from_secs(9)));
    type Place = (&'static str, Vec<Reply>, Box<dyn Fn(AgentBuilder) -> AgentBuilder>);
    let places: [Place; 6] = [
        ("model", vec![Reply::new().text("a").silence()], Box::new(|b| b)),
        ("tool", vec![calls()], Box::new(|b| b)),
        ("gate", vec![calls()], Box::new(|b| b.gate(Hangs))),
        ("layer", vec![], Box::new(|b| b.interceptor(interceptor!(Hangs)))),
        ("hook", vec![calls()], Box::new(|b| b.hook(hook!(Hangs)))),
        (
            "wait",
            vec![Reply::new().fail(later), Reply::new().silence()],
            Box::new(|b| b.interceptor(interceptor!(Retry::new(9)))),
        ),
    ];
    for (place, replies, setup) in places {
        let agent = setup(agent(replies).tool(waits()).deadline(Duration::from_secs(20))).build().unwrap();
        let began = SystemClock.instant();
        let ran = run(&agent, "hi").await;
        assert_eq!((place, ran.result().outcome()), (place, Outcome::TimedOut));
        let took = SystemClock.instant() - began;
        assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(24), "{place}: {took:?}");
        let ends = ran.kinds().filter(|kind| matches!(kind, TurnEventKind::TurnFinished(_)));
        assert_eq!(ends.count(), 1, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r2_35_an_answer_cut_by_the_limit_says_so_and_is_kept() {
    for text in ["half", ""] {
        let reply = Reply::new().reasoning("hm").text(text).finish_with(FinishReason::Length);
        let model = ScriptedModel::new([reply]);
        let ran = run(&agent_of(&model).build().unwrap(), "hi").await;
        let result = ran.result();
        assert_eq!((result.outcome(), result.stop_reason), (Outcome::LimitReached, StopReason::MaxTokens));
        assert!(result.error.is_some(), "{text:?}");
        assert_eq!((result.content.as_str(), model.calls()), (text, 1));
    }
}

/// Asks for another attempt as long as answers are empty.
struct Guard;
impl AfterTurn for Guard {
    async fn after_turn(&self, _: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        let is_empty = result.error.as_ref().is_some_and(|e| e.kind == ErrorKind::EmptyResponse);
        Ok(if is_empty { TurnAnswer::Continue } else { TurnAnswer::Done })
    }
}

#[tokio::test(start_paused = true)]
async fn fault_e28_empty_answers_are_asked_for_as_often_as_a_guard_says_and_then_are_a_typed_failure() {
    let thought = || Reply::new().reasoning("hm").finish();
    for (empty, guarded, calls) in [(1, false, 2), (9, false, 2), (4, true, 5), (9, true, 6)] {
        let answers = (0..empty).map(|_| thought()).chain([Reply::new().text("ok").finish()]);
        let model = ScriptedModel::new(answers);
        let builder = agent_of(&model);
        let builder = if guarded { builder.hook(hook!(Guard)) } else { builder };
        let ran = run(&builder.build().unwrap(), "hi").await;
        assert_eq!(model.calls(), calls, "{empty} {guarded}");
        if calls > empty {
            assert_eq!((ran.result().content.as_str(), ran.result().outcome()), ("ok", Outcome::Completed));
        } else {
            let error = ran.result().error.as_ref().unwrap();
            assert_eq!((error.kind, ran.result().outcome()), (ErrorKind::EmptyResponse, Outcome::Failed));
        }
    }
}
