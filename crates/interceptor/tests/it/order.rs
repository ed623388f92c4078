//! The onion: who enters and leaves when, what passes through, and what no layer can do.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use futures::{FutureExt, future::join_all};
use turnwright_core::{
    BoxFuture, ErrorKind, RandomSource, ToolCall, ToolResult, TurnContext, clock::SeededRandom,
};
use turnwright_interceptor::{Around, CallState, Chain, Exit, Next, scope};
use turnwright_llm_stream::LlmRequest;

use crate::support::*;

type Tools = Chain<scope::ToolCall>;

fn noted(log: &Log, who: &'static str) -> impl Around<scope::ToolCall> {
    let log = log.clone();
    layer(move |call: ToolCall, next: Next<'_, scope::ToolCall>| {
        let log = log.clone();
        Box::pin(async move {
            let _inside = log.enter(who);
            next.run(call).await
        }) as BoxFuture<'_, _>
    })
}

fn core(log: &Log) -> impl turnwright_interceptor::Core<scope::ToolCall> {
    let log = log.clone();
    CoreFn(move |call: ToolCall, _: &CallState<_>| {
        log.push("core");
        Ok(ToolResult::ok(&call, "out"))
    })
}

/// middleware-hooks §7.1 rows 4, 5 and 17.
#[tokio::test]
async fn fault_h13_index_0_is_outermost_it_enters_first_and_leaves_last() {
    let (chain, log) = (Tools::default(), Log::default());
    for who in ["a", "b", "c"] {
        chain.register(noted(&log, who)).keep();
    }
    chain.call(&ctx(), call(), &core(&log), None).await.unwrap();
    assert_eq!(log.take(), ["a>", "b>", "c>", "core", "<c", "<b", "<a"]);
}

/// middleware-hooks §7.1 row 2.
#[tokio::test]
async fn fault_r4_64_what_a_layer_changes_going_in_is_what_the_core_sees() {
    let chain = Tools::default();
    for tag in ["a", "b"] {
        chain
            .register(layer::<scope::ToolCall, _>(move |mut call, next| {
                Box::pin(async move {
                    call.arguments.push_str(tag);
                    let out = next.run(call).await?;
                    let content = format!("{}{tag}", out.content);
                    Ok(out.with_content(content))
                })
            }))
            .keep();
    }
    let out = chain.call(&ctx(), call(), &echo(), None).await.unwrap();
    assert_eq!(out.content, "[inab]ba");
}

#[tokio::test]
async fn fault_r4_57_concurrent_calls_with_random_delays_give_one_result() {
    let chain = Tools::default();
    let random = std::sync::Arc::new(SeededRandom::new(57));
    for tag in ["a", "b", "c"] {
        let random = random.clone();
        chain
            .register(layer::<scope::ToolCall, _>(move |mut call, next| {
                let waits = random.next_u64() % 4;
                Box::pin(async move {
                    for _ in 0..waits {
                        Yield::default().await;
                    }
                    call.arguments.push_str(tag);
                    next.run(call).await
                })
            }))
            .keep();
    }
    let (ctx, tool) = (ctx(), echo());
    let runs = join_all((0..1000).map(|_| chain.call(&ctx, call(), &tool, None))).await;
    assert!(runs.into_iter().all(|out| out.unwrap().content == "[inabc]"));
}

/// middleware-hooks §7.1 rows 1 and 3.
#[tokio::test]
async fn a_layer_is_tested_with_a_fresh_input_and_without_a_runtime() {
    let request = LlmRequest::default();
    assert!(request.messages.is_empty() && request.tools.is_empty() && request.output.is_none());
    assert!(request.extra.is_empty() && request.target.is_none() && request.attempt == 0);
    let chain = Chain::<scope::LlmCall>::default();
    chain.register(layer::<scope::LlmCall, _>(|request, next| next.run(request))).keep();
    let seen = request.clone();
    let core = CoreFn(move |given: LlmRequest, _: &CallState<_>| {
        assert_eq!(format!("{given:?}"), format!("{seen:?}"));
        Ok(scope::LlmCall::answer())
    });
    let answer = chain.call(&ctx(), request, &core, None).await.unwrap();
    assert_eq!(answer, scope::LlmCall::answer());
}

