//! Suspending for a decision, and going on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use turnwright_core::{
    CallId, CancelCause, Decision, DecisionError, ErrorKind, Outcome, StopReason, Timestamp, ToolCall,
    ToolDefinition, ToolResult, TurnContext, Verdict,
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_react_runtime::{
    AgentBuilder, DecideError, StartError, TurnEventKind,
    gate::{AskFor, Gate, GateDecision},
    store::{MemoryStore, SessionStore},
    tool::tool,
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read};

type Ran = Arc<Mutex<Vec<String>>>;

fn write(ran: &Ran) -> impl turnwright_react_runtime::tool::Tool + use<> {
    let ran = ran.clone();
    tool("write", "Writes", move |_ctx, arguments: serde_json::Value| {
        let ran = ran.clone();
        async move {
            ran.lock().push(arguments.to_string());
            Ok("written")
        }
    })
}

fn batch() -> Reply {
    Reply::new()
        .call("a", "write", r#"{"n":1}"#)
        .call("b", "write", r#"{"n":2}"#)
        .call("c", "look", "{}")
        .finish()
}

fn writes(ran: &Ran) -> AgentBuilder {
    agent([batch(), Reply::new().text("ok").finish()])
        .tool(write(ran))
        .tool(tool("look", "Looks", async |_ctx, (): ()| Ok("looked")))
        .gate(AskFor::tools(["write"]))
}

fn allow(ids: &[&str]) -> Decision {
    Decision::allow(ids.iter().map(|id| CallId::from(*id)), "ann", Timestamp::UNIX_EPOCH)
}
fn deny(id: &str) -> Decision {
    Decision::deny([id.into()], "ann", Timestamp::UNIX_EPOCH, Some("not now".into()))
}

#[tokio::test(start_paused = true)]
async fn fault_c3_c6_r5_74_ungated_siblings_run_first_and_each_approved_call_runs_once() {
    let ran = Ran::default();
    let agent = writes(&ran).build().unwrap();
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    assert!(first.result.is_none() && ran.lock().is_empty());
    let asked: Vec<_> = first
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::ApprovalRequested(r) => {
                Some((r.call.id.to_string(), r.call.name.clone(), r.call.arguments.clone(), r.reason.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        asked[0],
        ("a".into(), "write".into(), r#"{"n":1}"#.into(), "\"write\" needs approval".into())
    );
    let looked = first.kinds().any(|k| matches!(k, TurnEventKind::ToolResult(r) if r.tool() == "look"));
    assert!(looked, "the ungated sibling ran before the leg suspended");
    // In two messages, in whatever order.
    session.decide(&allow(&["b"])).await.unwrap();
    assert_eq!(session.pending().len(), 1);
    assert!(session.decide(&allow(&["a"])).await.unwrap().is_empty());
    let second = read(&session, session.resume().unwrap()).await;
    assert_eq!(second.result().content, "ok");
    assert_eq!(*ran.lock(), [r#"{"n":1}"#, r#"{"n":2}"#], "in model order");
}

#[tokio::test(start_paused = true)]
async fn fault_h5_c7_a_denial_touches_its_own_call_only_and_its_body_is_never_entered() {
    let ran = Ran::default();
    let agent = writes(&ran).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&deny("a")).await.unwrap();
    session.decide(&allow(&["b"])).await.unwrap();
    let second = read(&session, session.resume().unwrap()).await;
    assert_eq!(*ran.lock(), [r#"{"n":2}"#]);
    let results: Vec<&ToolResult> = second.messages.iter().flat_map(|m| m.tool_results()).collect();
    let denied = results[0].error.as_ref().unwrap();
    assert_eq!(denied.kind, ErrorKind::Denied);
    assert!(denied.message.starts_with("denied: not now."), "{}", denied.message);
    assert!(!results[1].is_error());
    let resolved: Vec<_> = second
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::ApprovalResolved { id, allowed, actor } => {
                Some((id.to_string(), *allowed, actor.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(resolved, [("a".into(), false, "ann".into()), ("b".into(), true, "ann".into())]);
}

#[tokio::test(start_paused = true)]
async fn fault_c5_answering_one_leaves_the_others_pending_and_restarts_none() {
    let ran = Ran::default();
    let agent = writes(&ran).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!(session.resume().unwrap_err(), StartError::Undecided(2));
    session.decide(&allow(&["a"])).await.unwrap();
    let again = read(&session, session.resume().unwrap()).await;
    assert!(again.result.is_none());
    assert_eq!(session.pending().iter().map(|r| r.call.id.to_string()).collect::<Vec<_>>(), ["b"]);
    session.decide(&allow(&["b"])).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!((last.result().content.as_str(), ran.lock().len()), ("ok", 2));
}

#[tokio::test(start_paused = true)]
async fn fault_c9_c28_decisions_that_fit_nothing_change_nothing_and_say_why() {
    let ran = Ran::default();
    let agent = writes(&ran).build().unwrap();
    let session = agent.new_session();
    assert_eq!(session.decide(&allow(&["a"])).await.unwrap_err(), DecideError::NothingPending);
    let _ = read(&session, session.start("hi").unwrap()).await;
    let unknown = session.decide(&allow(&["a", "zz"])).await.unwrap_err();
    assert_eq!(unknown, DecideError::Decision(DecisionError::UnknownCall("zz".into())));
    assert_eq!(session.pending().len(), 2);
    assert_eq!(session.start("more").unwrap_err(), StartError::Parked, "fault R5.75");
    session.decide(&allow(&["a"])).await.unwrap();
    let twice = session.decide(&deny("a")).await.unwrap_err();
    assert_eq!(twice, DecideError::Decision(DecisionError::AlreadyDecided("a".into())));
    session.decide(&deny("b")).await.unwrap();
    let _ = read(&session, session.resume().unwrap()).await;
    assert_eq!(session.resume().unwrap_err(), StartError::NothingToResume, "a finished turn does not resume");
    assert_eq!(session.decide(&allow(&["b"])).await.unwrap_err(), DecideError::NothingPending);
}

#[tokio::test(start_paused = true)]
async fn fault_r5_77_another_process_resumes_from_the_store_alone() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Ran::default());
    let id = {
        let agent = writes(&ran).store(store.clone()).build().unwrap();
        let session = agent.new_session();
        let _ = read(&session, session.start("hi").unwrap()).await;
        session.id().clone()
    };
    // Through its JSON, as a store on disk keeps it.
    let mut stored = store.load(&id).await.unwrap().unwrap();
    let json = serde_json::to_string(&stored.snapshot).unwrap();
    stored.snapshot = serde_json::from_str(&json).unwrap();
    let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
    let other = agent_of(&model)
        .tool(write(&ran))
        .tool(tool("look", "Looks", async |_ctx, (): ()| Ok("looked")))
        .gate(AskFor::tools(["write"]))
        .store(store.clone())
        .build()
        .unwrap();
    let session = other.open_session(id.clone()).await.unwrap();
    assert_eq!(session.pending().len(), 2);
    session.decide(&allow(&["a", "b"])).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!((last.result().content.as_str(), ran.lock().len()), ("ok", 2));
    let stored = store.load(&id).await.unwrap().unwrap();
    assert_eq!((stored.messages.len(), stored.snapshot.is_none()), (session.messages().len(), true));
}

#[tokio::test(start_paused = true)]
async fn fault_r5_80_another_set_of_tools_is_refused_before_anything_runs() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Ran::default());
    let agent = writes(&ran).store(store.clone()).build().unwrap();
    let session = agent.new_session();
    let id = session.id().clone();
    let _ = read(&session, session.start("hi").unwrap()).await;
    drop((session, agent));
    let other = agent_of(&ScriptedModel::new([])).tool(write(&ran)).store(store).build().unwrap();
    let session = other.open_session(id).await.unwrap();
    session.decide(&allow(&["a", "b"])).await.unwrap();
    assert_eq!(session.resume().unwrap_err(), StartError::ToolsChanged);
    assert!(ran.lock().is_empty() && session.is_parked());
}

struct ToHome;
impl Around<scope::ToolCall> for ToHome {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        if call.name == "write" {
            call.arguments = call.arguments.replace("tmp", "home");
        }
        next.run(call).await
    }
}

/// Asks about the home directory, denies the root, allows the rest; counts how often it is asked.
struct ByPath(Arc<AtomicUsize>);
impl Gate for ByPath {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        self.0.fetch_add(1, SeqCst);
        Ok(if call.arguments.contains("home") {
            GateDecision::Ask { reason: "writes at home".into(), expires_at: None }
        } else if call.arguments.contains("root") {
            GateDecision::Deny { reason: "never at the root".into() }
        } else {
            GateDecision::Allow
        })
    }
}

#[tokio::test(start_paused = true)]
async fn fault_c12_c13_a_rewrite_is_classified_again_and_the_approval_covers_the_rewrite() {
    let (ran, asked) = (Ran::default(), Arc::new(AtomicUsize::new(0)));
    let reply = Reply::new().call("a", "write", r#"{"to":"tmp"}"#).finish();
    let agent = agent([reply, Reply::new().text("ok").finish()])
        .tool(write(&ran))
        .gate(ByPath(asked.clone()))
        .interceptor(interceptor!(ToHome))
        .build()
        .unwrap();
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    assert!(first.result.is_none() && ran.lock().is_empty(), "no layer can make an undecided call run");
    assert_eq!(session.pending()[0].call.arguments, r#"{"to":"home"}"#, "what is asked is what would run");
    assert_eq!(asked.load(SeqCst), 2, "once the call, once the rewrite");
    session.decide(&allow(&["a"])).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!(last.result().content, "ok");
    assert_eq!(*ran.lock(), [r#"{"to":"home"}"#]);
    assert_eq!(asked.load(SeqCst), 2, "fault C17: a decided call is not asked about again");
}

#[tokio::test(start_paused = true)]
async fn an_edit_runs_in_place_of_the_call_and_a_denied_call_stays_denied() {
    let (ran, asked) = (Ran::default(), Arc::new(AtomicUsize::new(0)));
    let reply =
        Reply::new().call("a", "write", r#"{"to":"home"}"#).call("b", "write", r#"{"to":"root"}"#).finish();
    let agent = agent([reply, Reply::new().text("ok").finish()])
        .tool(write(&ran))
        .gate(ByPath(asked))
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!(session.pending().len(), 1, "a hard denial is stored first and never asked about");
    let mut edit = allow(&["a"]);
    edit.verdict = Verdict::Allow { edit: Some(r#"{"to":"attic"}"#.into()) };
    session.decide(&edit).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!(*ran.lock(), [r#"{"to":"attic"}"#]);
    let results: Vec<_> = last.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert_eq!(results[1].error.as_ref().unwrap().kind, ErrorKind::Denied, "fault C: and wins on resume");
}

#[tokio::test(start_paused = true)]
async fn fault_r5_72_cancelling_a_suspended_turn_is_a_leg_that_says_who() {
    let ran = Ran::default();
    let agent = writes(&ran).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let handle = session.cancel_parked(CancelCause::requested("bob").reason("changed my mind")).unwrap();
    let last = read(&session, handle).await;
    assert_eq!(
        (last.result().outcome(), last.result().stop_reason),
        (Outcome::Cancelled, StopReason::Cancelled)
    );
    assert_eq!(last.result().cancelled_by.as_ref().unwrap().actor, "bob");
    assert!(ran.lock().is_empty() && !session.is_parked());
    let next = read(&session, session.start("again").unwrap()).await;
    assert_eq!(next.result().content, "ok", "the session goes on");
}

/// A gate that cannot decide.
struct Broken(u8);
impl Gate for Broken {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        match self.0 {
            0 => Err(Exit::failed(ErrorKind::Internal, "no policy file")),
            1 => panic!("layer"),
            _ => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_h3_a_gate_that_cannot_decide_fails_closed_and_is_no_denial() {
    crate::sweep::quiet_panics();
    for how in 0..3 {
        let ran = Ran::default();
        let agent = writes(&ran).gate(Broken(how)).build().unwrap();
        let session = agent.new_session();
        let only = read(&session, session.start("hi").unwrap()).await;
        assert!(ran.lock().is_empty());
        let result = only.messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
        let error = result.error.as_ref().unwrap();
        assert_eq!(error.kind, ErrorKind::Internal);
        assert!(error.message.contains("the approval gate failed"), "{}", error.message);
    }
}

/// Asks with a limit of a minute.
struct Soon;
impl Gate for Soon {
    async fn decide(
        &self,
        ctx: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        let expires_at = Some(ctx.sources().clock.now() + Duration::from_secs(60));
        Ok(match call.name.as_str() {
            "write" => GateDecision::Ask { reason: "soon".into(), expires_at },
            _ => GateDecision::Allow,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r5_72_an_unanswered_question_expires_and_counts_as_denied() {
    let ran = Ran::default();
    let agent = writes(&ran).gate(Soon).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert!(session.pending()[0].expires_at.is_some());
    session.decide(&allow(&["a"])).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    let late = session.decide(&allow(&["b"])).await.unwrap_err();
    assert_eq!(late, DecideError::Decision(DecisionError::Expired("b".into())));
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!((ran.lock().len(), last.result().stop_reason), (1, StopReason::Completed));
    let results: Vec<_> = last.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert!(results[1].content.starts_with("denied: the approval expired."), "{}", results[1].content);
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_classified_again_and_cannot_pass_a_hard_denial() {
    let (ran, asked) = (Ran::default(), Arc::new(AtomicUsize::new(0)));
    let reply =
        Reply::new().call("a", "write", r#"{"to":"home"}"#).call("b", "write", r#"{"to":"home"}"#).finish();
    let agent = agent([reply, Reply::new().text("ok").finish()])
        .tool(write(&ran))
        .gate(ByPath(asked.clone()))
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let edit = |id: &str, to: &str| Decision {
        verdict: Verdict::Allow { edit: Some(format!(r#"{{"to":"{to}"}}"#)) },
        ..allow(&[id])
    };
    session.decide(&edit("a", "root")).await.unwrap();
    // What the gate would only ask about is answered by the person who made the edit.
    session.decide(&edit("b", "home/b")).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!(*ran.lock(), [r#"{"to":"home/b"}"#]);
    let results: Vec<_> = last.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert_eq!(results[0].error.as_ref().unwrap().kind, ErrorKind::Denied);
    assert_eq!(asked.load(SeqCst), 4, "once each call, once each edit");
}
