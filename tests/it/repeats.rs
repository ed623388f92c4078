//! Model calls that are repeated and handed to other models, inside whole turns.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use turnwright_core::{
    CancelCause, ErrorInfo, ErrorKind, Outcome, Part, RetryAdvice, StopReason, TurnContext,
};
use turnwright_hook::{HookError, hook, point::AfterLlmResponse};
use turnwright_interceptor::{
    builtin::{Cache, CircuitBreaker, Fallback, RateLimit, Retry},
    interceptor,
};
use turnwright_llm_stream::{LlmEvent, LlmResponse, ModelHandle, ReasoningDelta};
use turnwright_providers::{ChatClient, Timeouts};
use turnwright_react_runtime::{Agent, TurnEventKind};
use turnwright_testkit::{
    Reply, ScriptedModel,
    provider::{Fault, ProviderServer, Reply as Body},
};

use crate::support::{Ran, agent_of, read, run};

fn down() -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Overloaded, "busy")
}

fn quick() -> Retry {
    Retry::default().backoff(Duration::from_millis(1), Duration::from_millis(2))
}

/// The attempts that were shown, and who was asked.
fn retries(ran: &Ran) -> Vec<(u32, String)> {
    let of = |kind: &TurnEventKind| match kind {
        TurnEventKind::Retry { attempt, model } => Some((*attempt, model.clone())),
        _ => None,
    };
    ran.kinds().filter_map(of).collect()
}

/// A model behind a socket.
async fn served(
    replies: impl IntoIterator<Item = Body>,
    model: &'static str,
) -> (ProviderServer, ModelHandle) {
    let server = ProviderServer::start(replies).await.unwrap();
    let short = Timeouts { idle: Duration::from_millis(300), ..Timeouts::default() };
    let client = ChatClient::builder().base_url(server.base_url()).timeouts(short).build().unwrap();
    (server, ModelHandle::new(client, model))
}

#[tokio::test(start_paused = true)]
async fn fault_o3_an_attempt_that_nobody_saw_leaves_no_trace_in_the_history() {
    let opaque = serde_json::from_str(r#"{"signature":"s"}"#).unwrap();
    let signed =
        LlmEvent::ReasoningDelta(ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) });
    let model = ScriptedModel::new([
        Reply::new().event(signed).call("c1", "look", "{}").usage(5, 1).fail(down()),
        Reply::new().text("ok").usage(7, 2).finish(),
    ]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(Retry::default())).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), model.calls()), ("ok", 2));
    assert_eq!(ran.messages.len(), 2, "{:?}", ran.messages);
    assert!(ran.messages[1].parts.iter().all(|p| matches!(p, Part::Text { .. })));
    assert_eq!(ran.result().usage.input_tokens, Some(12), "what the failed attempt used was used");
    assert_eq!(retries(&ran), [(2, "scripted/scripted".to_owned())]);
    let attempts: Vec<_> = model.requests().iter().map(|r| r.attempt).collect();
    assert_eq!(attempts, [1, 2], "the client sees which attempt it is");
    assert!(model.requests().iter().all(|r| r.target.is_none()));
}

#[tokio::test]
async fn fault_o4_r7_98_each_attempt_is_a_new_http_request_after_the_wait_that_was_asked_for() {
    let wait = Duration::from_secs(1);
    let (server, model) = served(
        [
            Body::new().fault(Fault::RateLimited { retry_after: wait }),
            Body::new().fault(Fault::ServerError),
            Body::new().text("ok").finish("stop"),
        ],
        "local",
    )
    .await;
    let agent = Agent::builder("test", model).interceptor(interceptor!(quick())).build().unwrap();
    let clock = turnwright_core::Sources::default().clock;
    let began = clock.instant();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().content.as_str(), server.request_count()), ("ok", 3));
    assert!(clock.instant() - began >= wait, "it came back too early");
    let attempts: Vec<_> = retries(&ran).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!((attempts, ran.messages.len()), (vec![2, 3], 2));
}

