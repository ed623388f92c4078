//! Rows of the fault list about tools: limits, siblings, what they ran with, and what of them becomes history.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use turnwright_core::{
    CallId, Clock, Decision, ErrorKind, ImageRef, Message, Outcome, StateKey, Synthetic, Timestamp, ToolCall,
    ToolDefinition, ToolResult, TurnContext, Verdict, clock::SystemClock,
};
use turnwright_hook::{HookError, hook, point::AfterToolExecution};
use turnwright_interceptor::{Around, Exit, Next, builtin::ToolResultLimit, interceptor, scope};
use turnwright_react_runtime::{
    AgentBuilder, TurnEventKind,
    gate::{AskFor, Gate, GateDecision},
    tool::{DynTool, OnToolFailure, Tool, ToolContext, ToolError, ToolOutput, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{Ran, agent, agent_of, read, run};

const SECOND: Duration = Duration::from_secs(1);

fn results(ran: &Ran) -> Vec<ToolResult> {
    ran.messages.iter().flat_map(|m| m.tool_results()).cloned().collect()
}

/// An agent whose model makes one call of `work`, then answers.
fn once(arguments: &str) -> AgentBuilder {
    agent([Reply::new().call("c", "work", arguments).finish(), Reply::new().text("done").finish()])
}

/// A tool that shows progress so often, with such pauses, and then answers.
fn steps(
    count: usize,
    pause: Duration,
) -> turnwright_react_runtime::tool::FunctionTool<
    impl Fn(ToolContext, ()) -> futures::future::BoxFuture<'static, Result<&'static str, ToolError>>
    + Send
    + Sync
    + 'static,
    (),
> {
    tool("work", "", move |ctx: ToolContext, (): ()| {
        Box::pin(async move {
            for n in 0..count {
                tokio::time::sleep(pause).await;
                ctx.progress(format!("step {n}"))?;
            }
            Ok("worked")
        }) as futures::future::BoxFuture<'static, _>
    })
}

#[tokio::test(start_paused = true)]
async fn fault_i4_r7_103_progress_keeps_a_slow_tool_alive_and_the_deadline_counts_beside_it() {
    for (tool, content, took) in [
        (steps(6, 3 * SECOND).idle_timeout(5 * SECOND), None, 18 * SECOND),
        (steps(6, 6 * SECOND).idle_timeout(5 * SECOND), Some("<status>idle</status>"), 5 * SECOND),
        (
            steps(usize::MAX, 3 * SECOND).idle_timeout(5 * SECOND).timeout(20 * SECOND),
            Some("<status>timeout</status>"),
            20 * SECOND,
        ),
    ] {
        let ran = run(&once("{}").tool(tool).build().unwrap(), "hi").await;
        let result = results(&ran).remove(0);
        assert_eq!(result.elapsed, Some(took), "{result:?}");
        match content {
            None => assert_eq!((result.content.as_str(), result.is_error()), ("worked", false)),
            Some(words) => {
                assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::ToolTimeout);
                assert!(result.content.contains(words), "{}", result.content);
            }
        }
        assert_eq!(ran.result().content, "done", "a timeout is a result for the model, and not the end");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_i4_a_tool_that_was_silent_for_too_long_is_dropped_and_fenced() {
    let left: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keep = left.clone();
    let silent = tool("work", "", move |ctx: ToolContext, (): ()| {
        *keep.lock() = Some(ctx.clone());
        std::future::pending::<Result<(), ToolError>>()
    });
    let agent = once("{}").tool(silent.idle_timeout(SECOND)).build().unwrap();
    let ran = run(&agent, "hi").await;
    let ctx = left.lock().take().unwrap();
    assert!(ctx.progress("late").is_err() && ctx.cancel().is_cancelled());
    assert_eq!(agent.late_results(), 1);
    assert!(!ran.kinds().any(|k| matches!(k, TurnEventKind::ToolProgress { .. })));
}

#[tokio::test(start_paused = true)]
async fn fault_i4_i5_of_the_idle_limits_that_are_set_the_least_counts() {
    for (agents, tools, least) in [
        (None, None, None),
        (Some(5), None, Some(5)),
        (None, Some(5), Some(5)),
        (Some(5), Some(9), Some(5)),
        (Some(9), Some(5), Some(5)),
    ] {
        let mut work = steps(1, 60 * SECOND);
        work = match tools {
            Some(secs) => work.idle_timeout(secs * SECOND),
            None => work,
        };
        let mut builder = once("{}").tool(work);
        builder = match agents {
            Some(secs) => builder.tool_idle_timeout(secs * SECOND),
            None => builder,
        };
        let agent = builder.build().unwrap();
        assert_eq!(agent.plan().tools[0].idle_timeout_ms, least.map(|s| u64::from(s) * 1000));
        let result = results(&run(&agent, "hi").await).remove(0);
        assert_eq!(result.elapsed, Some(least.unwrap_or(60) * SECOND), "{agents:?} {tools:?}");
    }
}

/// Tells when it is dropped.
struct Flag(Arc<AtomicBool>);
impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, bool)>>>);
impl AfterToolExecution for Seen {
    async fn after_tool_execution(&self, _: &TurnContext, results: &[ToolResult]) -> Result<(), HookError> {
        self.0.lock().extend(results.iter().map(|r| (r.call_id().to_string(), r.is_error())));
        Ok(())
    }
}

/// A batch of six: one that fails after 10 ms, one that runs for 100 ms, one beyond the two places, one exclusive, one
/// that asks a person, and one that policy denies.
fn six() -> Reply {
    Reply::new()
        .call("1", "fails", "{}")
        .call("2", "slow", "{}")
        .call("3", "slow", "{}")
        .call("4", "alone", "{}")
        .call("5", "ask", "{}")
        .call("6", "denied", "{}")
        .finish()
}

struct Six;
impl Gate for Six {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        Ok(match call.name.as_str() {
            "ask" => GateDecision::Ask { reason: "who knows".into(), expires_at: None },
            "denied" => GateDecision::Deny { reason: "no".into() },
            _ => GateDecision::Allow,
        })
    }
}

