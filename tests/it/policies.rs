//! Policies, batches that stand together, rules that remember, questions of tools, and work that is completed outside.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use turnwright_core::{
    ApprovalRequest, CallId, CancelCause, Decision, DecisionError, ErrorInfo, ErrorKind, Outcome, Remember,
    Role, SessionId, Synthetic, Timestamp, ToolCall, ToolDefinition, Verdict, Wants,
};
use turnwright_react_runtime::{
    Agent, AgentBuilder, DecideError, Session, StartError, TurnEventKind,
    approval::{
        ApprovalBatch, ArgumentMatcher, Classification, OnDenial, Paths, Policies, Rules, TextDecision, Tier,
    },
    store::{MemoryStore, SessionStore},
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::Reply;

use crate::support::{agent, read};

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn ids(session: &Session) -> Vec<String> {
    session.pending().iter().map(|r| r.call.id.to_string()).collect()
}

fn results(session: &Session) -> Vec<(String, Option<Synthetic>)> {
    let all = session.messages();
    all.iter()
        .flat_map(|m| m.tool_results().map(|r| (r.content.clone(), r.synthetic)).collect::<Vec<_>>())
        .collect()
}

/// An agent whose tools `look`, `write` and `send` count their runs.
fn counting(replies: impl IntoIterator<Item = Reply>, ran: &Arc<AtomicUsize>) -> AgentBuilder {
    let counted = |name: &str| {
        let ran = ran.clone();
        tool(name, "", move |_: ToolContext, args: Value| {
            ran.fetch_add(1, SeqCst);
            async move { Ok::<_, ToolError>(args.to_string()) }
        })
    };
    agent(replies).tool(counted("look").parallel()).tool(counted("write")).tool(counted("send"))
}

fn three() -> Reply {
    Reply::new()
        .call("a", "look", "{}")
        .call("b", "write", r#"{"n":1}"#)
        .call("c", "send", r#"{"n":2}"#)
        .finish()
}

#[test]
fn fault_the_matcher_follows_links_and_parents_and_knows_what_it_does_not_know() {
    let root = tempfile::tempdir().unwrap();
    let (inside, outside) = (root.path().join("in"), root.path().join("out"));
    std::fs::create_dir_all(inside.join("deep")).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(root.path().join("in-not")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(inside.join("nothing"), inside.join("dangling")).unwrap();
    }
    let matcher = ArgumentMatcher::below([inside.to_str().unwrap()]).unwrap().base(&inside).unwrap();
    let path = |path: &str| matcher.paths(&json!({ "path": path }));
    for good in ["a.txt", "deep/b", "./deep/../c", "deep/new/also/new", "deep"] {
        assert_eq!(path(good), Paths::Inside, "{good}");
    }
    assert_eq!(path(inside.join("x").to_str().unwrap()), Paths::Inside);
    let mut bad = vec![
        "../out/x",
        "..",
        "/etc/passwd",
        "deep/../../out",
        "../in-not/x",
        "",
        " ",
        "new/../../out",
        "~/x",
        "a\0b",
    ];
    #[cfg(unix)]
    bad.extend(["link/x", "link", "deep/../link/y", "dangling", "dangling/x"]);
    for bad in bad {
        assert!(matches!(path(bad), Paths::Outside(_)), "{bad:?}: {:?}", path(bad));
    }
    for unknown in
        [json!({}), json!({ "file": "a" }), json!({ "path": 7 }), json!(null), json!({ "path": [1] })]
    {
        assert_eq!(matcher.paths(&unknown), Paths::Unknown, "{unknown}");
    }
    let both = json!({ "path": "a", "more": [{ "dest": "/etc/x" }] });
    assert_eq!(matcher.paths(&both), Paths::Outside("/etc/x".into()), "each of them counts");
    let named = matcher.clone().key("file");
    assert_eq!(named.paths(&json!({ "file": "a" })), Paths::Inside);
    let nowhere = ArgumentMatcher::below([""; 1]).unwrap();
    assert!(matches!(nowhere.paths(&json!({ "path": "/" })), Paths::Outside(_)), "blank allows nothing");
    assert_eq!(ArgumentMatcher::below(["*"]).unwrap().paths(&json!({ "path": "/x" })), Paths::Inside);
    assert!(ArgumentMatcher::below(["/does/not/exist"]).is_err());
}

#[tokio::test(start_paused = true)]
async fn tiers_say_what_runs_what_asks_and_what_never_runs() {
    let ran = Arc::default();
    let policies = Policies::new().ask("write").never("send", "nothing leaves").guard(
        |call: &ToolCall, _: &ToolDefinition| match call.arguments.contains("secret") {
            true => Classification::of(Tier::Hardline, "it names a secret"),
            false => Classification::normal(),
        },
    );
    let secret = Reply::new().call("d", "look", r#"{"q":"secret"}"#).call("e", "look", "{}").finish();
    let agent =
        counting([three(), secret, Reply::new().text("ok").finish()], &ran).gate(policies).build().unwrap();
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    assert!(first.result.is_none());
    assert_eq!((ids(&session), ran.load(SeqCst)), (vec!["b".to_owned()], 1));
    session.decide(&Decision::allow([CallId::from("b")], "ann", now())).await.unwrap();
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
    let all = results(&session);
    assert!(all[2].0.contains("nothing leaves") && all[3].0.contains("it names a secret"), "{all:?}");
    assert_eq!((all[3].1, all[4].1, ran.load(SeqCst)), (Some(Synthetic::Denied), None, 3));
}

#[tokio::test(start_paused = true)]
async fn fault_c16_c17_empty_arguments_are_asked_about_and_a_predicate_is_asked_once_a_call() {
    let (asked, ran) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let count = asked.clone();
    let policies = Policies::new().ask_if("write", move |_, _| {
        count.fetch_add(1, SeqCst);
        false
    });
    let reply = Reply::new().call("a", "write", "").call("b", "write", r#"{"n":1}"#).finish();
    let agent = counting([reply, Reply::new().text("ok").finish()], &ran).gate(policies).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!((ids(&session), asked.load(SeqCst)), (vec!["a".to_owned()], 1));
    session.decide(&Decision::allow([CallId::from("a")], "ann", now())).await.unwrap();
    let _ = read(&session, session.resume().unwrap()).await;
    assert_eq!((asked.load(SeqCst), ran.load(SeqCst)), (1, 2));
}

/// What an agent with this store asks about when it is to write; each agent is another process.
async fn asks(store: &Arc<MemoryStore>, id: &SessionId, gate: &Policies, source: &str) -> bool {
    let write = tool("write", "", async |_ctx, args: Value| Ok(args.to_string())).source(source);
    let replies = [Reply::new().call("w", "write", "{}").finish(), Reply::new().text("ok").finish()];
    let agent = agent(replies).tool(write).gate(gate.clone()).store(store.clone()).build().unwrap();
    let session = agent.open_session(id.clone()).await.unwrap();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let asks = !session.pending().is_empty();
    if asks {
        let _ = read(&session, session.cancel_parked(CancelCause::requested("me")).unwrap()).await;
    }
    asks
}

#[tokio::test(start_paused = true)]
async fn fault_c14_a_rule_is_for_one_tool_of_one_source_and_one_session_and_outlives_the_process() {
    let (ran, rules, store) = (Arc::default(), Rules::default(), Arc::new(MemoryStore::new()));
    let policies = Policies::new().ask("write").never("send", "no").rules(rules.clone());
    let call = |id: &str| Reply::new().call(id, "write", "{}").finish();
    let id = SessionId::new("s").unwrap();
    {
        let agent = counting([call("a"), call("b"), Reply::new().text("ok").finish()], &ran);
        let agent = agent.gate(policies.clone()).store(store.clone()).build().unwrap();
        let session = agent.open_session(id.clone()).await.unwrap();
        let _ = read(&session, session.start("hi").unwrap()).await;
        let allow = Decision::allow([CallId::from("a")], "ann", now()).remember(Remember::Session);
        session.decide(&allow).await.unwrap();
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!(
            (last.result().content.as_str(), ran.load(SeqCst)),
            ("ok", 2),
            "the second one is not asked"
        );
        let kept = session.rules();
        assert_eq!((kept.len(), kept[0].source.as_str(), kept[0].actor.as_str()), (1, "local", "ann"));
        assert_eq!(rules.all(), [], "the gate keeps those for all sessions");
    }
    assert!(!asks(&store, &id, &policies, "local").await, "another process knows it");
    assert!(asks(&store, &id, &policies, "server").await, "the same name from elsewhere is another tool");
    assert!(asks(&store, &SessionId::new("s2").unwrap(), &policies, "local").await, "another session asks");
    let never = Policies::new().never("write", "no");
    assert!(!asks(&store, &id, &never, "local").await);
    let stored = store.load(&id).await.unwrap().unwrap();
    let last = stored.messages.iter().flat_map(|m| m.tool_results()).last().unwrap();
    assert_eq!(last.synthetic, Some(Synthetic::Denied), "no rule overrides a denial");
    let session = agent([]).store(store.clone()).build().unwrap().open_session(id.clone()).await.unwrap();
    session.revoke(|rule| rule.tool == "write").await.unwrap();
    drop(session);
    assert!(asks(&store, &id, &policies, "local").await, "it was taken back");
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_all_sessions_is_the_gates() {
    let (ran, rules) = (Arc::default(), Rules::default());
    let policies = Policies::new().ask("write").rules(rules.clone());
    let call = || Reply::new().call("a", "write", "{}").finish();
    let ok = || Reply::new().text("ok").finish();
    let agent = counting([call(), ok(), call(), ok(), call()], &ran).gate(policies).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    let allow = Decision::allow([CallId::from("a")], "ann", now()).remember(Remember::Always);
    session.decide(&allow).await.unwrap();
    let _ = read(&session, session.resume().unwrap()).await;
    let other = agent.new_session();
    assert_eq!(read(&other, other.start("hi").unwrap()).await.result().content, "ok");
    assert_eq!((rules.all().len(), session.rules().len(), ran.load(SeqCst)), (1, 0, 2));
    rules.revoke(|rule| rule.tool == "write");
    let third = agent.new_session();
    let _ = read(&third, third.start("hi").unwrap()).await;
    assert_eq!(ids(&third), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_waits_together_and_falls_together() {
    for (deny, hard) in [(false, false), (true, false), (false, true)] {
        let ran = Arc::default();
        let policies = if hard { Policies::new().never("send", "no") } else { Policies::new() };
        let agent = counting([three(), Reply::new().text("ok").finish()], &ran)
            .gate(policies.ask("write"))
            .approval_batch(ApprovalBatch::Atomic)
            .build()
            .unwrap();
        let session = agent.new_session();
        let first = read(&session, session.start("hi").unwrap()).await;
        if hard {
            assert_eq!(
                (first.result().content.as_str(), ran.load(SeqCst)),
                ("ok", 0),
                "a denial that never asks wins"
            );
            assert!(results(&session).iter().all(|(_, why)| *why == Some(Synthetic::Denied)));
            continue;
        }
        assert_eq!((ids(&session), ran.load(SeqCst)), (vec!["b".to_owned()], 0), "the others wait too");
        let decision = match deny {
            true => Decision::deny([CallId::from("b")], "ann", now(), Some("no".into())),
            false => Decision::allow([CallId::from("b")], "ann", now()),
        };
        session.decide(&decision).await.unwrap();
        assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
        assert_eq!(ran.load(SeqCst), if deny { 0 } else { 3 });
        let preempted =
            results(&session).iter().filter(|(words, _)| words.contains("stand or fall together")).count();
        assert_eq!(preempted, if deny { 2 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_may_end_the_turn() {
    let ran = Arc::default();
    let agent = counting([three()], &ran)
        .gate(Policies::new().ask("write"))
        .on_denial(OnDenial::CancelTurn)
        .build()
        .unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session.decide(&Decision::deny([CallId::from("b")], "ann", now(), Some("never".into()))).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    let cause = last.result().cancelled_by.clone().unwrap();
    assert_eq!((last.result().outcome(), cause.actor.as_str()), (Outcome::Cancelled, "ann"));
    assert!(cause.reason.unwrap().contains("never"));
}

#[tokio::test(start_paused = true)]
async fn fault_r5_72_a_question_that_expires_says_so_and_who_ended_it() {
    let ran = Arc::default();
    let policies = Policies::new().ask("write").expires_after(Duration::from_secs(60));
    let agent = counting([three(), Reply::new().text("ok").finish()], &ran).gate(policies).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert!(session.pending()[0].expires_at.is_some());
    tokio::time::advance(Duration::from_secs(61)).await;
    let late = session.decide(&Decision::allow([CallId::from("b")], "ann", now())).await.unwrap_err();
    assert_eq!(late, DecideError::Decision(DecisionError::Expired("b".into())));
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!(last.result().content, "ok");
    assert!(last.kinds().any(
        |k| matches!(k, TurnEventKind::ApprovalResolved { allowed: false, actor, .. } if actor == "runtime")
    ));
    assert!(results(&session)[1].0.contains("expired"));
}

#[test]
fn decisions_are_words_too_and_other_words_are_none() {
    let request = |id: &str| {
        let call = ToolCall::new(id, "t", "{}");
        let digest = turnwright_core::CallDigest::of("local", &call);
        ApprovalRequest {
            call,
            source: "local".into(),
            agent: None,
            digest,
            wants: Wants::Approval,
            reason: String::new(),
            expires_at: None,
        }
    };
    let pending = [request("a"), request("b")];
    let parsed = |text: &str| TextDecision::parse(text, &pending);
    let decided = |text: &str| parsed(text).unwrap().unwrap();
    assert_eq!(decided("/approve").calls, [CallId::from("a")]);
    assert_eq!(decided(" /approve all ").calls.len(), 2);
    assert_eq!(decided("/approve b session").remember, Some(Remember::Session));
    assert_eq!(decided("/deny b too risky").verdict, Verdict::Deny { reason: Some("too risky".into()) });
    assert_eq!(decided(r#"/edit a {"n": 1}"#).verdict, Verdict::Allow { edit: Some(r#"{"n": 1}"#.into()) });
    for none in ["hello", "approve", "//approve", "/stop", ""] {
        assert_eq!(parsed(none), Ok(None), "{none}");
    }
    for unclear in ["/approve x", "/edit a", "/deny x y"] {
        assert!(parsed(unclear).is_err(), "{unclear}");
    }
}

/// One tool that asks, one that is completed outside, one that is asked about, one that just runs.
fn mixed(
    ran: &Arc<AtomicUsize>,
    replies: impl IntoIterator<Item = Reply>,
    store: &Arc<MemoryStore>,
) -> Agent {
    let (asks, orders) = (ran.clone(), ran.clone());
    let ask = tool("ask", "", move |_: ToolContext, _: Value| {
        asks.fetch_add(1, SeqCst);
        async { Err::<String, _>(ToolError::ask("Which colour?", ["red", "green"])) }
    });
    let order = tool("order", "", move |_: ToolContext, _: Value| {
        orders.fetch_add(1, SeqCst);
        async { Err::<String, _>(ToolError::later()) }
    });
    counting(replies, ran)
        .tool(ask)
        .tool(order)
        .gate(Policies::new().ask("write"))
        .store(store.clone())
        .build()
        .unwrap()
}

fn all_kinds() -> Reply {
    Reply::new()
        .call("a", "ask", "{}")
        .call("b", "order", "{}")
        .call("c", "write", "{}")
        .call("d", "look", "{}")
        .finish()
}

#[tokio::test(start_paused = true)]
async fn fault_c3_c5_c26_questions_outside_work_and_approvals_wait_together_and_none_is_restarted() {
    let (ran, store) = (Arc::default(), Arc::new(MemoryStore::new()));
    let id = SessionId::new("s").unwrap();
    let first = mixed(&ran, [all_kinds()], &store);
    let session = first.open_session(id.clone()).await.unwrap();
    let leg = read(&session, session.start("hi").unwrap()).await;
    assert!(leg.result.is_none());
    assert_eq!(
        (ids(&session), ran.load(SeqCst)),
        (vec!["a".to_owned(), "b".into(), "c".into()], 3),
        "d ran, c did not"
    );
    let wants: Vec<_> = session.pending().into_iter().map(|r| r.wants).collect();
    assert!(
        matches!(&wants[0], Wants::Answer { question, choices } if question == "Which colour?" && choices.len() == 2)
    );
    assert_eq!(wants[1..], [Wants::Result, Wants::Approval]);
    // In another process, one after the other, in any order.
    drop(session);
    drop(first);
    let second = mixed(&ran, [Reply::new().text("ok").finish()], &store);
    let session = second.open_session(id).await.unwrap();
    let wrong = session.answer("a", "blue", "ann").await.unwrap_err();
    assert_eq!(wrong.to_string(), r#""blue" is no answer to call a; these are: red, green"#);
    let wrong = session.decide(&Decision::allow([CallId::from("a")], "ann", now())).await.unwrap_err();
    assert_eq!(wrong.to_string(), "call a does not wait for an approval");
    assert!(session.answer("c", "red", "ann").await.is_err());
    session.complete("b", Err(ErrorInfo::new(ErrorKind::ToolFailed, "sold out")), "shop").await.unwrap();
    let leg = read(&session, session.resume().unwrap()).await;
    assert!(leg.result.is_none(), "two are left");
    assert_eq!(
        (ids(&session), ran.load(SeqCst)),
        (vec!["a".to_owned(), "c".into()], 3),
        "nothing was restarted"
    );
    session.answer("a", "red", "ann").await.unwrap();
    session.decide(&Decision::allow([CallId::from("c")], "ann", now())).await.unwrap();
    let last = read(&session, session.resume().unwrap()).await;
    assert_eq!((last.result().content.as_str(), ran.load(SeqCst)), ("ok", 4));
    let contents: Vec<_> = results(&session).into_iter().map(|(words, _)| words).collect();
    assert_eq!(contents, ["red", "sold out", "{}", "{}"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_may_be_refused() {
    let (ran, store) = (Arc::default(), Arc::new(MemoryStore::new()));
    let question = Reply::new().call("a", "ask", "{}").finish();
    let agent = mixed(&ran, [question, Reply::new().text("ok").finish()], &store);
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    session
        .decide(&Decision::deny([CallId::from("a")], "ann", now(), Some("none of your business".into())))
        .await
        .unwrap();
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "ok");
    assert!(results(&session)[0].0.contains("none of your business"));
    assert_eq!(ran.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn fault_c27_a_turn_that_waits_can_be_ended_with_an_answer_and_no_model_call() {
    let (ran, store) = (Arc::default(), Arc::new(MemoryStore::new()));
    let model = turnwright_testkit::ScriptedModel::new([all_kinds(), Reply::new().text("next").finish()]);
    let agent = crate::support::agent_of(&model);
    let ask = tool("ask", "", async |_ctx, _: Value| Err::<String, _>(ToolError::later()));
    let agent = agent.tool(ask).store(store).build().unwrap();
    let session = agent.new_session();
    let _ = read(&session, session.start("hi").unwrap()).await;
    assert_eq!(session.start("more").unwrap_err(), StartError::Parked);
    let last = read(&session, session.finish_parked("I decided for you").unwrap()).await;
    assert_eq!(
        (last.result().outcome(), last.result().content.as_str()),
        (Outcome::Completed, "I decided for you")
    );
    assert_eq!(model.calls(), 1);
    let messages = session.messages();
    assert_eq!(
        messages.last().map(|m| (m.role, m.text())),
        Some((Role::Assistant, "I decided for you".into()))
    );
    assert_eq!(read(&session, session.start("more").unwrap()).await.result().content, "next");
    let _: &Arc<AtomicUsize> = &ran;
}
