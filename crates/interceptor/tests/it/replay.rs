//! Calling more than once: where it is allowed, and how it is refused.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use turnwright_core::{ErrorKind, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, CallState, Chain, Core, Exit, ScopeName, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::support::*;

/// Tries up to three times, and once where it may not repeat. Notes why it was refused.
fn retry<S: Sample>(log: &Log) -> impl Around<S> + use<S>
where
    S::In: Clone + Sync,
{
    let log = log.clone();
    layer::<S, _>(move |input: S::In, next| {
        let log = log.clone();
        Box::pin(async move {
            let mut replay = match next.replayable() {
                Ok(replay) => replay,
                Err(refused) => {
                    assert_eq!(refused.info().kind, ErrorKind::ReplayRefused);
                    log.push(format!("refused: {}", refused.why()));
                    return refused.into_next().run(input).await;
                }
            };
            let mut out = replay.run(input.clone()).await;
            for _ in 0..2 {
                match (out, replay.refusal()) {
                    (Ok(ok), _) => return Ok(ok),
                    (Err(e), Some(why)) => {
                        log.push(format!("no more: {why}"));
                        let again = replay.run(input).await;
                        log.push(format!("again: {}", S::failed(again).unwrap()));
                        return Err(e);
                    }
                    (Err(_), None) => out = replay.run(input.clone()).await,
                }
            }
            out
        })
    })
}

fn model<'a>(
    entered: &'a AtomicU32,
    body: impl Fn(u32, &CallState<scope::LlmCall>) -> Option<LlmResponse> + Send + Sync + 'a,
) -> impl Core<scope::LlmCall> + 'a {
    CoreFn(move |_: LlmRequest, state: &CallState<scope::LlmCall>| {
        let n = entered.fetch_add(1, SeqCst) + 1;
        assert_eq!(state.attempt(), n);
        body(n, state).ok_or_else(|| failure("overloaded"))
    })
}

/// middleware-hooks §7.1 row 16.
#[tokio::test]
async fn a_failed_attempt_may_be_repeated_through_the_layers_inside() {
    let (chain, log, entered) = (Chain::default(), Log::default(), AtomicU32::new(0));
    chain.register(retry::<scope::LlmCall>(&log)).keep();
    let inside = log.clone();
    chain
        .register(layer::<scope::LlmCall, _>(move |request, next| {
            inside.push(format!("attempt {}", next.attempt() + 1));
            next.run(request)
        }))
        .keep();
    let core = model(&entered, |n, _| (n == 3).then(|| LlmResponse::text_only("third")));
    let out = chain.call(&ctx(), LlmRequest::default(), &core, None).await.unwrap();
    assert_eq!(out.text(), "third");
    assert_eq!(log.take(), ["attempt 1", "attempt 2", "attempt 3"]);
}

#[tokio::test]
async fn once_output_is_visible_a_further_attempt_is_refused() {
    let (chain, log, entered) = (Chain::default(), Log::default(), AtomicU32::new(0));
    chain.register(retry::<scope::LlmCall>(&log)).keep();
    let core = model(&entered, |n, state| {
        if n == 2 {
            state.mark_visible();
        }
        None
    });
    let out = chain.call(&ctx(), LlmRequest::default(), &core, None).await;
    assert_eq!(out, Err(failure("overloaded")));
    assert_eq!(entered.load(SeqCst), 2);
    assert_eq!(log.take(), ["no more: output is visible already", "again: output is visible already"]);
}

#[tokio::test]
async fn after_a_control_error_a_further_attempt_is_refused_and_the_control_error_comes_out() {
    let (chain, log, entered) = (Chain::default(), Log::default(), AtomicU32::new(0));
    chain.register(retry::<scope::LlmCall>(&log)).keep();
    let core = CoreFn(|_: LlmRequest, _: &CallState<scope::LlmCall>| {
        entered.fetch_add(1, SeqCst);
        Err(control("no shell"))
    });
    let out = chain.call(&ctx(), LlmRequest::default(), &core, None).await;
    assert_eq!((out, entered.load(SeqCst)), (Err(control("no shell")), 1));
    assert_eq!(log.take(), ["no more: a control error passed", "again: policy violation: no shell"]);
}

#[tokio::test]
async fn a_call_that_must_not_be_repeated_hands_next_back_so_that_it_is_made_once() {
    let (chain, log, entered) = (Chain::default(), Log::default(), AtomicU32::new(0));
    chain.register(retry::<scope::ToolCall>(&log)).keep();
    let core = CoreFn(|call: ToolCall, _: &CallState<scope::ToolCall>| {
        entered.fetch_add(1, SeqCst);
        Ok(ToolResult::ok(&call, "done"))
    });
    let out = chain.call(&ctx(), call(), &core, Some("the tool is not idempotent")).await.unwrap();
    assert_eq!((out.content.as_str(), entered.load(SeqCst)), ("done", 1));
    assert_eq!(log.take(), ["refused: the tool is not idempotent"]);
}