#[tokio::test]
async fn fault_o7_r7_96_r7_97_a_stream_that_breaks_is_repeated_only_if_nothing_was_shown() {
    for (after, calls) in [(1, 2), (2, 1)] {
        for fault in [
            Fault::EndWithoutTerminal { after },
            Fault::AbruptClose { after },
            Fault::ErrorInStream { after },
            Fault::Stall { after },
        ] {
            let broken = Body::new().text("half").text(" of it").finish("stop").fault(fault);
            let (server, model) = served([broken, Body::new().text("ok").finish("stop")], "local").await;
            let agent = Agent::builder("test", model).interceptor(interceptor!(quick())).build().unwrap();
            let ran = run(&agent, "hi").await;
            let (content, outcome) =
                if calls == 2 { ("ok", Outcome::Completed) } else { ("half", Outcome::Failed) };
            assert_eq!(
                (ran.result().content.as_str(), ran.result().outcome()),
                (content, outcome),
                "{fault:?}"
            );
            assert_eq!((server.request_count(), ran.messages.len()), (calls, 2), "{fault:?}");
        }
    }
}

/// Notes who is said to have answered.
struct Who(Arc<Mutex<Vec<Option<String>>>>);
impl AfterLlmResponse for Who {
    async fn after_llm_response(&self, _: &TurnContext, response: &LlmResponse) -> Result<(), HookError> {
        self.0.lock().push(response.model.clone());
        Ok(())
    }
}

#[tokio::test]
async fn the_next_models_own_client_is_asked_and_the_turn_says_so() {
    let down = || Body::new().fault(Fault::ServerError);
    let (first, own) = served([down(), down(), down()], "large").await;
    let (second, other) = served([Body::new().text("ok").usage(3, 1).finish("stop")], "small").await;
    let who = Arc::new(Mutex::new(Vec::new()));
    let agent = Agent::builder("test", own)
        .interceptor(interceptor!(Fallback::new([other.clone()])))
        .interceptor(interceptor!(quick()))
        .hook(hook!(Who(who.clone())))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().content.as_str(), ran.result().usage.input_tokens), ("ok", Some(3)));
    assert_eq!((first.request_count(), second.request_count()), (3, 1));
    assert_eq!(second.requests()[0].json()["model"], "small");
    assert_eq!(retries(&ran).pop(), Some((4, format!("{other:?}"))));
    assert_eq!((who.lock().len(), ran.messages.len()), (1, 2));
    assert!(who.lock()[0].is_some());
}

#[tokio::test(start_paused = true)]
async fn who_answered_is_known_also_when_the_provider_does_not_say() {
    let nameless = turnwright_llm_stream::Finish {
        reason: turnwright_llm_stream::FinishReason::Stop,
        raw_reason: None,
        model: None,
        response_id: None,
    };
    let big = ScriptedModel::new([Reply::new().fail(down())]);
    let small = ScriptedModel::new([Reply::new().text("ok").event(LlmEvent::Finish(Box::new(nameless)))]);
    let who = Arc::new(Mutex::new(Vec::new()));
    let fallback = Fallback::new([ModelHandle::new(small.clone(), "small")]);
    let agent =
        agent_of(&big).interceptor(interceptor!(fallback)).hook(hook!(Who(who.clone()))).build().unwrap();
    assert_eq!(run(&agent, "hi").await.result().content, "ok");
    assert_eq!((*who.lock()).clone(), [Some("small".to_owned())]);
    assert_eq!((big.calls(), small.calls(), small.requests()[0].model.as_str()), (1, 1, "small"));
}

