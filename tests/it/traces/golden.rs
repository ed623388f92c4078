//! One scripted turn, compared whole: two iterations, two tools beside each other, one of which waits for a decision and is
//! resumed in another process, a hand-over to another agent, and a cancel while that one answers.

use std::{sync::Arc, time::Duration};

use turnwright_core::{CancelCause, Decision, LegOutcome, SessionId, Sources, Timestamp};
use turnwright_llm_stream::{Finish, FinishReason, LlmEvent};
use turnwright_react_runtime::{
    Agent, AgentBuilder,
    gate::AskFor,
    store::MemoryStore,
    tool::{Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};
use turnwright_trace_spans::{Tier, Traces};

use super::spans::{Spans, drawn};

const MS: Duration = Duration::from_millis(1);

fn slow(name: &str, takes: Duration) -> impl Tool + use<> {
    let answers = tool(name, "", move |_: ToolContext, (): ()| async move {
        tokio::time::sleep(takes).await;
        Ok::<_, ToolError>("done".to_owned())
    });
    answers.parallel()
}

fn traced(agent: AgentBuilder, traces: &Traces) -> AgentBuilder {
    agent.hooks(traces.hooks()).instrument(traces.instrument())
}

fn asks(calls: &[(&str, &str)]) -> Reply {
    let reply = Reply::new().wait(10 * MS).text("Let me see.").wait(10 * MS);
    let reply = calls.iter().fold(reply, |reply, (id, name)| reply.call(id, name, "{}"));
    let finish = Finish {
        reason: FinishReason::ToolCalls,
        raw_reason: None,
        model: Some("scripted-1".into()),
        response_id: Some("r".into()),
    };
    reply.usage(20, 5).event(LlmEvent::Finish(Box::new(finish)))
}

/// What each process has: the planner, which may hand over to billing.
fn planner(
    spans: &Spans,
    tier: Tier,
    model: &ScriptedModel,
    sources: &Sources,
    store: &Arc<MemoryStore>,
) -> Agent {
    let traces = spans.traces(tier);
    let partly = Reply::new().wait(10 * MS).text("Your inv").usage(7, 2).silence();
    let billing = Agent::builder("billing", ScriptedModel::new([partly]).handle());
    let billing = traced(billing, &traces).sources(sources.clone()).build().unwrap();
    let transfer = tool("transfer_to_billing", "", move |ctx: ToolContext, (): ()| {
        let billing = billing.clone();
        async move {
            let mut turn = billing.run_under(ctx.as_parent(), "an invoice")?;
            Ok::<_, ToolError>(turn.result().await.map(|result| result.content).unwrap_or_default())
        }
    });
    let planner = Agent::builder("planner", model.handle()).sources(sources.clone()).store(store.clone());
    traced(planner, &traces)
        .instructions("You plan.")
        .tool(slow("get_weather", 30 * MS))
        .tool(slow("delete_backup", 40 * MS))
        .tool(transfer)
        .gate(AskFor::tools(["delete_backup"]))
        .build()
        .unwrap()
}

/// The turn; gives what both processes exported.
async fn run(tier: Tier) -> (Spans, Spans) {
    let (sources, store) = (virtual_sources(1), Arc::new(MemoryStore::new()));
    let id = SessionId::new("s").unwrap();
    let (a, b) = (Spans::new(), Spans::new());
    let model = ScriptedModel::new([
        asks(&[("a", "get_weather"), ("b", "delete_backup")]),
        asks(&[("c", "transfer_to_billing")]),
    ]);
    {
        let session = planner(&a, tier, &model, &sources, &store).open_session(id.clone()).await.unwrap();
        let outcome = session.start("plan").unwrap().outcome().await;
        assert!(matches!(outcome, LegOutcome::Suspended { .. }));
    }
    tokio::time::sleep(1000 * MS).await;
    let session = planner(&b, tier, &model, &sources, &store).open_session(id).await.unwrap();
    session.decide(&Decision::allow(["b".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let mut turn = session.resume().unwrap();
    tokio::time::sleep(500 * MS).await;
    turn.cancel(CancelCause::requested("bob").reason("enough"));
    turn.outcome().await;
    a.check(&[]).unwrap();
    b.check(&a.ended()).unwrap();
    (a, b)
}

fn compare(page: &str, tree: &str) {
    let kept = format!("{}/it/traces/{page}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("TURNWRIGHT_UPDATE").is_some() {
        std::fs::write(&kept, tree).unwrap();
    }
    let expected = std::fs::read_to_string(&kept).unwrap();
    assert!(expected == tree, "{tree}");
}

#[tokio::test(start_paused = true)]
async fn the_turn_is_traced_as_the_conventions_want_it() {
    let (a, b) = run(Tier::Standard).await;
    compare("golden.txt", &drawn(&[a.ended(), b.ended()].concat()));
}

#[tokio::test(start_paused = true)]
async fn the_full_tier_adds_and_changes_nothing_else_and_the_minimal_one_has_legs_only() {
    let (a, b) = run(Tier::Full).await;
    let full = [a.ended(), b.ended()].concat();
    let (is, is_not): (Vec<_>, Vec<_>) =
        full.into_iter().partition(|span| span.name.starts_with("iteration "));
    let names: Vec<_> = is.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["iteration 1", "iteration 1", "iteration 2"]);
    let (a, b) = run(Tier::Standard).await;
    let shape = |spans: &[_]| drawn(spans).lines().filter(|line| !line.contains("! ")).collect::<String>();
    assert_eq!(shape(&is_not), shape(&[a.ended(), b.ended()].concat()));
    let (a, b) = run(Tier::Minimal).await;
    let names: Vec<_> = [a.ended(), b.ended()].concat().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["invoke_agent planner", "invoke_agent billing", "invoke_agent planner"]);
}
