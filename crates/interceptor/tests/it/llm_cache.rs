//! The cache: what is the same question, what is kept, how much, and what a hit is.

use std::{num::NonZeroUsize, sync::Arc};

use serde_json::Value;
use turnwright_core::{ErrorKind, Message, MessageId, Part, Role, TokenUsage, ToolCall, ToolResult};
use turnwright_interceptor::{CallState, Chain, Core, Exit, builtin::Cache, scope};
use turnwright_llm_stream::{CacheHint, FinishReason, LlmRequest, LlmResponse, OutputSchema, ToolChoice};

use crate::{model::*, support::CoreFn};

type Change = fn(&mut LlmRequest);

fn user(id: u128, text: &str) -> Arc<Message> {
    Arc::new(Message::user(MessageId::from_uuid(uuid::Uuid::from_u128(id)), text))
}

fn asks(text: &str) -> LlmRequest {
    LlmRequest { messages: vec![user(1, text)], ..LlmRequest::default().for_model(handle("main", "large")) }
}

async fn ask(
    chain: &Chain<scope::LlmCall>,
    request: LlmRequest,
    core: &impl Core<scope::LlmCall>,
) -> Result<LlmResponse, Exit> {
    chain.call(&crate::support::ctx(), request, core, None).await
}

/// middleware-hooks §7.2 row 10.
#[tokio::test]
async fn a_hit_is_a_fresh_copy_that_spent_nothing() {
    let chain = chain(Cache::default());
    let core = CoreFn(|_: LlmRequest, _: &CallState<_>| {
        Ok(LlmResponse {
            usage: TokenUsage { input_tokens: Some(7), output_tokens: Some(3), ..TokenUsage::UNKNOWN },
            model: Some("large-2026".into()),
            response_id: Some("r1".into()),
            ..LlmResponse::text_only("four")
        })
    });
    let request = asks("2+2");
    let first = ask(&chain, request.clone(), &core).await.unwrap();
    assert_eq!(first.usage.input_tokens, Some(7));
    for _ in 0..2 {
        let mut hit = ask(&chain, request.clone(), &Model::new([Leaves])).await.unwrap();
        assert_eq!((hit.text().as_str(), hit.model.as_deref()), ("four", Some("large-2026")));
        assert_eq!((hit.usage.total_tokens(), hit.response_id.as_deref()), (Some(0), None));
        assert_eq!(hit.finish_reason, first.finish_reason);
        // What the caller makes of its copy changes no other.
        hit.parts = vec![Part::text("five")];
    }
}

#[tokio::test]
async fn everything_but_ids_the_attempt_and_the_cache_hint_makes_another_question() {
    let same: [Change; 3] =
        [|r| r.attempt = 7, |r| r.messages = vec![user(2, "hi")], |r| r.cache = CacheHint::Hour];
    let other: [Change; 14] = [
        |r| r.model = "small".into(),
        |r| r.target = Some(handle("main", "large")), // Another client that is set up alike.
        |r| r.target = None,
        |r| r.system = Some("Be brief.".into()),
        |r| r.messages = vec![user(1, "ho")],
        |r| r.messages.push(user(3, "hi")),
        |r| r.tool_choice = ToolChoice::None,
        |r| r.parallel_tool_calls = Some(false),
        |r| r.output = Some(OutputSchema::new("o", Value::Null).into()),
        |r| r.temperature = Some(0.5),
        |r| r.top_p = Some(0.5),
        |r| r.stop = vec!["END".into()],
        |r| r.max_output_tokens = Some(5),
        |r| _ = r.extra.insert("seed".into(), Value::from(1)),
    ];
    let request = asks("hi");
    for (changes, calls) in [(&same[..], 1), (&other[..], 2)] {
        for (n, change) in changes.iter().enumerate() {
            let (chain, model) = (chain(Cache::default()), Model::new([]));
            let mut changed = request.clone();
            change(&mut changed);
            ask(&chain, request.clone(), &model).await.unwrap();
            ask(&chain, changed, &model).await.unwrap();
            assert_eq!(model.calls(), calls, "change {n}");
        }
    }
}

