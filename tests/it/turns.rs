//! Turns that nobody cuts: loops, limits, batches, usage, and what each provider ending comes to.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use turnwright_core::{
    AgentResult, Clock, ErrorInfo, ErrorKind, Origin, Outcome, Role, StopReason, Synthetic, TokenUsage,
    ToolCall, ToolResult, TurnContext, clock::SystemClock,
};
use turnwright_hook::{
    HookError, HookPoint, TurnAnswer, hook,
    instrument::Instrumentation,
    point::{AfterTurn, BeforeLlm, FinalizeContent},
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_llm_stream::{Finish, FinishReason, LlmEvent, LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    BuildError, Record, RecordName, TurnEventKind,
    machine::Limits,
    tool::{ToolError, tool},
};
use turnwright_testkit::{
    Reply, ScriptedModel,
    trace::{HookTrace, TraceHook},
};

use crate::support::{agent, agent_of, run};

fn echo() -> impl turnwright_react_runtime::tool::Tool {
    tool("echo", "Says it again", async |_ctx, arguments: serde_json::Value| Ok(arguments.to_string()))
        .parallel()
}

/// middleware-hooks §7.2 row 2.
#[tokio::test(start_paused = true)]
async fn the_whole_matrix_of_a_plain_turn_in_order() {
    use HookPoint::*;
    let trace = HookTrace::new();
    let agent =
        agent([Reply::new().text("a").call("c", "echo", "{}").finish(), Reply::new().text("b").finish()])
            .tool(echo())
            .hook(hook!(TraceHook::new(0, &trace)))
            .build()
            .unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!(ran.result().content, "b");
    assert_eq!(
        trace.points(),
        [
            BeforeGraph,
            StartNodeTurn,
            BeforeTurn,
            BeforeIteration,
            BeforeLlm,
            AfterLlmResponse,
            BeforeToolExecution,
            AfterToolExecution,
            AfterIteration,
            BeforeIteration,
            BeforeLlm,
            AfterLlmResponse,
            AfterIteration,
            AfterTurn,
            FinalizeContent,
            EndNodeTurn,
            AfterGraph,
            FinallyGraph,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn fault_h16_h17_streaming_and_plain_callers_see_the_same() {
    let run_once = |reads: bool| async move {
        let trace = HookTrace::new();
        let agent =
            agent([Reply::new().text("a").call("c", "echo", "{}").finish(), Reply::new().text("b").finish()])
                .tool(echo())
                .hook(hook!(TraceHook::new(0, &trace)))
                .build()
                .unwrap();
        let session = agent.new_session();
        let mut handle = session.start("hi").unwrap();
        if reads {
            use futures::StreamExt;
            while handle.next().await.is_some() {}
        }
        let result = handle.result().await.unwrap();
        (result, trace.calls(), session.messages())
    };
    // Fault D15: the result does not depend on the reader.
    assert_eq!(run_once(true).await, run_once(false).await);
}

#[tokio::test(start_paused = true)]
async fn fault_r1_16_parallel_tools_overlap_and_history_has_model_order() {
    let slow = tool("slow", "", async |_ctx, (): ()| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok("slow")
    })
    .parallel();
    let fast = tool("fast", "", async |_ctx, (): ()| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok("fast")
    })
    .parallel();
    let batch = Reply::new().call("1", "slow", "").call("2", "fast", "").call("3", "slow", "").finish();
    let agent = agent([batch, Reply::new().text("ok").finish()]).tool(slow).tool(fast).build().unwrap();
    let start = SystemClock.instant();
    let ran = run(&agent, "hi").await;
    assert_eq!((SystemClock.instant() - start), Duration::from_millis(100));
    let shown: Vec<_> = ran
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::ToolResult(r) => Some(r.call_id().to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(shown[0], "2", "each result is visible when it is there");
    let kept: Vec<_> =
        ran.messages.iter().flat_map(|m| m.tool_results()).map(|r| r.call_id().to_string()).collect();
    assert_eq!(kept, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_tool_is_a_barrier_and_parallelism_is_bounded() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let work = |name: &'static str| {
        let log = log.clone();
        tool(name, "", move |_ctx, (): ()| {
            let log = log.clone();
            async move {
                log.lock().push(format!("+{name}"));
                tokio::time::sleep(Duration::from_millis(10)).await;
                log.lock().push(format!("-{name}"));
                Ok(name)
            }
        })
    };
    let batch = ["p", "p", "p", "x", "p"]
        .iter()
        .enumerate()
        .fold(Reply::new(), |r, (i, name)| r.call(&i.to_string(), name, "{}"))
        .finish();
    let agent = agent([batch, Reply::new().text("ok").finish()])
        .tool(work("p").parallel())
        .tool(work("x"))
        .parallel_tools(2)
        .build()
        .unwrap();
    run(&agent, "hi").await;
    assert_eq!(*log.lock(), ["+p", "+p", "-p", "-p", "+p", "-p", "+x", "-x", "+p", "-p"].map(String::from));
}

#[tokio::test(start_paused = true)]
async fn fault_b6_j7_the_iteration_limit_is_a_typed_outcome_with_a_legal_history() {
    let again = |n: u32| Reply::new().text("hm").call(&format!("c{n}"), "echo", "{}").finish();
    let model = ScriptedModel::new((0..20).map(again));
    let agent =
        agent_of(&model).tool(echo()).limits(Limits { iterations: 3, ..Limits::default() }).build().unwrap();
    let session = agent.new_session();
    let ran = crate::support::read(&session, session.start("hi").unwrap()).await;
    assert_eq!(
        (ran.result().stop_reason, ran.result().outcome()),
        (StopReason::MaxIterations, Outcome::LimitReached)
    );
    assert_eq!((ran.result().iterations, model.calls()), (3, 3));
    assert_eq!(ran.result().content, "hm", "the last words");
    // The next turn of the session works.
    let next = crate::support::read(&session, session.start("and?").unwrap()).await;
    assert_eq!(next.result().stop_reason, StopReason::MaxIterations);
}

#[tokio::test(start_paused = true)]
async fn fault_j1_i18_e27_r2_36_calls_run_or_not_by_how_the_response_ended() {
    for (reason, runs, stop) in [
        (FinishReason::ToolCalls, true, StopReason::Completed),
        (FinishReason::Stop, true, StopReason::Completed),
        (FinishReason::Length, false, StopReason::Completed),
        (FinishReason::Other, false, StopReason::Completed),
        (FinishReason::ContentFilter, false, StopReason::Error),
        (FinishReason::Refusal, false, StopReason::Error),
    ] {
        let first = Reply::new().call("c", "echo", r#"{"a":1}"#).finish_with(reason);
        let agent = agent([first, Reply::new().text("ok").finish()]).tool(echo()).build().unwrap();
        let ran = run(&agent, "hi").await;
        assert_eq!(ran.result().stop_reason, stop, "{reason:?}");
        let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).collect();
        match (runs, stop) {
            (true, _) => assert_eq!(results[0].content, r#"{"a":1}"#),
            (false, StopReason::Completed) => assert_eq!(results[0].synthetic, Some(Synthetic::ResponseCut)),
            _ => assert!(results.is_empty(), "{reason:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn words_before_a_call_that_the_provider_threw_away_are_no_whole_answer() {
    for (raw, stop) in [("MALFORMED_FUNCTION_CALL", StopReason::Error), ("pause_turn", StopReason::Completed)]
    {
        let finish = Finish {
            reason: FinishReason::Other,
            raw_reason: Some(raw.into()),
            model: None,
            response_id: None,
        };
        let reply = Reply::new().text("I look.").event(LlmEvent::Finish(Box::new(finish)));
        let ran = run(&agent([reply]).tool(echo()).build().unwrap(), "hi").await;
        let kind = ran.result().error.as_ref().map(|error| error.kind);
        assert_eq!(ran.result().stop_reason, stop, "{raw}");
        assert_eq!(kind, (stop == StopReason::Error).then_some(ErrorKind::MalformedToolCall));
        assert_eq!(ran.result().content, "I look.", "nothing that was shown is lost");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_e17_j2_broken_arguments_and_unknown_tools_go_back_to_the_model_and_never_run() {
    let batch =
        Reply::new().call("1", "echo", r#"{"a":"#).call("2", "nope", "{}").call("3", "echo", "").finish();
    let agent = agent([batch, Reply::new().text("ok").finish()]).tool(echo()).build().unwrap();
    let ran = run(&agent, "hi").await;
    let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).collect();
    let kind = |i: usize| results[i].error.as_ref().map(|e| e.kind);
    assert_eq!(kind(0), Some(ErrorKind::MalformedToolCall));
    assert_eq!(kind(1), Some(ErrorKind::UnknownTool));
    assert!(results[1].content.contains("the tools are: echo"), "{}", results[1].content);
    assert_eq!((kind(2), results[2].content.as_str()), (None, "{}"), "fault E17");
    assert_eq!(ran.result().stop_reason, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn fault_b15_repeated_call_ids_are_told_apart() {
    let batch = |s: &str| Reply::new().call("x", "echo", s).call("x", "echo", s).finish();
    let agent =
        agent([batch("1"), batch("2"), Reply::new().text("ok").finish()]).tool(echo()).build().unwrap();
    let ran = run(&agent, "hi").await;
    let ids: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_calls()).map(|c| c.id.to_string()).collect();
    assert_eq!(ids, ["x", "x~2", "x~3", "x~4"]);
}

#[tokio::test(start_paused = true)]
async fn fault_e28_an_empty_answer_is_asked_for_once_more_and_then_is_a_failure() {
    let model = ScriptedModel::new([Reply::new().reasoning("hm").finish(), Reply::new().text("ok").finish()]);
    let ran = run(&agent_of(&model).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), model.calls()), ("ok", 2));
    let model = ScriptedModel::new([Reply::new().finish(), Reply::new().text(" ").finish()]);
    let ran = run(&agent_of(&model).build().unwrap(), "hi").await;
    assert_eq!(ran.result().error.as_ref().unwrap().kind, ErrorKind::EmptyResponse);
    assert_eq!(model.calls(), 2);
}

/// The words before a call are no answer: a turn that fails tells them as what was shown.
#[tokio::test(start_paused = true)]
async fn fault_j10_the_answer_is_the_last_response_and_an_empty_one_is_not_filled_with_earlier_words() {
    let earlier = || Reply::new().text("Let me look.").call("c", "echo", "{}").finish();
    let replies = [
        Reply::new().text("of another turn").finish(),
        earlier(),
        Reply::new().text("It is green.").finish(),
        earlier(),
        Reply::new().finish(),
        Reply::new().finish(),
        Reply::new().finish(),
        Reply::new().finish(),
    ];
    let session = agent(replies).tool(echo()).build().unwrap().new_session();
    let mut ended = Vec::new();
    for _ in 0..4 {
        let result = session.start("hi").unwrap().result().await.unwrap();
        ended.push((result.content, result.stop_reason, result.error.map(|error| error.kind)));
    }
    let empty = Some(ErrorKind::EmptyResponse);
    let expected = [
        ("of another turn", StopReason::Completed, None),
        ("It is green.", StopReason::Completed, None),
        ("Let me look.", StopReason::Error, empty),
        ("", StopReason::Error, empty),
    ];
    assert_eq!(ended, expected.map(|(content, reason, error)| (content.to_owned(), reason, error)));
}

#[tokio::test(start_paused = true)]
async fn fault_r1_15_r4_70_a_failed_call_keeps_tool_results_and_the_text_that_was_shown() {
    struct Partial(Arc<Mutex<Vec<String>>>);
    impl turnwright_hook::point::AfterLlmResponse for Partial {
        async fn after_llm_response(&self, _: &TurnContext, response: &LlmResponse) -> Result<(), HookError> {
            self.0.lock().push(format!("{}|{:?}", response.text(), response.error.as_ref().map(|e| e.kind)));
            Ok(())
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let broken = ErrorInfo::new(ErrorKind::Overloaded, "busy").provider("scripted").status(529);
    let replies = [Reply::new().call("c", "echo", "{}").finish(), Reply::new().text("half").fail(broken)];
    let agent = agent(replies).tool(echo()).hook(hook!(Partial(seen.clone()))).build().unwrap();
    let ran = run(&agent, "hi").await;
    let error = ran.result().error.clone().unwrap();
    assert_eq!((error.kind, error.status, error.is_retryable()), (ErrorKind::Overloaded, Some(529), true));
    assert_eq!(ran.result().content, "half");
    let last = ran.messages.last().unwrap();
    assert_eq!((last.text().as_str(), last.interrupted.as_ref().unwrap().reason.as_str()), ("half", "error"));
    assert_eq!(*seen.lock(), ["|None", "half|Some(Overloaded)"]);
}

#[tokio::test(start_paused = true)]
async fn fault_f9_usage_is_added_over_calls_and_a_failed_call_makes_it_partial() {
    let replies = [
        Reply::new().call("c", "echo", "{}").usage(1, 1).usage(10, 2).finish(),
        Reply::new().text("ok").usage(20, 3).finish(),
    ];
    let ran = run(&agent(replies).tool(echo()).build().unwrap(), "hi").await;
    let whole = TokenUsage { input_tokens: Some(30), output_tokens: Some(5), ..TokenUsage::UNKNOWN };
    assert_eq!(ran.result().usage, whole);
    let cut = [Reply::new().text("half").usage(7, 1)];
    let ran = run(&agent(cut).build().unwrap(), "hi").await;
    assert_eq!((ran.result().usage.input_tokens, ran.result().usage.partial), (Some(7), true));
}

struct Retry;
impl Around<scope::LlmCall> for Retry {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let mut replay = match next.replayable() {
            Ok(replay) => replay,
            Err(refused) => return refused.into_next().run(request).await,
        };
        match replay.run(request.clone()).await {
            Err(Exit::Failed(error)) if error.is_retryable() && replay.refusal().is_none() => {
                replay.run(request).await
            }
            out => out,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_o2_o3_r7_96_a_retry_leaves_no_trace_and_none_is_made_after_visible_text() {
    let broken = || ErrorInfo::new(ErrorKind::Server, "500");
    let model = ScriptedModel::new([Reply::new().fail(broken()), Reply::new().text("ok").finish()]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(Retry)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), model.calls(), ran.messages.len()), ("ok", 2, 2));
    assert!(
        ran.kinds().any(|k| *k == TurnEventKind::Retry { attempt: 2, model: "scripted/scripted".into() })
    );
    let model =
        ScriptedModel::new([Reply::new().text("half").fail(broken()), Reply::new().text("ok").finish()]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(Retry)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().stop_reason, model.calls()), (StopReason::Error, 1));
}

struct Guard;
impl Around<scope::LlmCall> for Guard {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let response = next.run(request).await?;
        if response.text().contains("secret") {
            return Ok(LlmResponse::text_only("I cannot say."));
        }
        Ok(response)
    }
    fn is_gating(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn fault_d14_nothing_is_shown_before_a_gating_layer_has_judged() {
    let agent = agent([Reply::new().text("the sec").text("ret is 7").finish()])
        .interceptor(interceptor!(Guard))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    let shown: String = ran
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((shown.as_str(), ran.result().content.as_str()), ("I cannot say.", "I cannot say."));
    assert!(!format!("{:?}", ran.messages).contains("secret"));
}

struct Cache;
impl Around<scope::LlmCall> for Cache {
    async fn around(
        &self,
        _: &TurnContext,
        _: LlmRequest,
        _: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        Ok(LlmResponse::text_only("cached"))
    }
}

/// middleware-hooks §7.2 row 1: the client is not called.
#[tokio::test(start_paused = true)]
async fn a_short_circuited_model_call_still_shows_its_answer_once() {
    let model = ScriptedModel::new([]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(Cache)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), model.calls()), ("cached", 0));
    let shown = ran.kinds().filter(|k| matches!(k, TurnEventKind::TextDelta { .. })).count();
    assert_eq!(shown, 1);
}

struct Rewrite;
impl Around<scope::ToolCall> for Rewrite {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        call.arguments = r#"{"rewritten":true}"#.into();
        next.run(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_64_a_tool_runs_with_the_arguments_its_layers_gave_it() {
    let agent = agent([Reply::new().call("c", "echo", "{}").finish(), Reply::new().text("ok").finish()])
        .tool(echo())
        .interceptor(interceptor!(Rewrite))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    let result = ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
    assert_eq!(result.content, r#"{"rewritten":true}"#);
}

struct Again(usize, Mutex<usize>);
impl AfterTurn for Again {
    async fn after_turn(&self, ctx: &TurnContext, _: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        let mut asked = self.1.lock();
        if *asked >= self.0 {
            return Ok(TurnAnswer::Done);
        }
        *asked += 1;
        let reminder = turnwright_core::Message::user(ctx.sources().id(), "go on");
        ctx.history().append(reminder.origin(Origin::Hook("again".into())))?;
        Ok(TurnAnswer::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_62_a_hook_may_ask_for_more_attempts_and_is_bounded() {
    let model = ScriptedModel::new((0..9).map(|n| Reply::new().text(format!("answer {n}")).finish()));
    let agent = agent_of(&model).hook(hook!(Again(usize::MAX, Mutex::new(0)))).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().attempts, model.calls()), (3, 3));
    assert_eq!(ran.result().stop_reason, StopReason::MaxAttempts, "the cap is reported");
    assert_eq!(ran.result().content, "answer 2");
    let reminders = ran.messages.iter().filter(|m| m.origin == Origin::Hook("again".into())).count();
    assert_eq!(reminders, 3);
    // A failed call can be continued too, three times in a row at most.
    let model = ScriptedModel::new([]);
    let limits = Limits { attempts: 9, ..Limits::default() };
    let agent =
        agent_of(&model).limits(limits).hook(hook!(Again(usize::MAX, Mutex::new(0)))).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().stop_reason, model.calls()), (StopReason::Error, 3));
}

struct Sign;
impl FinalizeContent for Sign {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        Ok(format!("{content} -- signed"))
    }
}
struct Remind;
impl BeforeLlm for Remind {
    async fn before_llm(&self, ctx: &TurnContext, _: &LlmRequest) -> Result<(), HookError> {
        ctx.history().append(turnwright_core::Message::user(ctx.sources().id(), "be brief"))?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_finalise_the_content_and_what_they_append_reaches_the_model() {
    let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
    let agent = agent_of(&model).hook(hook!(Sign)).hook(hook!(Remind)).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!(ran.result().content, "ok -- signed");
    assert_eq!(ran.result().streamed.as_deref(), Some("ok"), "the result carries both");
    assert_eq!(model.requests()[0].messages.last().unwrap().text(), "be brief");
    assert_eq!(
        ran.messages.iter().map(|m| m.role).collect::<Vec<_>>(),
        [Role::User, Role::User, Role::Assistant]
    );
}

#[test]
fn a_wrong_agent_is_not_built_and_says_why() {
    let none = || agent([]);
    let named = |n: &str| tool(n, "", async |_ctx, (): ()| Ok(()));
    assert_eq!(
        none().tool(named("a")).tool(named("a")).build().unwrap_err(),
        BuildError::DuplicateTool("a".into())
    );
    assert_eq!(none().tool(named("a b")).build().unwrap_err(), BuildError::ToolName("a b".into()));
    assert_eq!(none().parallel_tools(0).build().unwrap_err(), BuildError::ZeroLimit("parallel_tools"));
    let scalar = tool("n", "", async |_ctx, _: u32| Ok(()));
    assert_eq!(none().tool(scalar).build().unwrap_err(), BuildError::ToolSchema("n".into()));
    let _: fn(ToolError) = drop;
}

struct Veto;
impl turnwright_hook::point::BeforeToolExecution for Veto {
    async fn before_tool_execution(
        &self,
        _: &TurnContext,
        _: &[turnwright_hook::DecidedCall],
    ) -> Result<(), HookError> {
        Err(turnwright_control::ControlError::policy_violation("no tools today").into())
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h18_r3_48_no_tool_starts_after_a_hook_left_the_turn() {
    let ran = Arc::new(Mutex::new(0));
    let count = ran.clone();
    let counted = tool("count", "", move |_ctx, (): ()| {
        *count.lock() += 1;
        async { Ok("counted") }
    });
    let agent = agent([Reply::new().call("c", "count", "{}").finish()])
        .tool(counted)
        .hook(hook!(Veto))
        .build()
        .unwrap();
    let run = run(&agent, "hi").await;
    assert_eq!((run.result().stop_reason, *ran.lock()), (StopReason::PolicyViolation, 0));
    assert!(run.result().error.as_ref().unwrap().message.contains("no tools today"));
}

#[tokio::test(start_paused = true)]
async fn fault_h11_k6_sessions_that_run_at_once_share_nothing() {
    let model = ScriptedModel::new([
        Reply::new().text("a").wait(Duration::from_millis(3)).call("c", "echo", "{}").finish(),
        Reply::new().text("b").finish(),
    ]);
    let trace = HookTrace::new();
    let agent = agent_of(&model).tool(echo()).hook(hook!(TraceHook::new(0, &trace))).build().unwrap();
    let turns = (0..8).map(|n| {
        let agent = agent.clone();
        async move { run(&agent, &format!("hi {n}")).await }
    });
    for (n, ran) in futures::future::join_all(turns).await.into_iter().enumerate() {
        assert_eq!((ran.messages[0].text(), ran.messages.len()), (format!("hi {n}"), 4));
    }
    assert_eq!(trace.calls().len(), 8 * 18);
}

#[test]
fn fault_h14_the_plan_shows_who_stands_where() {
    let channel = turnwright_control::InMemoryControlChannel::new(&turnwright_core::Sources::default());
    let agent = agent([])
        .tool(echo())
        .channel(Arc::new(channel))
        .interceptor(interceptor!(Rewrite))
        .interceptor(interceptor!(Guard).inherited())
        .hook(hook!(Sign).priority(-5))
        .build()
        .unwrap();
    let plan = agent.plan();
    let rows: Vec<_> = plan.interceptors.iter().map(|l| format!("{} {}", l.scope, l.name)).collect();
    assert_eq!(
        rows,
        [
            "llm_call Guard",
            "llm_stream llm_cancel",
            "tool_call tool_result_limit",
            "tool_call control_drain",
            "tool_call Rewrite",
            "tool_call tool_timeout",
        ]
    );
    let text = plan.to_string();
    assert!(text.contains("Sign (priority -5, 10000 ms, on error Log): finalize_content"), "{text}");
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["hooks"][0]["points"][0], "finalize_content");
    // A child has what is inherited, outside its own, and inside the limit.
    let child = crate::support::agent([]).inherit(&agent).interceptor(interceptor!(Retry)).build().unwrap();
    let rows: Vec<_> = child.plan().interceptors.iter().map(|l| l.name.clone()).collect();
    assert_eq!(rows, ["Guard", "Retry", "tool_result_limit", "tool_timeout"]);
}

#[test]
fn the_plan_lists_observers_as_they_are_told_and_instruments_as_they_are_called() {
    struct Timing;
    impl Instrumentation for Timing {
        type Context = ();
    }
    let agent = agent([]).build().unwrap();
    let empty = agent.plan();
    assert!(empty.observers.is_empty() && !empty.to_string().contains("observers"), "{empty}");
    let all = agent.observers().on_all(|_: &Arc<Record>| {});
    agent.observers().on(RecordName::ToolResult, |_: &Arc<Record>| {});
    let capacity = std::num::NonZeroUsize::new(8).unwrap();
    let (_queued, _worker) = agent.observers().queued(None, capacity, async |_: Arc<Record>| {});
    let timing = agent.instruments().register(Timing);
    let here = "turns::the_plan_lists_observers_as_they_are_told_and_instruments_as_they_are_called";
    assert_eq!(
        serde_json::to_value(agent.plan()).unwrap()["observers"],
        serde_json::json!([
            { "of": "tool_result", "name": here, "queue": null },
            { "of": null, "name": here, "queue": null },
            { "of": null, "name": here, "queue": 8 },
        ])
    );
    assert_eq!(agent.plan().instruments, ["Timing"]);
    let text = agent.plan().to_string();
    assert!(
        text.contains(&format!("  {here} (ToolResult, in the turn)\n  {here} (all records, in the turn)")),
        "{text}"
    );
    assert!(text.contains("(all records, behind a queue of 8)\ninstruments"), "{text}");
    all.remove();
    timing.remove();
    assert_eq!((agent.plan().observers.len(), agent.plan().instruments.len()), (2, 0));
}

/// A tool that says something to the conversation while its call is open.
fn noting(then_hang: bool) -> impl turnwright_react_runtime::tool::Tool {
    tool("note", "", move |ctx: turnwright_react_runtime::tool::ToolContext, (): ()| async move {
        let note = turnwright_core::Message::user(ctx.turn().sources().id(), "by the way");
        ctx.turn().history().append(note.origin(Origin::Hook("note".into())))?;
        if then_hang {
            std::future::pending::<()>().await;
        }
        Ok("noted")
    })
}

#[tokio::test(start_paused = true)]
async fn words_said_while_calls_are_open_land_after_their_results_and_survive_a_cut() {
    for hangs in [false, true] {
        let agent = agent([Reply::new().call("c", "note", "{}").finish(), Reply::new().text("ok").finish()])
            .tool(noting(hangs))
            .deadline(Duration::from_secs(5))
            .build()
            .unwrap();
        let ran = run(&agent, "hi").await;
        let roles: Vec<_> = ran.messages.iter().map(|m| m.role).collect();
        assert_eq!(roles[..4], [Role::User, Role::Assistant, Role::Tool, Role::User]);
        assert_eq!((ran.messages[3].text().as_str(), hangs), ("by the way", ran.messages.len() == 4));
    }
}
