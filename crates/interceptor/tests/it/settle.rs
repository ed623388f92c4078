//! The tool scope: whatever happens inside, a legal result comes out (invariant 5).

use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, RetryAdvice, Synthetic, ToolCall, ToolResult};
use turnwright_interceptor::{CallState, Chain, Exit, Next, scope};

use crate::support::*;

type Tools = Chain<scope::ToolCall>;
type Layer = for<'a> fn(ToolCall, Next<'a, scope::ToolCall>) -> BoxFuture<'a, Result<ToolResult, Exit>>;

async fn through(layers: &[Layer]) -> ToolResult {
    let chain = Tools::default();
    for f in layers {
        chain.register(layer::<scope::ToolCall, _>(*f)).keep();
    }
    let out = chain.call(&ctx(), call(), &echo(), None).await.unwrap();
    assert_eq!((out.call_id().as_str(), out.tool()), ("c1", "weather"), "{out:?}");
    out
}

#[tokio::test]
async fn fault_i16_r4_63_every_failure_is_a_result_with_the_id_and_name_of_its_call() {
    let fails: Layer = |_, _| Box::pin(async { Err(failure("down")) });
    let parses: Layer = |_, _| Box::pin(async { Err("no".parse::<u8>().unwrap_err().into()) });
    let panics: Layer = |_, _| Box::pin(async { panic!("oh") });
    let pass: Layer = |call, next| next.run(call);
    for (bad, kind) in
        [(fails, ErrorKind::Server), (parses, ErrorKind::Interceptor), (panics, ErrorKind::Panic)]
    {
        for layers in [&[bad][..], &[pass, bad], &[bad, pass], &[pass, bad, pass]] {
            let out = through(layers).await;
            let error = out.error.unwrap();
            assert_eq!((error.kind, &out.content), (kind, &error.message));
        }
    }
}

#[tokio::test]
async fn an_outer_layer_sees_the_failure_of_an_inner_one_as_a_result_with_retry_advice() {
    let sees: Layer = |call, next| {
        Box::pin(async move {
            let out = next.run(call).await?;
            let error = out.error.clone().unwrap();
            assert_eq!((error.kind, error.retry), (ErrorKind::Server, RetryAdvice::Backoff));
            Ok(out.with_content("seen"))
        })
    };
    let fails: Layer = |_, _| Box::pin(async { Err(failure("down")) });
    assert_eq!(through(&[sees, fails]).await.content, "seen");
}

#[tokio::test]
async fn a_result_for_another_call_is_refused() {
    let other_id: Layer =
        |call, _| Box::pin(async move { Ok(ToolResult::ok(&ToolCall::new("c2", call.name, ""), "secret")) });
    let other_name: Layer =
        |call, _| Box::pin(async move { Ok(ToolResult::ok(&ToolCall::new(call.id, "rm", ""), "secret")) });
    let rewrites_the_call: Layer = |call, next| next.run(ToolCall::new("c2", call.name, call.arguments));
    for (bad, wrong) in [(other_id, "c2"), (other_name, "rm"), (rewrites_the_call, "c2")] {
        let out = through(&[bad]).await;
        let error = out.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Interceptor);
        assert!(error.message.contains("c1") && error.message.contains(wrong), "{error}");
        assert!(!out.content.contains("secret"), "{}", out.content);
    }
}

/// Refused before anything runs: neither a layer inside nor the tool sees the call.
#[tokio::test]
async fn a_call_that_was_given_another_id_or_name_does_not_run() {
    let other_id: Layer = |call, next| next.run(ToolCall::new("c2", call.name, call.arguments));
    let other_name: Layer = |call, next| next.run(ToolCall::new(call.id, "rm", call.arguments));
    let replays: Layer = |call, next| {
        Box::pin(async move {
            let mut replay = next.replayable().unwrap();
            let out = replay.run(ToolCall::new(call.id.clone(), "rm", "")).await?;
            assert_eq!(replay.attempt(), 0, "that was none");
            Ok(out)
        })
    };
    let sees: Layer = |call, next| {
        Box::pin(async move {
            let out = next.run(call).await?;
            assert_eq!(out.error.as_ref().unwrap().kind, ErrorKind::Interceptor, "it settles as any failure");
            Ok(out)
        })
    };
    let pass: Layer = |call, next| next.run(call);
    for (bad, wrong) in [(other_id, "c2"), (other_name, "rm"), (replays, "rm")] {
        for (outer, inner) in [(None, false), (Some(sees), true), (Some(pass), true)] {
            let (chain, log) = (Tools::default(), Log::default());
            for f in outer.into_iter().chain([bad]) {
                chain.register(layer::<scope::ToolCall, _>(f)).keep();
            }
            if inner {
                let log = log.clone();
                let noted = layer::<scope::ToolCall, _>(move |call, next| {
                    log.push("layer");
                    next.run(call)
                });
                chain.register(noted).keep();
            }
            let tool = CoreFn(|call: ToolCall, _: &CallState<_>| {
                log.push("tool");
                Ok(ToolResult::ok(&call, "ran"))
            });
            let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
            assert_eq!((out.call_id().as_str(), out.tool()), ("c1", "weather"));
            assert!(out.error.unwrap().message.contains(wrong), "{}", out.content);
            assert_eq!(log.take(), [""; 0]);
        }
    }
}

/// A refused input is no attempt: the call may still be made, once more only where repeating is allowed.
#[tokio::test]
async fn after_a_refused_input_the_right_call_still_runs() {
    let corrects: Layer = |call, next| {
        Box::pin(async move {
            let mut replay = next.replayable().unwrap();
            assert!(replay.run(ToolCall::new("c2", "rm", "")).await?.is_error());
            replay.run(call).await
        })
    };
    assert_eq!(through(&[corrects]).await.content, "[in]");
}

#[tokio::test]
async fn fault_i15_empty_and_pending_results_pass_as_they_are() {
    let empty: Layer = |call, _| Box::pin(async move { Ok(ToolResult::ok(&call, "")) });
    let out = through(&[empty]).await;
    assert!(!out.is_error() && out.content.is_empty());
    let pending: Layer = |call, _| {
        let asks = ErrorInfo::new(ErrorKind::ApprovalRequired, "ask a human");
        Box::pin(async move { Ok(ToolResult::synthetic(&call, Synthetic::Pending, asks)) })
    };
    assert!(through(&[pending]).await.is_pending());
}

/// middleware-hooks §7.1 row 15.
#[tokio::test]
async fn a_failure_of_any_other_scope_stays_a_failure() {
    async fn check<S: Sample>() {
        let core = CoreFn(|_: S::In, _: &CallState<S>| Err(failure("down")));
        let out = Chain::<S>::default().call(&ctx(), S::ask(), &core, None).await;
        assert_eq!(out.is_ok(), S::NAME == turnwright_interceptor::ScopeName::ToolCall, "{}", S::NAME);
        assert_eq!(S::failed(out).unwrap().message, "down");
    }
    at_every_scope!(check);
}
