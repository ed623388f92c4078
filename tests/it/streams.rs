//! What a turn shows of its model calls, and what they cost: rows of the fault list.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Map, json};
use turnwright_core::{
    CancelCause, ErrorInfo, ErrorKind, Outcome, SessionId, StopReason, TokenUsage, TurnContext,
};
use turnwright_interceptor::{
    Around, Exit, Next,
    builtin::{Fallback, Retry},
    interceptor, scope,
};
use turnwright_llm_stream::{
    EventStream, FinishReason, LlmClient, LlmEvent, LlmRequest, LlmResponse, ModelHandle, ToolProgress,
};
use turnwright_react_runtime::{
    TurnEventKind,
    gate::AskFor,
    tool::{Tool, tool},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use crate::support::{Ran, agent, agent_of, read, run};

fn echo() -> impl Tool {
    tool("echo", "Says it again", async |_ctx, arguments: serde_json::Value| Ok(arguments.to_string()))
}

fn server() -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Server, "500")
}

fn quick() -> Retry {
    Retry::default().backoff(Duration::from_millis(1), Duration::from_millis(2))
}

fn shown_text(ran: &Ran) -> String {
    let text = |kind: &TurnEventKind| match kind {
        TurnEventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    };
    ran.kinds().filter_map(text).collect()
}

