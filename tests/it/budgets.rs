//! Budgets of turns and of whoever starts them: each breach is one outcome with a legal history.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use turnwright_core::{Budget, BudgetLimits, CallId, Decision, ErrorKind, Outcome, StopReason, Timestamp};
use turnwright_llm_stream::prices::Prices;
use turnwright_react_runtime::{
    AgentBuilder, Parent,
    gate::AskFor,
    store::MemoryStore,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{Ran, agent, agent_of, read, run};

fn none() -> BudgetLimits {
    BudgetLimits::default()
}

fn with_tool(agent: AgentBuilder) -> AgentBuilder {
    agent.tool(tool("look", "", async |_ctx, args: Value| Ok(args.to_string())))
}

fn calls(n: usize) -> Reply {
    (0..n)
        .fold(Reply::new(), |reply, i| reply.call(format!("c{i}").as_str(), "look", "{}"))
        .usage(60, 40)
        .finish()
}

fn is_breach(ran: &Ran, words: &str) {
    let result = ran.result();
    assert_eq!((result.stop_reason, result.outcome()), (StopReason::Budget, Outcome::LimitReached));
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::LimitReached);
    assert!(error.message.contains(words), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn fault_j8_each_limit_ends_the_turn_where_its_history_is_legal() {
    let script = || [calls(2), calls(2), calls(2), Reply::new().text("ok").finish()];
    let limited = |limits| with_tool(agent(script())).budget(limits).build().unwrap();
    let ran = run(&limited(BudgetLimits { model_calls: Some(2), ..none() }), "hi").await;
    is_breach(&ran, r#"the budget "test" of 2 model calls is used up"#);
    let ran = run(&limited(BudgetLimits { tokens: Some(150), ..none() }), "hi").await;
    is_breach(&ran, "150 tokens");
    assert_eq!(ran.result().usage.total_tokens(), Some(200), "the call under way may exceed it");
    let ran = run(&limited(BudgetLimits { tool_calls: Some(3), ..none() }), "hi").await;
    is_breach(&ran, "3 tool calls");
    let refused: Vec<_> =
        ran.messages.iter().flat_map(|m| m.tool_results()).filter(|r| r.is_error()).collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].content.contains("not run: the budget"), "{}", refused[0].content);
    let ran = run(
        &limited(BudgetLimits { tool_calls: Some(6), model_calls: Some(4), tokens: Some(301), ..none() }),
        "hi",
    )
    .await;
    assert_eq!(ran.result().content, "ok", "what is enough ends nothing");
}

#[tokio::test(start_paused = true)]
async fn money_needs_a_price_and_is_counted_by_it() {
    let prices = r#"{ "providers": { "scripted": { "models": { "*": { "input": 1.0, "output": 2.0 } } } } }"#;
    let prices = Prices::from_json(prices).unwrap();
    // 60 + 2 × 40 millionths a call.
    let limits = BudgetLimits { cost_micros: Some(280), ..none() };
    let agent =
        with_tool(agent([calls(1), calls(1), calls(1)])).budget(limits).prices(prices).build().unwrap();
    is_breach(&run(&agent, "hi").await, "$0.0003");
    let model = ScriptedModel::new([calls(1)]);
    let agent = with_tool(agent_of(&model)).budget(limits).prices(Prices::default()).build().unwrap();
    let ran = run(&agent, "hi").await;
    let error = ran.result().error.as_ref().unwrap();
    assert_eq!((error.kind, model.calls()), (ErrorKind::Configuration, 0));
    assert!(error.message.contains("costs is not known"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn fault_j9_time_ends_what_runs_and_waiting_for_a_person_costs_none() {
    let limits = BudgetLimits { time: Some(Duration::from_secs(10)), ..none() };
    let slow = Reply::new().text("a ").wait(Duration::from_secs(60)).text("b").finish();
    let ran = run(&agent([slow]).budget(limits).build().unwrap(), "hi").await;
    is_breach(&ran, "10.000 s");
    assert_eq!(ran.result().content, "a ");
    let store = Arc::new(MemoryStore::new());
    let wait = || {
        tool("wait", "", async |_ctx, _: Value| {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok("waited".to_owned())
        })
    };
    let ask = Reply::new().call("a", "wait", "{}").finish();
    let build = |replies: Vec<Reply>| {
        agent(replies)
            .budget(limits)
            .store(store.clone())
            .tool(wait())
            .gate(AskFor::tools(["wait"]))
            .build()
            .unwrap()
    };
    let first = build(vec![ask.clone(), ask]);
    let session = first.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(3_600)).await;
        let calls: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
        session.decide(&Decision::allow(calls, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
        let ran = read(&session, session.resume().unwrap()).await;
        if ran.result.is_some() {
            return is_breach(&ran, "10.000 s");
        }
        let used = session.snapshot().unwrap().budget_used;
        assert!(used.time >= Duration::from_secs(6) && used.time < Duration::from_secs(7), "{used:?}");
    }
    panic!("the second wait was over the budget");
}

#[tokio::test(start_paused = true)]
async fn fault_m5_a_child_uses_its_parents_budget_and_cannot_exceed_it() {
    let user = Budget::new("user", BudgetLimits { tool_calls: Some(4), ..none() });
    let child = with_tool(agent([calls(2), calls(2), calls(2), Reply::new().text("never").finish()]))
        .budget(BudgetLimits { tool_calls: Some(100), ..none() })
        .build()
        .unwrap();
    let delegate = tool("delegate", "", move |ctx: ToolContext, _: Value| {
        let child = child.clone();
        async move {
            let mut handle = child.run_under(ctx.as_parent(), "go")?;
            let result = handle.result().await.unwrap();
            Ok::<_, ToolError>(result.error.map_or(result.content, |e| e.message))
        }
    });
    let parent = agent([Reply::new().call("d", "delegate", "{}").finish(), Reply::new().text("ok").finish()])
        .tool(delegate)
        .within(user.clone())
        .build()
        .unwrap();
    let ran = run(&parent, "hi").await;
    let told: Vec<_> =
        ran.messages.iter().flat_map(|m| m.tool_results().map(|r| r.content.clone())).collect();
    assert_eq!(told, [r#"the budget "user" of 4 tool calls is used up"#], "whose it is");
    assert_eq!(ran.result().content, "ok", "the breach of the child is no breach of the parent's turn");
    assert_eq!(user.used().tool_calls, 4, "one of the parent, three of the child");
    // Another turn under the same budget gets nothing more.
    let late = with_tool(agent([calls(1)])).build().unwrap();
    let session = late.new_session();
    let ran = read(&session, session.start_under(Parent::from(user), "hi").unwrap()).await;
    is_breach(&ran, "4 tool calls");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_resumed_elsewhere_goes_on_counting() {
    let store = Arc::new(MemoryStore::new());
    let build = |replies: Vec<Reply>| {
        let limits = BudgetLimits { tokens: Some(150), ..none() };
        with_tool(agent(replies))
            .budget(limits)
            .store(store.clone())
            .gate(AskFor::tools(["look"]))
            .build()
            .unwrap()
    };
    let first = build(vec![calls(1)]);
    let session = first.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let second = build(vec![calls(1), Reply::new().text("never").finish()]);
    let same = second.open_session(session.id().clone()).await.unwrap();
    for _ in 0..2 {
        let ids: Vec<CallId> = same.pending().iter().map(|r| r.call.id.clone()).collect();
        same.decide(&Decision::allow(ids, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
        let ran = read(&same, same.resume().unwrap()).await;
        if ran.result.is_some() {
            return is_breach(&ran, "150 tokens");
        }
        assert_eq!(same.snapshot().unwrap().budget_used.tokens, 200);
    }
    panic!("it was never used up");
}

#[tokio::test(start_paused = true)]
async fn turns_at_once_share_a_limit_of_time() {
    let wait = tool("wait", "", async |_ctx, _: serde_json::Value| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok("waited")
    });
    let user = Budget::new("user", BudgetLimits { time: Some(Duration::from_secs(12)), ..none() });
    let calls = |_| Reply::new().call("a", "wait", "{}").finish();
    let agent = agent((0..6).map(calls)).tool(wait).within(user.clone()).build().unwrap();
    let mut turns: Vec<_> = (0..6).map(|_| agent.run("go").unwrap()).collect();
    for turn in &mut turns {
        assert_eq!(turn.outcome().await.outcome(), Outcome::LimitReached);
    }
    let used = user.used().time;
    assert!(used >= Duration::from_secs(12) && used <= Duration::from_secs(15), "{used:?}");
}
