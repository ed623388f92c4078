//! The deadline and the result limit of tools.

use std::{borrow::Cow, time::Duration};

use futures::FutureExt;
use serde_json::json;
use turnwright_control::ControlError;
use turnwright_core::{
    CancelCause, CodeResult, ErrorInfo, ErrorKind, ImageRef, ToolCall, ToolResult, TurnContext,
};
use turnwright_interceptor::{
    CallState, Chain, Core, Exit,
    builtin::{Redact, ToolResultLimit, ToolTimeout},
    scope,
};

use crate::support::*;

type Tools = Chain<scope::ToolCall>;

const SECOND: Duration = Duration::from_secs(1);

/// Runs for this long, unless it is cancelled.
struct Slow(Duration, Drops);
impl Core<scope::ToolCall> for Slow {
    async fn call(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        _: &CallState<scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let _running = self.1.flag();
        tokio::select! {
            biased;
            cause = ctx.cancel().cancelled() => Err(ControlError::from(cause).into()),
            () = tokio::time::sleep(self.0) => Ok(ToolResult::ok(&call, "done")),
        }
    }
}

fn timed(timeout: ToolTimeout) -> Tools {
    let chain = Tools::default();
    chain.register(timeout).keep();
    chain
}

/// The result of a tool of this name that runs so long, and how long it took.
async fn time(chain: &Tools, tool: &str, runs: Duration) -> (ToolResult, Duration) {
    let (ctx, drops) = (ctx(), Drops::default());
    let clock = ctx.sources().clock.clone();
    let began = clock.instant();
    let slow = Slow(runs, drops.clone());
    let out = chain.call(&ctx, ToolCall::new("c1", tool, ""), &slow, None).await.unwrap();
    assert_eq!(drops.count(), 1, "the tool's future is gone");
    assert_eq!((out.call_id().as_str(), out.tool()), ("c1", tool));
    (out, clock.instant() - began)
}

fn is_timeout(out: &ToolResult) -> bool {
    out.error.as_ref().is_some_and(|e| e.kind == ErrorKind::ToolTimeout)
}

#[tokio::test(start_paused = true)]
async fn fault_r4_60_a_tool_is_cut_at_its_deadline_and_the_model_is_told() {
    assert_eq!(ToolTimeout::DEFAULT, 540 * SECOND);
    let chain = timed(ToolTimeout::new(ToolTimeout::DEFAULT));
    let (out, took) = time(&chain, "fast", 539 * SECOND).await;
    assert_eq!((out.content.as_str(), out.is_error(), took.as_secs()), ("done", false, 539));
    let (out, took) = time(&chain, "a<b>&c", 541 * SECOND).await;
    assert!(is_timeout(&out));
    assert!(took >= 540 * SECOND && took < 540 * SECOND + Duration::from_millis(50), "{took:?}");
    assert_eq!(out.elapsed, Some(took));
    assert_eq!(out.error.unwrap().message, "the tool did not finish within 540 s");
    assert_eq!(
        out.content,
        "<tool_timeout><tool_name>a&lt;b&gt;&amp;c</tool_name><status>timeout</status>\
         <timeout_seconds>540.000</timeout_seconds><elapsed_seconds>540.00</elapsed_seconds>\
         <message>The tool was stopped at its deadline. It may have had effects.</message></tool_timeout>"
    );
}

#[tokio::test(start_paused = true)]
async fn fault_i5_of_the_deadlines_that_are_set_the_least_counts_and_unset_overrides_nothing() {
    let chain = timed(ToolTimeout::new(10 * SECOND).per_tool(|tool| match tool {
        "short" => Some(3 * SECOND),
        "long" => Some(60 * SECOND),
        _ => None,
    }));
    for (tool, seconds) in [("short", 3), ("long", 10), ("unset", 10)] {
        let (out, took) = time(&chain, tool, 3600 * SECOND).await;
        assert!(is_timeout(&out));
        assert_eq!(took.as_secs(), seconds, "{tool}");
    }
    let never = timed(ToolTimeout::new(Duration::MAX));
    assert!(!is_timeout(&time(&never, "t", 3600 * SECOND).await.0));
}

#[tokio::test(start_paused = true)]
async fn fault_i7_a_timeout_the_tool_reports_itself_stays_its_own_error() {
    type Body = fn(&ToolCall) -> Result<ToolResult, Exit>;
    let says: Body =
        |call| Ok(ToolResult::error(call, ErrorInfo::new(ErrorKind::ToolFailed, "the host timed out")));
    let fails: Body = |_| Err(Exit::failed(ErrorKind::ToolFailed, "the host timed out"));
    let converts: Body = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    let chain = timed(ToolTimeout::new(SECOND));
    for body in [says, fails, converts] {
        let tool = CoreFn(move |call: ToolCall, _: &CallState<_>| body(&call));
        let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
        assert!(out.is_error() && !is_timeout(&out) && out.content.contains("timed out"), "{out:?}");
        assert!(!out.content.contains("<tool_timeout>"));
    }
}

