//! Calls that a running call makes: what holds for the model's calls holds for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use turnwright_control::ControlError;
use turnwright_core::{BudgetLimits, CallId, CancelCause, StopReason, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_react_runtime::{
    AgentBuilder,
    gate::AskFor,
    tool::{Fenced, Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::Reply;

use crate::support::{Ran, agent, run};

const SECOND: Duration = Duration::from_secs(1);

/// A tool that calls the tool of each line, with the arguments behind its name, and returns what they came to.
fn script(lines: &'static str) -> impl Tool {
    tool("script", "", move |ctx: ToolContext, (): ()| async move {
        let mut out = Vec::new();
        for line in lines.lines() {
            let (name, arguments) = line.split_once(' ').unwrap_or((line, "{}"));
            let result = ctx.call_tool(name, arguments).await?;
            let kind = result.error.as_ref().map(|error| error.kind);
            out.push(format!("{} {}: {kind:?} {}", result.call_id(), result.tool(), result.content));
        }
        Ok(out.join("\n"))
    })
}

fn with_script(lines: &'static str) -> AgentBuilder {
    let model = [Reply::new().call("c", "script", "{}").finish(), Reply::new().text("done").finish()];
    agent(model).tool(script(lines))
}

/// A tool that counts.
fn counted(count: &Arc<AtomicUsize>) -> impl Tool {
    let count = count.clone();
    tool("count", "", move |ctx: ToolContext, (): ()| {
        let n = count.fetch_add(1, SeqCst) + 1;
        async move { Ok(format!("{n} as {}", ctx.idempotency_key().rsplit_once('/').map_or("", |(_, id)| id))) }
    })
}

fn said(ran: &Ran) -> String {
    let result = ran.messages.iter().flat_map(|m| m.tool_results()).next();
    result.map(|result| result.content.clone()).unwrap_or_default()
}

#[tokio::test]
async fn an_inner_call_runs_and_its_result_goes_to_who_called() {
    let count = Arc::default();
    let ran = run(&with_script("count\ncount").tool(counted(&count)).build().unwrap(), "hi").await;
    assert_eq!(said(&ran), "c/1 count: None 1 as 1\nc/2 count: None 2 as 2");
    let results = ran.messages.iter().flat_map(|m| m.tool_results()).count();
    assert_eq!((results, ran.result().content.as_str()), (1, "done"), "the history has the outer call only");
}

#[tokio::test]
async fn an_unknown_tool_and_broken_arguments_are_results_of_inner_calls() {
    let count: Arc<AtomicUsize> = Arc::default();
    let builder = with_script("nothing\ncount {\ncount []").tool(counted(&count));
    let said = said(&run(&builder.build().unwrap(), "hi").await);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("c/1 nothing: Some(UnknownTool)") && lines[0].contains("count"), "{said}");
    assert!(lines[1].starts_with("c/2 count: Some(MalformedToolCall)"), "{said}");
    assert!(lines[2].starts_with("c/3 count: Some(InvalidArguments)"), "{said}");
    assert_eq!(count.load(SeqCst), 0);
}

#[tokio::test]
async fn what_the_gate_would_ask_about_does_not_run_inside_of_another_call() {
    let count: Arc<AtomicUsize> = Arc::default();
    let builder = with_script("count").tool(counted(&count)).gate(AskFor::tools(["count"]));
    let ran = run(&builder.build().unwrap(), "hi").await;
    assert!(
        said(&ran).contains("Some(ApprovalRequired)") && said(&ran).contains("make it a call of its own")
    );
    assert_eq!((count.load(SeqCst), ran.result().content.as_str()), (0, "done"), "and nobody is asked");
}

/// Puts other arguments into each inner call.
struct Rewrite(&'static str);

impl Around<scope::ToolCall> for Rewrite {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        if call.name == "count" {
            call.arguments = self.0.into();
        }
        next.run(call).await
    }
}

struct AskAboutLists;

impl turnwright_react_runtime::gate::Gate for AskAboutLists {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &turnwright_core::ToolDefinition,
    ) -> Result<turnwright_react_runtime::gate::GateDecision, Exit> {
        use turnwright_react_runtime::gate::GateDecision;
        Ok(match &*call.arguments {
            "[]" => GateDecision::Ask { reason: "a list".into(), expires_at: None },
            _ => GateDecision::Allow,
        })
    }
}

#[tokio::test]
async fn a_layer_cannot_make_an_inner_call_into_one_that_the_gate_asks_about() {
    let count: Arc<AtomicUsize> = Arc::default();
    let builder = with_script("count")
        .tool(counted(&count))
        .gate(AskAboutLists)
        .interceptor(interceptor!(Rewrite("[]")));
    let ran = run(&builder.build().unwrap(), "hi").await;
    assert!(said(&ran).contains("Some(ApprovalRequired)"), "{}", said(&ran));
    assert_eq!(count.load(SeqCst), 0);
}

#[tokio::test]
async fn layers_see_inner_calls_and_results_are_limited() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    struct See(Arc<Mutex<Vec<String>>>);
    impl Around<scope::ToolCall> for See {
        async fn around(
            &self,
            _: &TurnContext,
            call: ToolCall,
            next: Next<'_, scope::ToolCall>,
        ) -> Result<ToolResult, Exit> {
            self.0.lock().push(call.id.to_string());
            next.run(call).await
        }
    }
    let long = tool("long", "", async |_, (): ()| Ok("x".repeat(200_000)));
    let ran = run(
        &with_script("long").tool(long).interceptor(interceptor!(See(seen.clone()))).build().unwrap(),
        "hi",
    )
    .await;
    assert_eq!(*seen.lock(), ["c", "c/1"]);
    assert!(said(&ran).len() < 60_000);
}

