//! Calls that are entered again: with decisions about what they asked, and after they stopped with their turn.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use turnwright_core::{
    ApprovalRequest, CallDigest, CallId, Decision, ErrorKind, LegOutcome, Outcome, Timestamp, ToolCall, Wants,
};
use turnwright_react_runtime::{
    Session, StartError, TurnEventKind,
    tool::{Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::Reply;

use crate::support::{agent, read, run};

fn calls(names: &[&str]) -> [Reply; 2] {
    let calls = names.iter().enumerate();
    let calls = calls.fold(Reply::new(), |reply, (n, name)| reply.call(&format!("c{n}"), name, "{}"));
    [calls.finish(), Reply::new().text("done").finish()]
}

fn request(id: &str) -> ApprovalRequest {
    let call = ToolCall::new(id, "write", "{}");
    let (digest, source, reason) = (CallDigest::of("local", &call), "local".into(), "writes".into());
    let (agent, wants) = (Some("other".into()), Wants::Approval);
    ApprovalRequest { call, source, agent, digest, wants, reason, expires_at: None }
}

/// Asks about these when it was told nothing, and says what it was told.
fn asks(ids: &'static [&'static str]) -> impl Tool {
    tool("asks", "", move |ctx: ToolContext, (): ()| async move {
        match ctx.decisions() {
            [] => Err(ToolError::asks(ids.iter().copied().map(request).collect())),
            told => Ok(told.iter().map(|d| format!("{}:{} ", d.calls[0], d.actor)).collect::<String>()),
        }
    })
}

fn look() -> impl Tool {
    tool("look", "", async |_ctx, (): ()| Ok("seen"))
}

fn pending(session: &Session) -> Vec<CallId> {
    session.pending().into_iter().map(|request| request.call.id).collect()
}

#[tokio::test(start_paused = true)]
async fn what_others_ask_is_asked_at_the_turn_and_the_tool_is_entered_again_with_the_answers() {
    let session =
        agent(calls(&["asks", "look"])).tool(asks(&["x", "y"])).tool(look()).build().unwrap().new_session();
    let handle = session.start("go").unwrap();
    let first = read(&session, handle).await;
    let asked = first.kinds().filter_map(|kind| match kind {
        TurnEventKind::ApprovalRequested(request) => Some(request.call.id.to_string()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), ["c0/x", "c0/y"]);
    assert_eq!(pending(&session), ["c0/x".into(), "c0/y".into()]);
    assert!(first.kinds().any(|k| matches!(k, TurnEventKind::ToolResult(r) if r.content == "seen")));
    assert_eq!(session.resume().unwrap_err(), StartError::Undecided(2));
    let at = Timestamp::UNIX_EPOCH;
    let unknown = Decision::allow(["x".into()], "ann", at);
    assert!(session.decide(&unknown).await.is_err(), "it has another id here");
    session.decide(&Decision::deny(["c0/y".into()], "bob", at, None)).await.unwrap();
    let handle = session.resume().unwrap();
    let second = read(&session, handle).await;
    let resolved = second.kinds().find_map(|kind| match kind {
        TurnEventKind::ApprovalResolved { id, allowed, .. } => Some((id.to_string(), *allowed)),
        _ => None,
    });
    assert_eq!(resolved, Some(("c0/y".into(), false)));
    let results: Vec<_> =
        second.messages.iter().flat_map(|m| m.tool_results()).map(|r| &*r.content).collect();
    assert_eq!(
        results,
        ["y:bob ", "seen"],
        "the denial is the tool's to pass on, and its call is not denied"
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_expired_lets_the_tool_find_out() {
    let expired = tool("asks", "", async |ctx: ToolContext, (): ()| {
        let again = ctx.turn().leg() > 1;
        let soon = ctx.turn().started_at() + std::time::Duration::from_secs(5);
        match again {
            false => Err(ToolError::asks(vec![ApprovalRequest { expires_at: Some(soon), ..request("x") }])),
            true => Ok(format!("{} decisions", ctx.decisions().len())),
        }
    });
    let session = agent(calls(&["asks"])).tool(expired).build().unwrap().new_session();
    session.start("go").unwrap().outcome().await;
    assert!(session.resume().is_err());
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    session.resume().unwrap().result().await.unwrap();
    assert_eq!(session.messages()[2].tool_results().next().unwrap().content, "0 decisions");
}

#[tokio::test(start_paused = true)]
async fn nothing_asked_and_nothing_to_wait_in_are_errors() {
    let ran = run(&agent(calls(&["asks"])).tool(asks(&[])).build().unwrap(), "go").await;
    let result = ran.messages[2].tool_results().next().unwrap();
    assert_eq!(result.content, "waits for decisions, and names none");
    let outer =
        tool("outer", "", async |ctx: ToolContext, (): ()| Ok(ctx.call_tool("asks", "{}").await?.content));
    let ran = run(&agent(calls(&["outer"])).tool(outer).tool(asks(&["x"])).build().unwrap(), "go").await;
    assert_eq!(ran.result().content, "done", "an inner call cannot wait, and its turn does not");
    let stops = tool("stops", "", async |_ctx, (): ()| Err::<String, _>(ToolError::stopped()));
    let ran = run(&agent(calls(&["stops"])).tool(stops).build().unwrap(), "go").await;
    let result = ran.messages[2].tool_results().next().unwrap();
    assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::ToolFailed, "nobody asked the turn to stop");
}

/// Stops in its first leg, once the turn was asked to.
fn stops(entered: &Arc<AtomicUsize>) -> impl Tool {
    let entered = entered.clone();
    tool("stops", "", move |ctx: ToolContext, (): ()| {
        entered.fetch_add(1, SeqCst);
        async move {
            if ctx.turn().leg() == 1 {
                ctx.turn().request_drain();
                return Err(ToolError::stopped());
            }
            Ok("all of it")
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stops_with_its_turn_is_entered_again_when_it_goes_on() {
    let entered = Arc::new(AtomicUsize::new(0));
    let agent = agent(calls(&["look", "stops"])).tool(look()).tool(stops(&entered)).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("go").unwrap();
    let first = read(&session, handle).await;
    assert!(first.result.is_none() && session.is_parked());
    assert_eq!(session.snapshot().unwrap().batch.unwrap().calls[1].result, None);
    let handle = session.resume().unwrap();
    let second = read(&session, handle).await;
    let results: Vec<_> =
        second.messages.iter().flat_map(|m| m.tool_results()).map(|r| &*r.content).collect();
    assert_eq!((results, entered.load(SeqCst)), (vec!["seen", "all of it"], 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stops_beside_one_that_asks_is_entered_again_with_the_answer() {
    let entered = Arc::new(AtomicUsize::new(0));
    let agent = agent(calls(&["asks", "stops"])).tool(asks(&["x"])).tool(stops(&entered)).build().unwrap();
    let session = agent.new_session();
    let outcome = session.start("go").unwrap().outcome().await;
    assert!(matches!(outcome, LegOutcome::Suspended { .. }), "{outcome:?}");
    session.decide(&Decision::allow(["c0/x".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let outcome = session.resume().unwrap().outcome().await;
    assert_eq!((outcome.outcome(), entered.load(SeqCst)), (Outcome::Completed, 2));
}