/// middleware-hooks §7.1 row 11.
#[tokio::test]
async fn a_short_circuit_answers_in_the_place_of_all_that_is_inside() {
    let (chain, log) = (Tools::default(), Log::default());
    chain.register(noted(&log, "a")).keep();
    chain
        .register(layer::<scope::ToolCall, _>(|call, _next| {
            Box::pin(async move { Ok(ToolResult::ok(&call, "cached")) })
        }))
        .keep();
    chain.register(noted(&log, "b")).keep();
    let out = chain.call(&ctx(), call(), &core(&log), None).await.unwrap();
    assert_eq!((out.content.as_str(), log.take()), ("cached", vec!["a>".into(), "<a".into()]));
}

#[tokio::test]
async fn fault_h5_r4_59_a_layer_that_fails_blocks_the_call() {
    async fn check<S: Sample>() {
        let (chain, entered) = (Chain::<S>::default(), AtomicU32::new(0));
        chain.register(layer::<S, _>(|_, _next| Box::pin(async { Err(failure("not today")) }))).keep();
        let core = CoreFn(|_: S::In, _: &CallState<S>| {
            entered.fetch_add(1, SeqCst);
            Ok(S::answer())
        });
        let error = S::failed(chain.call(&ctx(), S::ask(), &core, None).await).unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Server, "not today"), "{}", S::NAME);
        assert_eq!(entered.load(SeqCst), 0, "{}", S::NAME);
    }
    at_every_scope!(check);
}

#[tokio::test]
async fn fault_h1_r4_68_a_panic_is_a_failure_that_names_its_layer() {
    struct AtOnce;
    impl<S: Sample> Around<S> for AtOnce {
        fn around(
            &self,
            _: &TurnContext,
            _: S::In,
            _: Next<'_, S>,
        ) -> impl Future<Output = Result<S::Out, Exit>> + Send {
            if true {
                panic!("at once");
            }
            async { Ok(S::answer()) }
        }
    }
    struct InPoll;
    impl<S: Sample> Around<S> for InPoll {
        async fn around(&self, _: &TurnContext, input: S::In, next: Next<'_, S>) -> Result<S::Out, Exit> {
            let _ = next.run(input).await;
            panic!("in a poll, {}", 2);
        }
    }
    async fn check<S: Sample>() {
        let core = CoreFn(|_: S::In, _: &CallState<S>| Ok(S::answer()));
        let panics = CoreFn(|_: S::In, _: &CallState<S>| -> Result<S::Out, Exit> { panic!("in the core") });
        let (at_once, in_poll, none) = (Chain::<S>::default(), Chain::<S>::default(), Chain::<S>::default());
        at_once.register(AtOnce).keep();
        in_poll.register(InPoll).keep();
        for (out, words) in [
            (at_once.call(&ctx(), S::ask(), &core, None).await, ["AtOnce panicked", "at once"]),
            (in_poll.call(&ctx(), S::ask(), &core, None).await, ["InPoll panicked", "in a poll, 2"]),
            (none.call(&ctx(), S::ask(), &panics, None).await, [S::NAME.name(), "in the core"]),
        ] {
            let error = S::failed(out).unwrap();
            assert_eq!(error.kind, ErrorKind::Panic);
            assert!(words.iter().all(|w| error.message.contains(w)), "{error}");
        }
    }
    at_every_scope!(check);
}

/// middleware-hooks §7.1 row 12.
#[tokio::test]
async fn fault_h9_recovery_by_returning_a_value_works_at_every_scope() {
    async fn check<S: Sample>() {
        let chain = Chain::<S>::default();
        chain
            .register(layer::<S, _>(|input, next| {
                Box::pin(async move {
                    assert!(S::failed(next.run(input).await).is_some());
                    Ok(S::answer())
                })
            }))
            .keep();
        let core = CoreFn(|_: S::In, _: &CallState<S>| Err(failure("down")));
        assert_eq!(S::failed(chain.call(&ctx(), S::ask(), &core, None).await), None, "{}", S::NAME);
    }
    at_every_scope!(check);
}