#[tokio::test]
async fn inner_calls_count_against_the_budget() {
    let count: Arc<AtomicUsize> = Arc::default();
    let limits = BudgetLimits { tool_calls: Some(2), ..BudgetLimits::default() };
    let builder = with_script("count\ncount").tool(counted(&count)).budget(limits);
    let ran = run(&builder.build().unwrap(), "hi").await;
    assert!(said(&ran).contains("c/2 count: Some(NotRun)"), "{}", said(&ran));
    assert_eq!(count.load(SeqCst), 1);
    assert_eq!(ran.result().stop_reason, StopReason::Budget, "{:?}", ran.result());
}

#[tokio::test(start_paused = true)]
async fn an_inner_call_has_its_own_time_limit_and_ends_with_the_outer_one() {
    let ended = Arc::new(AtomicUsize::new(0));
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let slow = |ended: &Arc<AtomicUsize>| {
        let ended = ended.clone();
        tool("slow", "", move |_: ToolContext, (): ()| {
            let ended = Ended(ended.clone());
            async move {
                let _ended = ended;
                std::future::pending::<Result<(), ToolError>>().await
            }
        })
    };
    let model = || [Reply::new().call("c", "script", "{}").finish(), Reply::new().text("done").finish()];
    let inner = agent(model()).tool(script("slow")).tool(slow(&ended).timeout(SECOND)).build().unwrap();
    let ran = run(&inner, "hi").await;
    assert!(said(&ran).starts_with("c/1 slow: Some(ToolTimeout)"), "{}", said(&ran));
    assert_eq!(ended.load(SeqCst), 1);

    let outer =
        tool("script", "", async |ctx: ToolContext, (): ()| Ok(ctx.call_tool("slow", "{}").await?.content));
    let outer = agent(model()).tool(outer.timeout(SECOND)).tool(slow(&ended)).build().unwrap();
    let ran = run(&outer, "hi").await;
    assert!(said(&ran).contains("<tool_timeout>"), "{}", said(&ran));
    assert_eq!(ended.load(SeqCst), 2, "dropped with the outer call");
}