#[tokio::test]
async fn in_the_tool_scope_a_refused_attempt_is_a_failure_to_its_layer_and_a_legal_result_outside() {
    let (chain, entered) = (Chain::default(), AtomicU32::new(0));
    chain
        .register(layer::<scope::ToolCall, _>(|call, next| {
            Box::pin(async move {
                let mut replay = next.replayable().unwrap();
                let first = replay.run(call.clone()).await;
                assert_eq!((first.unwrap().content.as_str(), replay.attempt()), ("done", 1));
                let refused = replay.run(call).await;
                let why = Exit::failed(ErrorKind::ReplayRefused, "output is visible already");
                assert_eq!((refused.as_ref(), replay.attempt()), (Err(&why), 1));
                refused
            })
        }))
        .keep();
    let core = CoreFn(|call: ToolCall, state: &CallState<scope::ToolCall>| {
        entered.fetch_add(1, SeqCst);
        state.mark_visible();
        Ok(ToolResult::ok(&call, "done"))
    });
    let out = chain.call(&ctx(), call(), &core, None).await.unwrap();
    assert_eq!((out.error.unwrap().kind, entered.load(SeqCst)), (ErrorKind::ReplayRefused, 1));
}

#[tokio::test]
async fn scopes_that_drive_the_turn_are_never_repeated_and_the_others_may_be() {
    async fn check<S: Sample>() {
        let (chain, entered) = (Chain::<S>::default(), Arc::new(AtomicU32::new(0)));
        chain
            .register(layer::<S, _>(|input, next| {
                Box::pin(async move {
                    let next = match next.replayable() {
                        Ok(mut replay) => {
                            assert!(S::REPLAYABLE);
                            return replay.run(input).await;
                        }
                        Err(refused) => refused,
                    };
                    assert_eq!(next.why(), "this scope drives the turn and runs once");
                    next.into_next().run(input).await
                })
            }))
            .keep();
        let core = CoreFn(|_: S::In, _: &CallState<S>| {
            entered.fetch_add(1, SeqCst);
            Ok(S::answer())
        });
        assert_eq!(S::failed(chain.call(&ctx(), S::ask(), &core, None).await), None);
        assert_eq!(entered.load(SeqCst), 1);
        let replayable = [ScopeName::LlmCall, ScopeName::ToolCall, ScopeName::ExecuteCode];
        assert_eq!(S::REPLAYABLE, replayable.contains(&S::NAME), "{}", S::NAME);
    }
    at_every_scope!(check);
}

#[tokio::test]
async fn two_repeating_layers_multiply_and_neither_goes_on_once_output_is_visible() {
    let run = async |visible_at: u32| {
        let (chain, log, entered) = (Chain::default(), Log::default(), AtomicU32::new(0));
        chain.register(retry::<scope::LlmCall>(&log)).keep();
        chain.register(retry::<scope::LlmCall>(&log)).keep();
        let core = model(&entered, |n, state| {
            if n == visible_at {
                state.mark_visible();
            }
            None
        });
        chain.call(&ctx(), LlmRequest::default(), &core, None).await.unwrap_err();
        entered.load(SeqCst)
    };
    assert_eq!(run(0).await, 9);
    for at in 1..=9 {
        assert_eq!(run(at).await, at, "no attempt after the visible one");
    }
}

#[tokio::test]
async fn a_dropped_attempt_is_over_before_the_next_one_begins() {
    let (chain, log) = (Chain::default(), Log::default());
    chain
        .register(layer::<scope::LlmCall, _>(|request: LlmRequest, next| {
            Box::pin(async move {
                let mut replay = next.replayable().unwrap();
                for _ in 0..2 {
                    let attempt = replay.run(request.clone());
                    assert!(futures::FutureExt::now_or_never(attempt).is_none());
                }
                replay.run(request).await
            })
        }))
        .keep();
    let inside = log.clone();
    chain
        .register(layer::<scope::LlmCall, _>(move |request, next| {
            let log = inside.clone();
            Box::pin(async move {
                let _inside = log.enter("attempt");
                next.run(request).await
            })
        }))
        .keep();
    let core = CoreFn(|_, state: &CallState<scope::LlmCall>| {
        Ok(LlmResponse::text_only(state.attempt().to_string()))
    });
    let out = chain.call(&ctx(), LlmRequest::default(), &core, None).await.unwrap();
    assert_eq!(out.text(), "3");
    assert_eq!(log.take(), ["attempt>", "<attempt", "attempt>", "<attempt", "attempt>", "<attempt"]);
}

const _: fn() = || {
    fn call_is_send<S: Sample>(chain: &Chain<S>, core: &impl Core<S>, ctx: &TurnContext) -> impl Send {
        chain.call(ctx, S::ask(), core, None)
    }
    let _ = |chain: &Chain<scope::ToolCall>, ctx: &TurnContext| drop(call_is_send(chain, &echo(), ctx));
};