fn six_tools(slow_gone: &Arc<AtomicBool>, finished: &Arc<AtomicUsize>, seen: &Seen) -> AgentBuilder {
    let fails = tool("fails", "", async |_ctx, (): ()| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Err::<(), _>(ToolError::model("no such city"))
    });
    let counted = |name: &str, finished: &Arc<AtomicUsize>| {
        let (gone, finished) = (slow_gone.clone(), finished.clone());
        tool(name, "", move |_ctx, (): ()| {
            let (flag, finished) = (Flag(gone.clone()), finished.clone());
            async move {
                let _flag = flag;
                tokio::time::sleep(Duration::from_millis(100)).await;
                finished.fetch_add(1, SeqCst);
                Ok("finished")
            }
        })
    };
    agent([six(), Reply::new().text("done").finish()])
        .tool(fails.parallel())
        .tool(counted("slow", finished).parallel())
        .tool(counted("alone", finished))
        .tool(counted("ask", finished))
        .tool(counted("denied", finished))
        .parallel_tools(2)
        .gate(Six)
        .hook(hook!(seen.clone()))
}

#[tokio::test(start_paused = true)]
async fn fault_i8_a_batch_may_end_at_its_first_failure_and_every_call_has_a_result() {
    let (gone, finished, seen) = (Arc::default(), Arc::default(), Seen::default());
    let agent =
        six_tools(&gone, &finished, &seen).on_tool_failure(OnToolFailure::CancelSiblings).build().unwrap();
    let start = SystemClock.instant();
    let ran = run(&agent, "hi").await;
    assert_eq!(SystemClock.instant() - start, Duration::from_millis(10));
    assert!(gone.load(SeqCst), "the sibling that ran was dropped");
    assert_eq!(finished.load(SeqCst), 0);
    let all = results(&ran);
    let sibling = Some(Synthetic::SiblingFailed);
    assert_eq!(
        all.iter().map(|r| r.synthetic).collect::<Vec<_>>(),
        [None, sibling, sibling, sibling, sibling, Some(Synthetic::Denied)]
    );
    assert!(all[1].content.contains("may have had effects"), "{}", all[1].content);
    assert!(all[2].content.starts_with("not run"), "{}", all[2].content);
    assert_eq!(seen.0.lock().len(), 6, "the hook is told of each");
    assert_eq!((ran.result().content.as_str(), ran.result().outcome()), ("done", Outcome::Completed));
    assert_eq!(agent.plan().on_tool_failure, OnToolFailure::CancelSiblings);
}