#[tokio::test]
async fn how_long_a_tool_ran_is_no_part_of_the_question_and_what_it_said_is() {
    let (chain, model, asked) = (chain(Cache::default()), Model::new([]), asks("hi"));
    for (content, seconds, calls) in [("sun", 1, 1), ("sun", 2, 1), ("rain", 2, 2)] {
        let call = ToolCall::new("c", "look", "{}");
        let result = ToolResult::ok(&call, content).with_elapsed(seconds * SECOND);
        let mut request = asked.clone();
        let id = || MessageId::from_uuid(uuid::Uuid::from_u128(2));
        request.messages.push(Arc::new(Message::new(id(), Role::Assistant, vec![Part::ToolCall(call)])));
        request.messages.push(Arc::new(Message::tool(id(), result)));
        ask(&chain, request, &model).await.unwrap();
        assert_eq!(model.calls(), calls, "{content} after {seconds} s");
    }
}

#[tokio::test]
async fn a_call_that_may_not_be_repeated_is_made() {
    let (chain, model, request) = (chain(Cache::default()), Model::new([]), asks("yes"));
    for (once, calls) in
        [(Some("the server keeps it"), 1), (None, 2), (None, 2), (Some("the server keeps it"), 3)]
    {
        let out = chain.call(&crate::support::ctx(), request.clone(), &model, once).await;
        assert_eq!((said(out).as_str(), model.calls()), ("fine", calls));
    }
}

#[tokio::test]
async fn only_complete_answers_are_kept_and_calls_if_asked_to() {
    let with = |finish_reason: Option<FinishReason>, call: bool| {
        let mut parts = vec![Part::text("text")];
        parts.extend(call.then(|| Part::ToolCall(ToolCall::new("c", "t", "{}"))));
        move || LlmResponse { parts: parts.clone(), finish_reason, ..LlmResponse::default() }
    };
    use FinishReason::*;
    let kept_of = async |cache: Cache, answer: &dyn Fn() -> LlmResponse| {
        let (chain, request) = (chain(cache), asks("hi"));
        let asked = std::sync::atomic::AtomicUsize::new(0);
        for _ in 0..2 {
            let out = answer();
            let out = std::sync::Mutex::new(Some(out));
            let core = CoreFn(|_: LlmRequest, _: &CallState<_>| {
                asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Ok(out.lock().unwrap().take().unwrap())
            });
            ask(&chain, request.clone(), &core).await.unwrap();
        }
        asked.into_inner() == 1
    };
    for (reason, call, kept, asked_to) in [
        (Some(Stop), false, true, true),
        (Some(Stop), true, false, true),
        (Some(ToolCalls), true, false, true),
        (Some(Length), false, false, false),
        (Some(ContentFilter), false, false, false),
        (Some(Refusal), false, false, false),
        (Some(Other), false, false, false),
        (None, false, false, false),
    ] {
        let answer = with(reason, call);
        assert_eq!(kept_of(Cache::default(), &answer).await, kept, "{reason:?} {call}");
        assert_eq!(kept_of(Cache::default().with_tool_calls(), &answer).await, asked_to, "{reason:?} {call}");
    }
    assert!(!kept_of(Cache::default(), &|| LlmResponse::text_only(" ")).await, "blank");
    assert!(!kept_of(Cache::default(), &|| LlmResponse::failed(error(ErrorKind::Server))).await);
    let (chain, model) = (chain(Cache::default()), Model::new([Fails(error(ErrorKind::Server)), Leaves]));
    let request = asks("hi");
    assert!(ask(&chain, request.clone(), &model).await.is_err());
    assert!(ask(&chain, request.clone(), &model).await.is_err());
    assert!(ask(&chain, request, &model).await.is_ok());
}

#[tokio::test]
async fn it_is_bounded_by_entries_and_by_bytes_and_what_was_not_used_goes_first() {
    let two = NonZeroUsize::new(2).unwrap();
    // One answer, [{"type":"text","text":"fine"}] or so, is more than 20 and less than 40 bytes of JSON.
    for cache in [Cache::new(two, Cache::DEFAULT_BYTES), Cache::new(Cache::DEFAULT_ENTRIES, 80)] {
        let (chain, model) = (chain(cache), Model::new([]));
        let [a, b, c] = ["a", "b", "c"].map(asks);
        for (request, calls) in [(&a, 1), (&b, 2), (&a, 2), (&c, 3), (&a, 3), (&b, 4)] {
            ask(&chain, request.clone(), &model).await.unwrap();
            assert_eq!(model.calls(), calls);
        }
    }
    let (chain, model) = (chain(Cache::new(two, 10)), Model::new([]));
    let request = asks("a");
    for calls in 1..3 {
        ask(&chain, request.clone(), &model).await.unwrap();
        assert_eq!(model.calls(), calls, "larger than all there is");
    }
}