#[tokio::test(start_paused = true)]
async fn an_inner_call_that_nobody_waits_for_any_more_is_dropped() {
    let slow = tool("slow", "", async |_: ToolContext, (): ()| {
        tokio::time::sleep(100 * SECOND).await;
        Ok("slept")
    });
    let script = tool("script", "", async |ctx: ToolContext, (): ()| {
        let first = tokio::time::timeout(SECOND, ctx.call_tool("slow", "{}")).await;
        assert!(first.is_err());
        let count = ctx.call_tool("count", "{}").await?;
        Ok(count.content)
    });
    let model = [Reply::new().call("c", "script", "{}").finish(), Reply::new().text("done").finish()];
    let builder = agent(model).tool(script).tool(slow).tool(counted(&Arc::default()));
    let agent = builder.build().unwrap();
    let ran = tokio::time::timeout(10 * SECOND, run(&agent, "hi")).await.expect("nobody waits for it");
    assert_eq!(said(&ran), "1 as 2");
}

#[tokio::test]
async fn a_control_error_of_an_inner_call_ends_the_turn_and_drops_the_outer_call() {
    let stop = tool("stop", "", async |_: ToolContext, (): ()| {
        let cause = CancelCause::requested("somebody");
        Err::<(), _>(ControlError::from(cause).into())
    });
    let ran = run(&with_script("stop").tool(stop).build().unwrap(), "hi").await;
    assert_eq!(ran.result().stop_reason, StopReason::Cancelled, "{:?}", ran.result());
}

#[tokio::test]
async fn a_tool_that_waits_for_somebody_is_refused_inside_of_another() {
    let asks = tool("asks", "", async |_: ToolContext, (): ()| {
        Err::<(), _>(ToolError::ask("Really?", ["yes", "no"]))
    });
    let ran = run(&with_script("asks").tool(asks).build().unwrap(), "hi").await;
    assert!(said(&ran).starts_with("c/1 asks: Some(ApprovalRequired)"), "{}", said(&ran));
    assert_eq!(ran.result().content, "done");
}

#[tokio::test]
async fn calls_stand_four_deep_in_each_other_and_then_say_so() {
    let deep = tool("script", "", async |ctx: ToolContext, (): ()| {
        Ok(format!("{} <- {}", ctx.call_id(), ctx.call_tool("script", "{}").await?.content))
    });
    let model = [Reply::new().call("c", "script", "{}").finish(), Reply::new().text("done").finish()];
    let ran = run(&agent(model).tool(deep).build().unwrap(), "hi").await;
    let said = said(&ran);
    assert!(said.starts_with("c <- c/1 <- c/1/1 <- ") && said.contains("calls stand 4 deep"), "{said}");
}

#[tokio::test]
async fn an_exclusive_tool_is_not_called_by_one_that_may_run_beside_others() {
    let script = tool("script", "", async |ctx: ToolContext, (): ()| {
        let result = ctx.call_tool("count", "{}").await?;
        Ok(format!("{:?} {}", result.error.map(|e| e.kind), result.content))
    });
    let model = [Reply::new().call("c", "script", "{}").finish(), Reply::new().text("done").finish()];
    let count: Arc<AtomicUsize> = Arc::default();
    let ran = run(&agent(model).tool(script.parallel()).tool(counted(&count)).build().unwrap(), "hi").await;
    assert!(said(&ran).starts_with("Some(NotRun)"), "{}", said(&ran));
    assert_eq!(count.load(SeqCst), 0);
}

#[tokio::test]
async fn progress_of_an_inner_call_is_shown_as_the_outer_ones_and_a_late_call_is_fenced() {
    let left: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keep = left.clone();
    let loud = tool("loud", "", move |ctx: ToolContext, (): ()| {
        *keep.lock() = Some(ctx.clone());
        async move {
            ctx.progress("here")?;
            Ok(())
        }
    });
    let ran = run(&with_script("loud").tool(loud).build().unwrap(), "hi").await;
    let shown: Vec<CallId> = ran
        .kinds()
        .filter_map(|kind| match kind {
            turnwright_react_runtime::TurnEventKind::ToolProgress { id, .. } => Some(id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, [CallId::from("c")]);
    let late = left.lock().take().unwrap();
    assert_eq!(late.call_tool("loud", "{}").await.map(drop), Err(Fenced(CallId::from("c/1"))));
}