#[tokio::test(start_paused = true)]
async fn fault_o2_a_fallback_after_text_would_say_it_twice_so_there_is_none() {
    let big = ScriptedModel::new([Reply::new().text("half").fail(down())]);
    let small = ScriptedModel::new([Reply::new().text("half and all").finish()]);
    let fallback = Fallback::new([ModelHandle::new(small.clone(), "small")]);
    let ran = run(&agent_of(&big).interceptor(interceptor!(fallback)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), ran.result().stop_reason), ("half", StopReason::Error));
    assert_eq!((small.calls(), retries(&ran).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn fault_o6_the_deadline_of_the_turn_bounds_the_waits() {
    let asks = |seconds| down().retry(RetryAdvice::After(Duration::from_secs(seconds)));
    let model = ScriptedModel::new((0..9).map(|_| Reply::new().fail(asks(20))));
    let agent = agent_of(&model)
        .deadline(Duration::from_secs(50))
        .interceptor(interceptor!(Retry::new(9)))
        .build()
        .unwrap();
    let ran = run(&agent, "hi").await;
    let error = ran.result().error.clone().unwrap();
    assert_eq!((ran.result().stop_reason, error.kind), (StopReason::Error, ErrorKind::Overloaded));
    assert_eq!(model.calls(), 3, "a third wait would have passed the deadline");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_the_wait_ends_the_turn_at_once() {
    let asks = down().retry(RetryAdvice::After(Duration::from_secs(50)));
    let model = ScriptedModel::new([Reply::new().fail(asks)]);
    let agent = agent_of(&model).interceptor(interceptor!(Retry::default())).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    let clock = turnwright_core::Sources::default().clock;
    let began = clock.instant();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(model.calls(), 1, "it waits");
    handle.cancel(CancelCause::requested("ann"));
    let ran = read(&session, handle).await;
    assert_eq!((ran.result().outcome(), model.calls()), (Outcome::Cancelled, 1));
    assert!(clock.instant() - began < Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_cached_answer_is_shown_once_and_counts_no_usage() {
    let model = ScriptedModel::new([Reply::new().text("fo").text("ur").usage(7, 3).finish()]);
    let agent = agent_of(&model).interceptor(interceptor!(Cache::default())).build().unwrap();
    let first = run(&agent, "2+2").await;
    assert_eq!(first.result().usage.total_tokens(), Some(10));
    let second = run(&agent, "2+2").await;
    assert_eq!((second.result().content.as_str(), model.calls()), ("four", 1));
    assert_eq!((second.messages.len(), second.messages[1].text().as_str()), (2, "four"));
    let shown = |kind: &TurnEventKind| match kind {
        TurnEventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    };
    assert_eq!(second.kinds().filter_map(shown).collect::<Vec<_>>(), ["four"]);
    assert!(!second.kinds().any(|k| matches!(k, TurnEventKind::Usage { .. })), "nothing was spent");
}

#[tokio::test(start_paused = true)]
async fn a_limit_gives_its_place_back_when_a_turn_is_cut_and_an_open_circuit_fails_at_once() {
    let one = std::num::NonZeroU32::MIN;
    let model = ScriptedModel::new([Reply::new().text("Hel").silence()]);
    let limit = RateLimit::new().concurrent(one);
    let agent = agent_of(&model).interceptor(interceptor!(limit.clone())).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt(CancelCause::requested("ann"));
    assert_eq!(read(&session, handle).await.result().outcome(), Outcome::Cancelled);

    let breaker = CircuitBreaker::new(one, Duration::from_secs(30));
    let broken = ScriptedModel::new([Reply::new().fail(down()), Reply::new().text("never said").finish()]);
    let agent = agent_of(&broken)
        .interceptor(interceptor!(breaker))
        .interceptor(interceptor!(limit))
        .build()
        .unwrap();
    for kind in [ErrorKind::Overloaded, ErrorKind::CircuitOpen] {
        let ran = run(&agent, "hi").await;
        assert_eq!(ran.result().error.as_ref().unwrap().kind, kind);
    }
    assert_eq!(broken.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn ids_of_calls_are_unique_in_the_conversation_also_where_a_provider_or_a_cache_repeats_them() {
    let call = || Reply::new().call("c", "look", "{}").finish();
    let ok = || Reply::new().text("ok").finish();
    let model = ScriptedModel::new([call(), ok(), call(), ok()]);
    let look = turnwright_react_runtime::tool::tool("look", "Looks", async |_ctx, (): ()| Ok("sun"));
    let agent = agent_of(&model).tool(look).build().unwrap();
    let session = agent.new_session();
    for words in ["one", "two"] {
        read(&session, session.start(words).unwrap()).await;
    }
    let messages = session.messages();
    let ids: Vec<_> = messages.iter().flat_map(|m| m.tool_calls().map(|c| c.id.as_str())).collect();
    assert_eq!(ids, ["c", "c~2"]);
    let answered: Vec<_> =
        messages.iter().flat_map(|m| m.tool_results().map(|r| r.call_id().as_str())).collect();
    assert_eq!(answered, ids);
}