#[tokio::test(start_paused = true)]
async fn fault_i8_by_default_siblings_finish_and_a_denial_is_no_failure() {
    let (gone, finished, seen) = (Arc::default(), Arc::default(), Seen::default());
    let agent = six_tools(&gone, &finished, &seen).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!(finished.load(SeqCst), 3, "two slow ones and the exclusive one");
    session.decide(&Decision::allow(["5".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    assert_eq!(finished.load(SeqCst), 4);
    let errors: Vec<_> = results(&ran).iter().map(ToolResult::is_error).collect();
    assert_eq!(errors, [true, false, false, false, false, true]);

    // Where the batch would end at a failure, a denial alone ends nothing.
    let only = Reply::new().call("1", "denied", "{}").call("2", "alone", "{}").finish();
    let ok = tool("alone", "", async |_ctx, (): ()| Ok("ran"));
    let agent = crate::support::agent([only, Reply::new().text("done").finish()])
        .tool(ok)
        .tool(tool("denied", "", async |_ctx, (): ()| Ok("ran")))
        .gate(Six)
        .on_tool_failure(OnToolFailure::CancelSiblings)
        .build()
        .unwrap();
    assert_eq!(results(&run(&agent, "hi").await)[1].content, "ran");
}

#[tokio::test(start_paused = true)]
async fn fault_i8_an_approved_call_that_fails_answers_the_questions_still_open() {
    let fails = tool("write", "", async |_ctx, (): ()| Err::<(), _>(ToolError::model("disk full")));
    let both = Reply::new().call("1", "write", "{}").call("2", "write", "{}").finish();
    let agent = agent([both, Reply::new().text("done").finish()])
        .tool(fails)
        .gate(AskFor::tools(["write"]))
        .on_tool_failure(OnToolFailure::CancelSiblings)
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&Decision::allow(["1".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    let all: Vec<_> = results(&ran).iter().map(|r| r.synthetic).collect();
    assert_eq!(all, [None, Some(Synthetic::SiblingFailed)]);
    assert_eq!(ran.result().content, "done");
    assert!(session.pending().is_empty() && !session.is_parked());
}

const COUNT: StateKey<u32> = StateKey::new("test.batch/count", 1);

#[tokio::test(start_paused = true)]
async fn fault_i10_whatever_order_parallel_tools_end_in_all_their_results_and_effects_are_there() {
    // Each call waits for its own time, says something, counts, and returns text and an image.
    let effects = || {
        tool("work", "", async |ctx: ToolContext, millis: std::collections::BTreeMap<String, u64>| {
            let ms = millis["ms"];
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let turn = ctx.turn();
            turn.history().append(Message::user(turn.sources().id(), format!("note {}", ctx.call_id())))?;
            turn.state().update(&COUNT, |n| n.copied().unwrap_or(0) + 1)?;
            let image = ImageRef { uri: format!("https://x/{}.png", ctx.call_id()), media_type: None };
            Ok(ToolOutput { content: format!("text {}", ctx.call_id()), images: vec![image] })
        })
        .parallel()
    };
    for order in [[10, 20, 30, 40], [40, 30, 20, 10], [20, 40, 10, 30], [5, 5, 5, 5]] {
        let batch = order.iter().enumerate().fold(Reply::new(), |reply, (n, ms)| {
            reply.call(&format!("c{n}"), "work", &format!(r#"{{"ms":{ms}}}"#))
        });
        let agent = agent([batch.finish(), Reply::new().text("done").finish()]).tool(effects()).build();
        let session = agent.unwrap().new_session();
        let handle = session.start("hi").unwrap();
        let ctx = handle.context().clone();
        let ran = read(&session, handle).await;
        let all: Vec<_> =
            results(&ran).iter().map(|r| (r.content.clone(), r.images[0].uri.clone())).collect();
        let expected: Vec<_> =
            (0..4).map(|n| (format!("text c{n}"), format!("https://x/c{n}.png"))).collect();
        assert_eq!(all, expected, "{order:?}");
        let notes = ran.messages.iter().filter(|m| m.text().starts_with("note c")).count();
        assert_eq!((notes, ctx.state().get(&COUNT).unwrap().as_deref()), (4, Some(&4)), "{order:?}");
    }
}

/// Makes a result long after everything else has seen it.
struct Inflate;
impl Around<scope::ToolCall> for Inflate {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let result = next.run(call).await?;
        let long = result.content.repeat(1000);
        Ok(result.with_content(long))
    }
}

struct Wordy;
impl Gate for Wordy {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        Ok(match call.name.as_str() {
            "wordy" => GateDecision::Deny { reason: "不".repeat(100_000) },
            "ask" => GateDecision::Ask { reason: "?".into(), expires_at: None },
            _ => GateDecision::Allow,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn fault_i11_whoever_writes_a_result_it_is_within_the_limit_in_tokens_before_it_is_history() {
    let parent = agent([]).interceptor(interceptor!(Inflate).inherited()).build().unwrap();
    let giant = tool("work", "", async |_ctx, (): ()| Ok("漢字かな交じり文".repeat(100_000)));
    let calls = Reply::new().call("1", "work", "{}").call("2", "wordy", "{}").call("3", "ask", "{}").finish();
    let model = ScriptedModel::new([calls, Reply::new().text("done").finish()]);
    let agent = agent_of(&model)
        .tool(giant)
        .tool(tool("wordy", "", async |_ctx, (): ()| Ok("")))
        .tool(tool("ask", "", async |_ctx, (): ()| Ok("")))
        .gate(Wordy)
        .inherit(&parent)
        .tool_result_tokens(1_000)
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let no = Decision::deny(["3".into()], "ann", Timestamp::UNIX_EPOCH, Some("没".repeat(100_000)));
    session.decide(&no).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    let all = results(&ran);
    assert_eq!(all.len(), 3);
    let tokens = |text: &str| usize::try_from(turnwright_llm_stream::estimate::text(text)).unwrap();
    for result in &all {
        assert!(tokens(&result.content) <= 1_000, "{}: {}", result.tool(), tokens(&result.content));
        let message = result.error.as_ref().map_or("", |e| &e.message);
        assert!(tokens(message) <= 1_000, "{}: {}", result.tool(), tokens(message));
    }
    assert!(all[0].content.starts_with("漢字") && all[0].content.ends_with("cut to fit]"));
    let newest = model.requests()[1].messages.last().unwrap().clone();
    assert!(newest.tool_results().all(|r| tokens(&r.content) <= 1_000), "the newest message too");
}

#[tokio::test(start_paused = true)]
async fn fault_i13_images_are_bounded_in_number_and_size_and_what_is_left_out_is_said() {
    let images = |uris: Vec<String>| {
        let run = move || {
            let uris = uris.clone();
            async move {
                let work = tool("work", "", move |_ctx, (): ()| {
                    let images = uris.iter().cloned().map(|uri| ImageRef { uri, media_type: None }).collect();
                    async { Ok(ToolOutput { content: "seen".into(), images }) }
                });
                let ran = crate::support::run(&once("{}").tool(work).build().unwrap(), "hi").await;
                results(&ran).remove(0)
            }
        };
        run()
    };
    let few = images((0..20).map(|n| format!("https://x/{n}.png")).collect()).await;
    assert_eq!((few.images.len(), few.content.as_str()), (20, "seen"));
    let many = images((0..30).map(|n| format!("https://x/{n}.png")).collect()).await;
    assert_eq!(many.images.len(), ToolResultLimit::MAX_IMAGES);
    assert_eq!(many.content, "seen\n\n[10 of 30 images left out: too many, or too large]");
    // Bytes where a reference belongs, and inline images beyond the room for them.
    let inline = |mib: usize| format!("data:image/png;base64,{}", "A".repeat(mib << 20));
    let large = images(vec!["A".repeat(5_000), inline(5), inline(2), inline(5), "blob:7".into()]).await;
    let kept: Vec<_> = large.images.iter().map(|i| i.uri.len()).collect();
    assert_eq!(kept, [inline(5).len(), inline(2).len(), 6]);
    assert!(large.content.contains("[2 of 5 images left out"), "{}", large.content);
    assert!(!large.content.contains("AAAA"), "binary never goes as text");
}

/// Counts what passes it.
#[derive(Clone, Default)]
struct Passes(Arc<AtomicUsize>);
impl Around<scope::ToolCall> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        self.0.fetch_add(1, SeqCst);
        next.run(call).await
    }
}

/// Runs an idempotent call twice.
struct Twice;
impl Around<scope::ToolCall> for Twice {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        match next.replayable() {
            Ok(mut attempts) => {
                let _ = attempts.run(call.clone()).await?;
                attempts.run(call).await
            }
            Err(refused) => refused.into_next().run(call).await,
        }
    }
}

#[tokio::test]
async fn fault_r4_61_every_way_to_run_a_tool_passes_the_chain() {
    let bodies = Arc::new(AtomicUsize::new(0));
    let counted = |name: &str| {
        let bodies = bodies.clone();
        tool(name, "", move |ctx: ToolContext, _: serde_json::Value| {
            let bodies = bodies.clone();
            async move {
                ctx.blocking(move |_| {
                    bodies.fetch_add(1, SeqCst);
                    Ok::<_, ToolError>("ran")
                })
                .await
            }
        })
    };
    let passes = Passes::default();
    // Plain, parallel, repeated by a layer, approved, edited while approved; blocking all of them.
    let calls = ["plain", "beside", "beside", "again", "asked", "edited"];
    let batch = calls
        .iter()
        .enumerate()
        .fold(Reply::new(), |reply, (n, name)| reply.call(&format!("c{n}"), name, r#"{"a":1}"#));
    let agent = agent([batch.finish(), Reply::new().text("done").finish()])
        .tool(counted("plain"))
        .tool(counted("beside").parallel())
        .tool(counted("again").idempotent())
        .tool(counted("asked"))
        .tool(counted("edited"))
        .gate(AskFor::tools(["asked", "edited"]))
        .interceptor(interceptor!(Twice))
        .interceptor(interceptor!(passes.clone()))
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!((bodies.load(SeqCst), passes.0.load(SeqCst)), (5, 5), "a repeated call passes twice");
    session.decide(&Decision::allow(["c4".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    session.decide(&edit("c5", r#"{"a":2}"#)).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    assert_eq!((bodies.load(SeqCst), passes.0.load(SeqCst)), (7, 7));
    assert!(results(&ran).iter().all(|r| r.content == "ran"));
}

fn edit(call: &str, arguments: &str) -> Decision {
    Decision {
        verdict: Verdict::Allow { edit: Some(arguments.into()) },
        ..Decision::allow([CallId::from(call)], "ann", Timestamp::UNIX_EPOCH)
    }
}

/// Puts other arguments in the place of the model's, and a result of its own in the place of the tool's.
struct Rewrites;
impl Around<scope::ToolCall> for Rewrites {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        if !call.arguments.contains("keep") {
            call.arguments = call.arguments.replace("model", "layer");
        }
        let inner = next.run(call.clone()).await?;
        Ok(ToolResult::ok(&call, inner.content))
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_64_a_rewritten_call_keeps_the_models_arguments_and_its_result_those_it_ran_with() {
    let batch = Reply::new()
        .call("rewritten", "work", r#"{"from":"model"}"#)
        .call("kept", "work", r#"{"from":"keep"}"#)
        .call("edited", "ask", r#"{"from":"model"}"#)
        .call("hangs", "hang", r#"{"from":"model"}"#);
    let work = |name: &str| tool(name, "", async |_ctx, args: serde_json::Value| Ok(args.to_string()));
    let hang = tool("hang", "", async |_ctx, _: serde_json::Value| {
        std::future::pending::<()>().await;
        Ok("never")
    });
    let agent = agent([batch.finish(), Reply::new().text("done").finish()])
        .tool(work("work"))
        .tool(work("ask"))
        .tool(hang.timeout(SECOND))
        .gate(AskFor::tools(["ask"]))
        .interceptor(interceptor!(Rewrites))
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&edit("edited", r#"{"from":"ann, keep"}"#)).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    let asked: Vec<_> = ran.messages[1].tool_calls().map(|c| c.arguments.clone()).collect();
    let model = r#"{"from":"model"}"#;
    assert_eq!(asked, [model, r#"{"from":"keep"}"#, model, model], "what the model said stays");
    let all = results(&ran);
    let with: Vec<_> = all.iter().map(|r| r.ran_with.as_deref()).collect();
    let layer = Some(r#"{"from":"layer"}"#);
    assert_eq!(with, [layer, None, Some(r#"{"from":"ann, keep"}"#), layer]);
    assert_eq!(all[0].content, r#"{"from":"layer"}"#);
    assert_eq!(all[3].error.as_ref(), None, "the layer made a success of the timeout, but not of what ran");
    let told = ran.kinds().find_map(|k| match k {
        TurnEventKind::ToolResult(r) if r.call_id().as_str() == "edited" => {
            Some(serde_json::to_value(k).unwrap())
        }
        _ => None,
    });
    assert_eq!(told.unwrap()["ran_with"], r#"{"from":"ann, keep"}"#);
}

/// A tool whose definition is not known at compile time.
struct ByHand(Arc<AtomicUsize>);
impl Tool for ByHand {
    fn definition(&self) -> ToolDefinition {
        tool("by_hand", "", async |_ctx, (): ()| Ok(())).definition()
    }
    async fn call(&self, _: ToolContext, _: String) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, SeqCst);
        Ok(ToolOutput::default())
    }
}

struct Nothing;
impl Gate for Nothing {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        Ok(GateDecision::Deny { reason: "nothing runs".into() })
    }
}

/// Blocks every call by failing.
struct Blocks;
impl Around<scope::ToolCall> for Blocks {
    async fn around(
        &self,
        _: &TurnContext,
        _: ToolCall,
        _: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        Err(Exit::failed(ErrorKind::Denied, "not through here"))
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h5_no_kind_of_tool_is_entered_when_the_gate_denies_it_or_a_layer_blocks_it() {
    let entered = Arc::new(AtomicUsize::new(0));
    let kinds = || {
        let (a, b, c) = (entered.clone(), entered.clone(), entered.clone());
        let plain = tool("plain", "", move |_ctx, (): ()| {
            a.fetch_add(1, SeqCst);
            async { Ok("in") }
        });
        let beside = tool("beside", "", move |_ctx, (): ()| {
            b.fetch_add(1, SeqCst);
            async { Ok("in") }
        });
        let blocking = tool("blocking", "", move |ctx: ToolContext, (): ()| {
            let c = c.clone();
            async move { ctx.blocking(move |_| Ok::<_, ToolError>(c.fetch_add(1, SeqCst).to_string())).await }
        });
        let list: [Arc<dyn DynTool>; 4] = [
            Arc::new(plain),
            Arc::new(beside.parallel().idempotent()),
            Arc::new(blocking),
            Arc::new(ByHand(entered.clone())),
        ];
        list
    };
    let names = ["plain", "beside", "blocking", "by_hand"];
    let batch = names.iter().fold(Reply::new(), |reply, name| reply.call(name, name, "{}"));
    let replies = [batch.finish(), Reply::new().text("done").finish()];
    let by_gate = agent(replies.clone()).tools(kinds()).gate(Nothing);
    let by_layer =
        agent(replies).tools(kinds()).interceptor(interceptor!(Twice)).interceptor(interceptor!(Blocks));
    for builder in [by_gate, by_layer] {
        let ran = run(&builder.build().unwrap(), "hi").await;
        let kinds: Vec<_> = results(&ran).iter().map(|r| r.error.as_ref().unwrap().kind).collect();
        assert_eq!((kinds, entered.load(SeqCst)), (vec![ErrorKind::Denied; 4], 0));
        assert_eq!(ran.result().content, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h4_an_inherited_veto_holds_for_the_agents_that_tools_run() {
    let entered = Arc::new(AtomicUsize::new(0));
    let count = entered.clone();
    let delete = tool("delete", "", move |_ctx, (): ()| {
        count.fetch_add(1, SeqCst);
        async { Ok("gone") }
    });
    /// Vetoes by name, for every agent below.
    struct NoDelete;
    impl Around<scope::ToolCall> for NoDelete {
        async fn around(
            &self,
            _: &TurnContext,
            call: ToolCall,
            next: Next<'_, scope::ToolCall>,
        ) -> Result<ToolResult, Exit> {
            match call.name.as_str() {
                "delete" => Err(Exit::failed(ErrorKind::Denied, "nothing is deleted here")),
                _ => next.run(call).await,
            }
        }
    }
    let replies =
        |name: &str| [Reply::new().call("c", name, "{}").finish(), Reply::new().text("done").finish()];
    let root = agent(replies("run_child")).interceptor(interceptor!(NoDelete).inherited()).build().unwrap();
    let below = |tools: Vec<Arc<dyn DynTool>>, name: &str| {
        agent(replies(name)).inherit(&root).tools(tools).build().unwrap()
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let runs = |child: turnwright_react_runtime::Agent| {
        let told = told.clone();
        tool("run_child", "", move |ctx: ToolContext, (): ()| {
            let (session, told) = (child.new_session(), told.clone());
            async move {
                let mut handle = session.start_under(ctx.cancel(), "go")?;
                let content = handle.result().await.unwrap().content;
                let results = session.messages();
                told.lock().extend(results.iter().flat_map(|m| m.tool_results()).map(|r| r.content.clone()));
                Ok(content)
            }
        })
    };
    let grandchild = below(vec![Arc::new(delete)], "delete");
    let child = below(vec![Arc::new(runs(grandchild))], "run_child");
    let root = agent(replies("run_child")).inherit(&root).tool(runs(child)).build().unwrap();
    let ran = run(&root, "hi").await;
    assert_eq!((ran.result().content.as_str(), entered.load(SeqCst)), ("done", 0));
    assert!(told.lock()[0].contains("nothing is deleted here"), "{:?}", told.lock());
}

#[tokio::test(start_paused = true)]
async fn fault_i8_a_question_that_a_failure_answered_is_not_asked_again_by_a_drained_turn() {
    let fails = tool("write", "", async |ctx: ToolContext, (): ()| {
        ctx.turn().request_drain();
        Err::<(), _>(ToolError::model("disk full"))
    });
    let both = Reply::new().call("1", "write", "{}").call("2", "write", "{}").finish();
    let agent = agent([both, Reply::new().text("done").finish()])
        .tool(fails)
        .gate(AskFor::tools(["write"]))
        .on_tool_failure(OnToolFailure::CancelSiblings)
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&Decision::allow(["1".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let _ = read(&session, session.resume().unwrap()).await;
    assert!(session.is_parked(), "drained");
    assert!(session.pending().is_empty(), "{:?}", session.pending());
    let late = Decision::allow(["2".into()], "ann", Timestamp::UNIX_EPOCH);
    assert!(session.decide(&late).await.is_err(), "it has its answer");
    let ran = read(&session, session.resume().unwrap()).await;
    assert_eq!(ran.result().content, "done");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_tool_is_the_least_of_three_and_asked_for_at_each_call() {
    let limit = turnwright_interceptor::builtin::ToolTimeoutLimit::new(Duration::from_secs(5));
    let slow = |name: &str| {
        tool(name, "", async |_ctx, _: serde_json::Value| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok("done".to_owned())
        })
    };
    let changed = limit.clone();
    let change = tool("change", "", move |_: ToolContext, _: serde_json::Value| {
        changed.set(Duration::from_secs(100));
        async { Ok::<_, ToolError>("changed".to_owned()) }
    });
    let call = |name: &str| Reply::new().call(name, name, "{}").finish();
    let agent = agent([call("a"), call("change"), call("b"), call("c"), Reply::new().text("ok").finish()])
        .tool(slow("a"))
        .tool(change)
        .tool(slow("b"))
        .tool(slow("c").timeout(Duration::from_secs(7)))
        .tool_timeout(Duration::from_secs(50))
        .tool_timeout_limit(limit)
        .build()
        .unwrap();
    let planned = |name: &str| agent.plan().tools.iter().find(|t| t.name == name).unwrap().timeout_ms;
    assert_eq!((planned("a"), planned("c")), (5000, 5000), "the plan says what counts now");
    let ran = run(&agent, "hi").await;
    assert_eq!((planned("a"), planned("c")), (50_000, 7000));
    let took: Vec<_> =
        ran.messages.iter().flat_map(|m| m.tool_results()).map(|r| r.content.clone()).collect();
    for (n, seconds) in [(0, "5"), (2, "50"), (3, "7")] {
        assert!(took[n].contains(seconds), "{}", took[n]);
    }
}