#[tokio::test]
async fn a_control_error_is_what_the_chain_returns_whatever_a_layer_makes_of_it() {
    async fn check<S: Sample>() {
        let core = || CoreFn(|_: S::In, _: &CallState<S>| Err(control("no shell")));
        let swallows = Chain::<S>::default();
        swallows
            .register(layer::<S, _>(|input, next| {
                Box::pin(async move {
                    let _ = next.run(input).await;
                    Ok(S::answer())
                })
            }))
            .keep();
        let panics = Chain::<S>::default();
        panics
            .register(layer::<S, _>(|input, next| {
                Box::pin(async move {
                    let _ = next.run(input).await;
                    panic!("after control")
                })
            }))
            .keep();
        let raises = Chain::<S>::default();
        raises
            .register(layer::<S, _>(|input, next| {
                Box::pin(async move {
                    let _ = next.run(input).await;
                    Err(control("a second one"))
                })
            }))
            .keep();
        for chain in [Chain::<S>::default(), swallows, panics, raises] {
            let out = chain.call(&ctx(), S::ask(), &core(), None).await;
            assert_eq!(out.err(), Some(control("no shell")), "{}", S::NAME);
        }
    }
    at_every_scope!(check);
}

#[test]
fn dropping_the_call_drops_what_hangs_innermost_first() {
    let (chain, log) = (Tools::default(), Log::default());
    chain.register(noted(&log, "a")).keep();
    chain.register(noted(&log, "b")).keep();
    let hangs = log.clone();
    chain
        .register(layer::<scope::ToolCall, _>(move |_, _next| {
            let log = hangs.clone();
            Box::pin(async move {
                let _inside = log.enter("hangs");
                std::future::pending().await
            })
        }))
        .keep();
    assert!(chain.call(&ctx(), call(), &core(&log), None).now_or_never().is_none());
    assert_eq!(log.take(), ["a>", "b>", "hangs>", "<hangs", "<b", "<a"]);
}

/// middleware-hooks §7.1 row 10.
#[test]
fn an_empty_chain_is_a_direct_call_that_is_settled_all_the_same() {
    struct Direct;
    impl turnwright_interceptor::Core<scope::ToolCall> for Direct {
        async fn call(
            &self,
            _: &TurnContext,
            call: ToolCall,
            state: &CallState<scope::ToolCall>,
        ) -> Result<ToolResult, Exit> {
            assert_eq!(state.attempt(), 1);
            match call.arguments.as_str() {
                "fail" => Err(failure("down")),
                "control" => Err(control("no")),
                "panic" => panic!("in the tool"),
                _ => Ok(ToolResult::ok(&call, "out")),
            }
        }
    }
    let chain = Tools::default();
    assert!(chain.is_empty() && !chain.is_gating());
    let run = |arguments: &str| {
        let call = ToolCall::new("c1", "weather", arguments);
        chain.call(&ctx(), call, &Direct, None).now_or_never().expect("ready in its first poll")
    };
    assert_eq!(run("").unwrap().content, "out");
    assert_eq!(run("fail").unwrap().error.unwrap().kind, ErrorKind::Server);
    assert_eq!(run("panic").unwrap().error.unwrap().kind, ErrorKind::Panic);
    assert_eq!(run("control"), Err(control("no")));
}

/// middleware-hooks §7.1 row 3.
#[tokio::test]
async fn fault_h15_r4_63_an_answer_that_nobody_changes_is_the_one_the_core_gave() {
    let chain = Chain::<scope::LlmCall>::default();
    chain.register(layer::<scope::LlmCall, _>(|request, next| next.run(request))).keep();
    let core = CoreFn(|_, _: &CallState<scope::LlmCall>| {
        let mut out = turnwright_llm_stream::LlmResponse::text_only("a");
        out.parts.push(turnwright_core::Part::ToolCall(call()));
        Ok(out)
    });
    let out = chain.call(&ctx(), Default::default(), &core, None).await.unwrap();
    assert_eq!(out.tool_calls().collect::<Vec<_>>(), [&call()]);
}

#[tokio::test]
async fn fault_h11_what_belongs_to_a_call_is_not_shared_between_concurrent_calls() {
    let chain = Tools::default();
    chain
        .register(layer::<scope::ToolCall, _>(|call, next| {
            Box::pin(async move {
                let (mine, before) = (call.id.clone(), next.attempt());
                let out = next.run(call).await?;
                assert_eq!((out.call_id(), before), (&mine, 0));
                Ok(out)
            })
        }))
        .keep();
    let (ctx, tool) = (ctx(), echo());
    let calls = (0..50).map(|i| ToolCall::new(format!("c{i}"), "weather", ""));
    let runs = join_all(calls.map(|call| chain.call(&ctx, call, &tool, None))).await;
    for (i, out) in runs.into_iter().enumerate() {
        let out = out.unwrap();
        assert_eq!((out.call_id().as_str(), out.is_error()), (format!("c{i}").as_str(), false));
    }
}