#[tokio::test(start_paused = true)]
async fn innermost_it_measures_the_tool_and_not_the_layers_round_it() {
    let chain = Tools::default();
    chain
        .register(layer::<scope::ToolCall, _>(|call, next| {
            Box::pin(async move {
                tokio::time::sleep(3600 * SECOND).await;
                let out = next.run(call).await;
                tokio::time::sleep(3600 * SECOND).await;
                out
            })
        }))
        .keep();
    chain.register(ToolTimeout::new(SECOND)).keep();
    let (out, took) = time(&chain, "t", Duration::from_millis(900)).await;
    assert_eq!((out.content.as_str(), took.as_secs()), ("done", 7200));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_passes_through_the_timeout_and_so_does_a_dropped_call() {
    let (ctx, drops) = (ctx(), Drops::default());
    let (chain, tool) = (timed(ToolTimeout::new(SECOND)), Slow(3600 * SECOND, drops.clone()));
    let mut running = Box::pin(chain.call(&ctx, call(), &tool, None));
    assert!((&mut running).now_or_never().is_none());
    ctx.cancel().cancel(CancelCause::requested("ann"));
    let cancelled = ControlError::cancelled(CancelCause::requested("ann"));
    assert_eq!(running.await, Err(Exit::Control(cancelled)));

    let ctx = crate::support::ctx();
    let mut running = Box::pin(chain.call(&ctx, call(), &tool, None));
    assert!((&mut running).now_or_never().is_none());
    assert_eq!(drops.count(), 1);
    drop(running);
    assert_eq!(drops.count(), 2);
}

#[tokio::test]
async fn fault_i11_long_results_are_cut_errors_too_and_nothing_else_of_them_changes() {
    let chain = Tools::default();
    chain.register(ToolResultLimit::default()).keep();
    let long = "x".repeat(ToolResultLimit::DEFAULT_CHARS + 1);
    let image = ImageRef { uri: "blob:1".into(), media_type: None };
    let run = async |result: fn(&ToolCall, &str) -> ToolResult, content: &str| {
        let (content, image) = (content.to_owned(), image.clone());
        let tool = CoreFn(move |call: ToolCall, _: &CallState<_>| {
            let mut out = result(&call, &content).with_elapsed(SECOND);
            out.images.push(image.clone());
            Ok(out)
        });
        let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
        assert_eq!((out.elapsed, out.images.len(), out.call_id().as_str()), (Some(SECOND), 1, "c1"));
        out
    };
    let ok = |call: &ToolCall, content: &str| ToolResult::ok(call, content);
    let error = |call: &ToolCall, content: &str| {
        ToolResult::error(call, ErrorInfo::new(ErrorKind::ToolFailed, content))
    };
    for content in ["", "short", &long[1..]] {
        assert_eq!(run(ok, content).await.content, content);
    }
    for (result, is_error) in [(ok as fn(&_, &_) -> _, false), (error, true)] {
        let out = run(result, &long).await;
        assert_eq!(out.is_error(), is_error);
        assert!(out.content.len() < 13_000, "{}", out.content.len());
        assert!(out.content.ends_with("[output of 50001 characters, cut to fit]"));
    }
    let out = run(error, &long).await;
    let error = out.error.unwrap();
    assert_eq!(
        (error.kind, error.message),
        (ErrorKind::ToolFailed, out.content),
        "the message is cut as well"
    );
}

#[tokio::test]
async fn no_limit_is_so_small_that_cutting_makes_a_text_longer() {
    for limit in [0, 1, 7, 100, 200, 300, 999] {
        let chain = Tools::default();
        chain.register(ToolResultLimit::new(limit)).keep();
        let tool = CoreFn(|call: ToolCall, _: &CallState<_>| {
            let error = ErrorInfo::new(ErrorKind::ToolFailed, "é".repeat(1000));
            Ok(ToolResult::error(&call, error).with_content("ü".repeat(1000)))
        });
        let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
        for (text, of) in [(out.content, 'ü'), (out.error.unwrap().message, 'é')] {
            assert!(text.chars().count() <= limit, "{limit}: {text}");
            let kept = text.starts_with(of) && (limit < 3 || text.ends_with(of) || text.ends_with(']'));
            assert!(kept || limit < 2, "{limit}: {text}");
        }
    }
}

#[tokio::test]
async fn a_control_error_passes_through_the_result_limit() {
    let chain = Tools::default();
    chain.register(ToolResultLimit::new(10)).keep();
    let tool = CoreFn(|_: ToolCall, _: &CallState<_>| Err(control(&"x".repeat(1000))));
    assert_eq!(chain.call(&ctx(), call(), &tool, None).await, Err(control(&"x".repeat(1000))));
}

fn without_secret(text: &str) -> Cow<'_, str> {
    match text.contains(SECRET) {
        true => text.replace(SECRET, "[secret]").into(),
        false => text.into(),
    }
}

const SECRET: &str = "k\"ey\n1";

#[tokio::test]
async fn a_secret_in_the_value_of_a_cell_is_found_however_json_writes_it() {
    let chain = Chain::<scope::ExecuteCode>::default();
    chain.register(Redact::new(without_secret)).keep();
    let core = CoreFn(|_, _: &CallState<_>| {
        let value = json!({ "a": [format!("is {SECRET}"), 1, null], SECRET: true });
        Ok(CodeResult { value: Some(value), ..CodeResult::default() })
    });
    let result = chain.call(&ctx(), scope::ExecuteCode::ask(), &core, None).await.unwrap();
    assert_eq!(result.value, Some(json!({ "a": ["is [secret]", 1, null], "[secret]": true })));
}