/// What the events show of calls that arrive: id, name, arguments so far. A retry drops what was arriving.
fn arriving<'a>(kinds: impl Iterator<Item = &'a TurnEventKind>) -> Vec<(String, String, String)> {
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for kind in kinds {
        match kind {
            TurnEventKind::Retry { .. } => calls.clear(),
            TurnEventKind::ToolArgsDelta { id, name: Some(name), fragment } => {
                calls.push((id.to_string(), name.clone(), fragment.clone()));
            }
            TurnEventKind::ToolArgsDelta { id, name: None, fragment } => {
                calls.iter_mut().find(|(known, ..)| known == id.as_str()).unwrap().2.push_str(fragment);
            }
            _ => {}
        }
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn fault_r1_2_r1_3_one_call_and_a_turn_of_many_show_the_same() {
    let first = || Reply::new().text("a").call("c1", "echo", "{\"a\":1}").call("c2", "echo", "{}").finish();
    let model = ScriptedModel::new([first(), first(), Reply::new().text("b").finish()]);
    let ctx = TurnContext::builder(SessionId::new("single").unwrap()).sources(virtual_sources(1)).build();
    let progress = Arc::new(Mutex::new(Vec::new()));
    let sink = progress.clone();
    let stream = model.stream(&ctx, &LlmRequest::default());
    let single: Vec<_> =
        EventStream::provider(stream, ctx.cancel(), Some(Arc::new(move |p| sink.lock().push(p))))
            .collect()
            .await;
    assert_eq!(single.len(), 4, "{single:?}");
    let mut calls: Vec<(String, String)> = Vec::new();
    for progress in progress.lock().iter() {
        match progress {
            ToolProgress::Started { name, .. } => calls.push((name.clone(), String::new())),
            ToolProgress::Arguments { fragment, .. } => calls.last_mut().unwrap().1.push_str(fragment),
            _ => {}
        }
    }

    let ran = run(&agent_of(&model).tool(echo()).build().unwrap(), "hi").await;
    let shown = arriving(ran.kinds());
    let of_turn: Vec<_> = shown.iter().map(|(_, name, args)| (name.clone(), args.clone())).collect();
    assert_eq!(of_turn, [calls.clone(), calls].concat(), "in the first call and in the second");
    // And what is called is what was shown, under the same ids.
    let called = ran.kinds().filter_map(|kind| match kind {
        TurnEventKind::ToolCall(call) => {
            Some((call.id.to_string(), call.name.clone(), call.arguments.clone()))
        }
        _ => None,
    });
    assert_eq!(called.collect::<Vec<_>>(), shown);
}

#[tokio::test(start_paused = true)]
async fn fault_r1_6_o3_what_was_arriving_when_an_attempt_broke_is_dropped_by_the_retry() {
    let model = ScriptedModel::new([
        Reply::new().call("c1", "echo", "{\"a\":").call("c2", "echo", "{}").fail(server()),
        Reply::new().call("c1", "echo", "{\"b\":1}").finish(),
        Reply::new().text("ok").finish(),
    ]);
    let ran =
        run(&agent_of(&model).tool(echo()).interceptor(interceptor!(quick())).build().unwrap(), "hi").await;
    assert_eq!(ran.result().content, "ok");
    let expected = ("c1".to_owned(), "echo".to_owned(), "{\"b\":1}".to_owned());
    assert_eq!(arriving(ran.kinds()), std::slice::from_ref(&expected));
    let called: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_calls()).collect();
    assert_eq!((called.len(), called[0].arguments.as_str()), (1, expected.2.as_str()));

    // Of an answer that a filter stopped, or that broke for good, no call is told.
    for reply in [
        Reply::new().call("c1", "echo", "{}").finish_with(FinishReason::ContentFilter),
        Reply::new().call("c1", "echo", "{}").fail(server()),
        Reply::new().call("c1", "echo", "{}"),
    ] {
        let ran = run(&agent([reply]).tool(echo()).build().unwrap(), "hi").await;
        assert_eq!(ran.result().outcome(), Outcome::Failed);
        let is_call =
            |k: &TurnEventKind| matches!(k, TurnEventKind::ToolCall(_) | TurnEventKind::ToolResult(_));
        assert!(!ran.kinds().any(is_call));
        assert!(ran.messages.iter().all(|m| m.tool_calls().next().is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r1_32_d2_a_failed_call_is_never_told_as_an_answer() {
    let failing = |reply: fn() -> Reply, kind: ErrorKind| (reply, kind);
    for (end, kind) in [
        failing(|| Reply::new().fail(server()), ErrorKind::Server),
        failing(|| Reply::new().fail(ErrorInfo::new(ErrorKind::Decode, "x")), ErrorKind::Decode),
        failing(Reply::new, ErrorKind::Truncated),
        failing(|| Reply::new().panic("in the client"), ErrorKind::Panic),
        failing(|| Reply::new().finish_with(FinishReason::ContentFilter), ErrorKind::ContentFilter),
        failing(|| Reply::new().finish_with(FinishReason::Refusal), ErrorKind::Refusal),
    ] {
        let ran = run(&agent([end()]).build().unwrap(), "hi").await;
        let result = ran.result();
        assert_eq!((result.outcome(), result.stop_reason), (Outcome::Failed, StopReason::Error), "{kind}");
        assert_eq!(result.error.as_ref().map(|e| e.kind), Some(kind));
        if kind == ErrorKind::Truncated {
            assert_eq!(result.error.as_ref().unwrap().provider.as_deref(), Some("scripted"));
        }
        let Some(TurnEventKind::TurnFinished(last)) = ran.kinds().last() else { panic!("{kind}") };
        assert_eq!((last.outcome, last.content.as_str()), (Outcome::Failed, ""), "{kind}");
        let said = |m: &Arc<turnwright_core::Message>| m.role == turnwright_core::Role::Assistant;
        assert!(!ran.messages.iter().any(said), "no words of ours stand for an answer: {:?}", ran.messages);
    }
}

#[tokio::test]
async fn an_overflown_context_reaches_the_last_event_with_its_figures() {
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.","code":"context_length_exceeded"}}"#;
    let error = turnwright_llm_stream::classify::in_stream("p", body.as_bytes(), &Default::default());
    let model = ScriptedModel::new([Reply::new().fail(error)]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(quick())).build().unwrap(), "hi").await;
    assert_eq!(model.calls(), 1, "the same request would fail again");
    let last = serde_json::to_value(ran.kinds().last().unwrap()).unwrap();
    assert_eq!(last["error"]["kind"], "context_overflow");
    assert_eq!(last["error"]["context"], json!({ "needed": 10_000, "limit": 8192, "excess": 1808 }));
}

#[tokio::test(start_paused = true)]
async fn fault_d8_what_the_provider_leaves_out_changes_no_event_of_the_turn() {
    let bare = |reason| LlmEvent::finish(reason);
    let hints = Reply::new().text("a").call("c", "echo", "{}").usage(3, 1).finish();
    let none = Reply::new()
        .text("a")
        .event(LlmEvent::ToolCallComplete(Box::new(turnwright_core::ToolCall::new("c", "echo", "{}"))))
        .event(bare(FinishReason::Stop));
    let mut told = Vec::new();
    for first in [hints, none] {
        let last = Reply::new().text("b").event(bare(FinishReason::Stop));
        let ran = run(&agent([first, last]).tool(echo()).build().unwrap(), "hi").await;
        let names = ran.kinds().filter_map(|kind| {
            let name = serde_json::to_value(kind).unwrap()["type"].as_str().unwrap().to_owned();
            (!matches!(name.as_str(), "usage" | "tool_args_delta")).then_some(name)
        });
        told.push(names.collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].iter().filter(|name| *name == "iteration_finished").count(), 2);
}

/// Asks a model of its own before the call.
struct Asks(ScriptedModel);
impl Around<scope::LlmCall> for Asks {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let stream = EventStream::provider(self.0.stream(ctx, &request), ctx.cancel(), None);
        assert!(!stream.collect::<Vec<_>>().await.is_empty());
        next.run(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_d13_what_a_layer_asks_for_itself_is_not_shown() {
    let side = ScriptedModel::new([Reply::new()
        .reasoning("secret")
        .text("secret")
        .call("s", "echo", "{}")
        .finish()]);
    let main = ScriptedModel::new([Reply::new().text("main").finish()]);
    let ran = run(
        &agent_of(&main).tool(echo()).interceptor(interceptor!(Asks(side.clone()))).build().unwrap(),
        "hi",
    )
    .await;
    assert_eq!((side.calls(), ran.result().content.as_str(), ran.messages.len()), (1, "main", 2));
    assert!(!format!("{:?} {:?}", ran.events, ran.messages).contains("secret"));
    assert!(arriving(ran.kinds()).is_empty());
}

/// Lets nothing out before it has judged, and then refuses.
struct Tripwire;
impl Around<scope::LlmCall> for Tripwire {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        next.run(request).await?;
        Err(Exit::failed(ErrorKind::PolicyViolation, "tripped"))
    }
    fn is_gating(&self) -> bool {
        true
    }
}

/// Gates and changes nothing.
struct Passes;
impl Around<scope::LlmCall> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        next.run(request).await
    }
    fn is_gating(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn fault_d14_a_tripwire_is_told_also_when_nobody_reads_and_nothing_got_out() {
    let reply =
        || Reply::new().reasoning("secret").text("sec").text("ret").call("c", "secret", "{}").finish();
    let agent = agent([reply()]).interceptor(interceptor!(Tripwire)).build().unwrap();
    let session = agent.new_session();
    let mut handle = session.start("hi").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.error.as_ref().map(|e| e.kind), Some(ErrorKind::PolicyViolation));
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Failed, ""));
    let ran = read(&session, handle).await;
    assert!(!format!("{:?} {:?}", ran.events, ran.messages).contains("secret"), "{:?}", ran.events);
}

#[tokio::test(start_paused = true)]
async fn fault_d15_the_result_does_not_depend_on_a_reader() {
    let reply =
        || (0..20_000).fold(Reply::new(), |reply, n| reply.text(format!("{n} "))).usage(7, 5).finish();
    let agent = || agent([reply()]).build().unwrap();
    let session = agent().new_session();
    let mut unread = session.start("hi").unwrap();
    let alone = unread.result().await.unwrap();
    let ran = run(&agent(), "hi").await;
    assert!(alone.content == ran.result().content && alone.content.ends_with(" 19999 "));
    assert_eq!((alone.usage, alone.outcome()), (ran.result().usage, Outcome::Completed));
    assert!(session.messages()[1].text() == ran.messages[1].text());
}

#[tokio::test(start_paused = true)]
async fn fault_f7_f10_every_model_call_of_a_turn_is_in_its_total_which_the_events_add_up_to() {
    let main = ScriptedModel::new([
        Reply::new().usage(1, 1).fail(server()),
        Reply::new().call("c", "echo", "{}").usage(10, 1).finish(),
        Reply::new().usage(100, 1).finish(),
        Reply::new().usage(1000, 1).fail(ErrorInfo::new(ErrorKind::NotFound, "gone")),
    ]);
    let other = ScriptedModel::new([Reply::new().text("ok").usage(10_000, 1).finish()]);
    let agent = agent_of(&main)
        .tool(echo())
        .interceptor(interceptor!(Fallback::new([ModelHandle::new(other, "other")])))
        .interceptor(interceptor!(quick()))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    let total = ran.result().usage;
    assert_eq!(
        (ran.result().content.as_str(), total.input_tokens, total.output_tokens),
        ("ok", Some(11_111), Some(5))
    );
    let told = ran.kinds().filter_map(|kind| match kind {
        TurnEventKind::Usage { usage, .. } => Some(*usage),
        _ => None,
    });
    assert_eq!(told.reduce(TokenUsage::plus), Some(total));
}

#[tokio::test(start_paused = true)]
async fn fault_f9_a_cancelled_call_tells_what_it_used_so_far() {
    for interrupts in [false, true] {
        let session = agent([Reply::new().usage(7, 1).text("Hel").silence()]).build().unwrap().new_session();
        let handle = session.start("hi").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cause = CancelCause::requested("ann");
        if interrupts {
            handle.interrupt(cause)
        } else {
            handle.cancel(cause)
        };
        let ran = read(&session, handle).await;
        let usage = ran.result().usage;
        assert_eq!(
            (usage.input_tokens, usage.output_tokens, usage.partial),
            (Some(7), Some(1), true),
            "{interrupts}"
        );
        assert!(ran.kinds().any(|kind| matches!(kind, TurnEventKind::Usage { usage, .. } if usage.partial)));
    }
}

#[tokio::test(start_paused = true)]
async fn fault_o2_o3_r7_96_what_was_withheld_was_not_shown_and_may_be_asked_for_again() {
    let replies = || [Reply::new().text("half").fail(server()), Reply::new().text("whole").finish()];
    let model = ScriptedModel::new(replies());
    let gated = agent_of(&model)
        .interceptor(interceptor!(Passes))
        .interceptor(interceptor!(quick()))
        .build()
        .unwrap();
    let ran = run(&gated, "hi").await;
    assert_eq!((shown_text(&ran).as_str(), ran.result().content.as_str()), ("whole", "whole"));
    assert_eq!((model.calls(), ran.messages.len()), (2, 2));

    // Thoughts that were shown are shown.
    let model =
        ScriptedModel::new([Reply::new().reasoning("hm").fail(server()), Reply::new().text("b").finish()]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(quick())).build().unwrap(), "hi").await;
    assert_eq!((model.calls(), ran.result().outcome()), (1, Outcome::Failed));
}

#[tokio::test(start_paused = true)]
async fn fault_o5_a_request_that_adds_to_what_the_server_keeps_is_made_once() {
    for (name, value, calls) in [
        ("previous_response_id", json!("resp_1"), 1),
        ("conversation", json!({ "id": "conv_1" }), 1),
        ("conversation", json!(null), 2),
        ("metadata", json!({ "conversation": "x" }), 2),
    ] {
        let model = ScriptedModel::new([Reply::new().fail(server()), Reply::new().text("ok").finish()]);
        let other = ScriptedModel::new([Reply::new().text("other").finish()]);
        let agent = agent_of(&model)
            .extra(Map::from_iter([(name.to_owned(), value.clone())]))
            .interceptor(interceptor!(Fallback::new([ModelHandle::new(other.clone(), "other")])))
            .interceptor(interceptor!(quick()))
            .build()
            .unwrap();
        let ran = run(&agent, "hi").await;
        assert_eq!((model.calls(), other.calls()), (calls, 0), "{name} {value}");
        let error = ran.result().error.as_ref().map(|e| e.kind);
        assert_eq!(error, (calls == 1).then_some(ErrorKind::Server), "{name} {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_e17_the_gate_is_asked_about_empty_arguments_and_broken_ones_never_run() {
    for (arguments, asked) in [("", true), (" ", true), ("{}", true), ("{\"a\":", false), ("{} {}", false)] {
        let replies = [Reply::new().call("c", "echo", arguments).finish(), Reply::new().text("ok").finish()];
        let agent = agent(replies).tool(echo()).gate(AskFor::tools(["echo"])).build().unwrap();
        let session = agent.new_session();
        let ran = read(&session, session.start("hi").unwrap()).await;
        assert_eq!(session.pending().len(), usize::from(asked), "{arguments:?}");
        if asked {
            assert_eq!(session.pending()[0].call.arguments, arguments);
        } else {
            let result = ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap().clone();
            assert_eq!(result.error.map(|e| e.kind), Some(ErrorKind::MalformedToolCall), "{arguments:?}");
        }
    }
}
