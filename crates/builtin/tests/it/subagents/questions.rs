//! What a person must decide for a subagent is asked at its parent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use turnwright_builtin::Subagents;
use turnwright_core::{CallId, CancelCause, Decision, LegOutcome, Outcome, Timestamp, Verdict};
use turnwright_react_runtime::{
    Agent, AgentBuilder, StartError,
    gate::AskFor,
    mailbox::Mailbox,
    tool::{ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use super::{World, arguments, boss, head, open, reader_of, results, says, task, texts};
use crate::support::reminders;

type Ran = Arc<Mutex<Vec<String>>>;

fn writes(id: &str, n: u8) -> Reply {
    Reply::new().call(id, "write", &format!(r#"{{"n":{n}}}"#)).finish()
}

/// A reader that must ask before it writes.
fn asking(ran: &Ran, replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    asking_of(ran, &ScriptedModel::new(replies))
}

fn asking_of(ran: &Ran, model: &ScriptedModel) -> AgentBuilder {
    let ran = ran.clone();
    let write = tool("write", "", move |_ctx, arguments: serde_json::Value| {
        ran.lock().push(arguments.to_string());
        async { Ok("written") }
    });
    let ask =
        tool("ask", "", async |_ctx, (): ()| Err::<String, _>(ToolError::ask("Which one?", ["a", "b"])));
    reader_of(model).tool(write).tool(ask).gate(AskFor::tools(["write"]))
}

fn pair(world: &World, ran: &Ran, child: impl IntoIterator<Item = Reply>) -> (Agent, Subagents) {
    world.pair([task("t", ""), says("done"), says("more")], asking(ran, child))
}

/// What answers all processes.
struct Models(ScriptedModel, ScriptedModel);

impl Models {
    fn new(child: impl IntoIterator<Item = Reply>) -> Self {
        Self(
            ScriptedModel::new([task("t", ""), says("done"), says("done"), says("done")]),
            ScriptedModel::new(child),
        )
    }

    fn process(&self, world: &World, ran: &Ran) -> (Agent, Subagents) {
        world.crew().agent("", asking_of(ran, &self.1)).build(world.process(&self.0)).unwrap()
    }
}

fn allow(id: &str) -> Decision {
    Decision::allow([id.into()], "ann", Timestamp::UNIX_EPOCH)
}

#[tokio::test(start_paused = true)]
async fn a_question_suspends_the_parent_and_the_decision_reaches_the_subagent() {
    for (decision, expected) in [
        (allow("t/w"), vec![r#"{"n":1}"#]),
        (
            Decision { verdict: Verdict::Allow { edit: Some(r#"{"n":7}"#.into()) }, ..allow("t/w") },
            vec![r#"{"n":7}"#],
        ),
        (Decision { verdict: Verdict::Deny { reason: None }, ..allow("t/w") }, vec![]),
    ] {
        let (world, ran) = (World::new(), Ran::default());
        let (agent, _) = pair(&world, &ran, [writes("w", 1), says("so")]);
        let session = open(&agent).await;
        let outcome = session.start("go").unwrap().outcome().await;
        let LegOutcome::Suspended { pending } = outcome else { panic!("{outcome:?}") };
        let [request] = &pending[..] else { panic!("{pending:?}") };
        assert_eq!(
            (request.call.id.as_str(), request.call.name.as_str(), request.agent.as_deref()),
            ("t/w", "write", Some("reader"))
        );
        assert!(world.mail().await.is_empty(), "a turn that waits reports nothing");
        assert_eq!(session.resume().unwrap_err(), StartError::Undecided(1));
        session.decide(&decision).await.unwrap();
        assert_eq!(session.resume().unwrap().result().await.unwrap().content, "done");
        assert_eq!(*ran.lock(), expected);
        assert_eq!(head(&results(&session)[0].content, "status"), "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_question_is_asked_and_answered_too() {
    let (world, ran) = (World::new(), Ran::default());
    let (agent, subagents) =
        pair(&world, &ran, [Reply::new().call("q", "ask", "{}").finish(), says("b it is")]);
    let session = open(&agent).await;
    session.start("go").unwrap().outcome().await;
    assert!(session.answer("t/q", "c", "ann").await.is_err(), "it is none of the choices");
    session.answer("t/q", "b", "ann").await.unwrap();
    session.resume().unwrap().result().await.unwrap();
    let child = world.sessions().await.remove(0);
    let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
    assert_eq!(results(&child)[0].content, "b");
}

#[tokio::test(start_paused = true)]
async fn questions_of_several_subagents_are_decided_each_on_its_own() {
    let (world, ran) = (World::new(), Ran::default());
    let two = Reply::new().call("w", "write", r#"{"n":1}"#).call("v", "write", r#"{"n":2}"#).finish();
    let both = Reply::new().call("t", "task", &arguments("")).call("u", "task", &arguments("")).finish();
    let (agent, _) = world.pair([both, says("done")], asking(&ran, [two, says("so")]));
    let session = open(&agent).await;
    session.start("go").unwrap().outcome().await;
    let ids = |session: &turnwright_react_runtime::Session| {
        let mut ids: Vec<_> = session.pending().iter().map(|r| r.call.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&session), ["t/v", "t/w", "u/v", "u/w"]);
    session.decide(&allow("t/v")).await.unwrap();
    assert_eq!(session.resume().unwrap().outcome().await.outcome(), Outcome::Suspended);
    assert_eq!(*ran.lock(), [r#"{"n":2}"#], "what was decided runs");
    assert_eq!(ids(&session), ["t/w", "u/v", "u/w"], "and what was not is asked again");
    let rest = ["t/w", "u/v", "u/w"].map(CallId::from);
    session.decide(&Decision::allow(rest, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    assert_eq!(session.resume().unwrap().result().await.unwrap().content, "done");
    assert_eq!(ran.lock().len(), 4);
    assert!(results(&session).iter().all(|r| head(&r.content, "status") == "completed"));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_found_after_the_process_went_away() {
    let (world, ran) = (World::new(), Ran::default());
    let models = Models::new([writes("w", 1), writes("v", 2), says("so")]);
    let (agent, subagents) = models.process(&world, &ran);
    open(&agent).await.start("go").unwrap().outcome().await;
    drop((agent, subagents));
    for id in ["t/w", "t/v"] {
        // Another process each time.
        let (agent, _) = models.process(&world, &ran);
        let session = open(&agent).await;
        assert_eq!(session.pending().iter().map(|r| r.call.id.as_str()).collect::<Vec<_>>(), [id]);
        session.decide(&allow(id)).await.unwrap();
        drop((session, agent));
        let (agent, _) = models.process(&world, &ran);
        open(&agent).await.resume().unwrap().outcome().await;
    }
    let (agent, _) = models.process(&world, &ran);
    let session = open(&agent).await;
    assert!(!session.is_parked());
    assert_eq!(*ran.lock(), [r#"{"n":1}"#, r#"{"n":2}"#]);
    assert_eq!(head(&results(&session)[0].content, "status"), "completed");
    assert_eq!(world.sessions().await.len(), 1);
}

/// A process that goes away anywhere, and others that go on: the subagent is asked once, and its call runs once.
#[test]
fn a_process_that_goes_away_anywhere_loses_nothing_and_asks_nothing_twice() {
    let went_on = AtomicUsize::new(0);
    for polls in 0..160 {
        // Without words nothing is written on another thread, whose time is not the turn's.
        let answer = || says(if polls % 2 == 0 { "so" } else { "<think>so</think>" });
        let status = if polls % 2 == 0 { "completed" } else { "empty" };
        let (world, ran) = (World::new(), Ran::default());
        // An answer that was not stored is asked for again.
        let models = Models::new([writes("w", 1), answer(), answer(), answer()]);
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let dying = runtime();
        let (agent, subagents) = models.process(&world, &ran);
        dying.block_on(async {
            let session = open(&agent).await;
            session.start("go").unwrap().detach();
            let mut is_decided = false;
            for _ in 0..polls {
                tokio::task::yield_now().await;
                if !is_decided && session.is_parked() {
                    is_decided = true;
                    session.decide(&allow("t/w")).await.unwrap();
                    session.resume().unwrap().detach();
                }
            }
        });
        drop(dying);
        drop((agent, subagents));
        runtime().block_on(async {
            // Nobody renews the leases of the process that is gone.
            tokio::time::sleep(Duration::from_secs(61)).await;
            let (agent, subagents) = models.process(&world, &ran);
            let session = open(&agent).await;
            if session.messages().is_empty() {
                return;
            }
            for _ in 0..3 {
                if session.is_parked() {
                    if !session.pending().is_empty() {
                        session.decide(&allow("t/w")).await.unwrap();
                    }
                    session.resume().unwrap().outcome().await;
                }
            }
            assert!(!session.is_parked(), "{polls}: {:?}", texts(&session));
            let Some(report) = results(&session).pop() else {
                // The model had been asked, and its answer was not stored: nobody was started.
                assert!(world.sessions().await.is_empty(), "{polls}");
                return;
            };
            went_on.fetch_add(1, SeqCst);
            assert_eq!(head(&report.content, "status"), status, "{polls}: {}", report.content);
            let children = world.sessions().await;
            assert_eq!(children.len(), 1, "{polls}");
            let child = subagents.agent("reader").unwrap().open_session(children[0].clone()).await.unwrap();
            assert_eq!(texts(&child).iter().filter(|t| *t == "read").count(), 1, "{polls}");
        });
        assert!(ran.lock().len() <= 1, "{polls}: {:?}", ran.lock());
    }
    assert!(went_on.load(SeqCst) > 80, "{went_on:?} of 160");
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_cancelled_while_it_waits_cancels_its_subagent() {
    for in_another_process in [false, true] {
        let (world, ran) = (World::new(), Ran::default());
        let models = Models::new([writes("w", 1), says("so")]);
        let (agent, subagents) = models.process(&world, &ran);
        open(&agent).await.start("go").unwrap().outcome().await;
        let (agent, subagents) = match in_another_process {
            true => models.process(&world, &ran),
            false => (agent, subagents),
        };
        let session = open(&agent).await;
        let mut handle = session.cancel_parked(CancelCause::requested("ann")).unwrap();
        assert_eq!(handle.outcome().await.outcome(), Outcome::Cancelled);
        let child = world.sessions().await.remove(0);
        let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
        assert!(!child.is_parked());
        let mail = world.mail().await;
        assert_eq!((mail.len(), head(&mail[0].text, "status")), (1, "cancelled"));
        assert_eq!(head(&mail[0].text, "issue"), "cancelled by ann");
        assert!(ran.lock().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_in_the_background_says_that_it_waits_and_a_call_that_goes_on_asks() {
    let (world, ran) = (World::new(), Ran::default());
    let detached = task("t", r#","detach":true"#);
    let model = ScriptedModel::new([writes("w", 1), says("so"), says("again")]);
    let (agent, _) = world.pair([detached, says("ok")], asking_of(&ran, &model));
    let mut mail = world.mailbox.watch(&boss());
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    mail.arrived().await;
    let said = world.mail().await.into_iter().map(|m| m.text).chain(reminders(&session)).collect::<String>();
    assert!(said.contains("waits for a decision of a person"), "{said}");
    let invocation = said.split("invocation: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    drop((session, agent));
    let more = format!(r#","invocation":"{invocation}""#);
    let script = [task("u", &more), says("done"), says("more")];
    let (agent, _) = world.pair(script, asking_of(&ran, &model));
    let session = open(&agent).await;
    assert_eq!(session.start("go on").unwrap().outcome().await.outcome(), Outcome::Suspended);
    session.decide(&allow("u/w")).await.unwrap();
    session.resume().unwrap().result().await.unwrap();
    assert_eq!(*ran.lock(), [r#"{"n":1}"#]);
    let report = results(&session).pop().unwrap().content;
    assert!(report.contains("again"), "its own request is answered, after the one before: {report}");
    session.start("and?").unwrap().result().await;
    assert!(reminders(&session).iter().any(|r| r.contains("\nso\n")), "that one's report is mail");
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_asked_to_stop_stops_with_its_subagent_and_both_go_on() {
    let (world, ran) = (World::new(), Ran::default());
    let looks = || Reply::new().wait(Duration::from_secs(10)).call("l", "look", "{}").finish();
    let models = Models::new([looks(), looks(), says("so")]);
    let (agent, subagents) = models.process(&world, &ran);
    let session = open(&agent).await;
    session.start("go").unwrap().detach();
    tokio::time::sleep(Duration::from_secs(15)).await;
    // In the middle of the subagent's second call of its model.
    let report = agent.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.parked, report.interrupted), (1, 0), "{report:?}");
    assert!(session.is_parked() && !session.is_interrupted() && world.mail().await.is_empty());
    drop((session, agent, subagents));
    let (agent, subagents) = models.process(&world, &ran);
    let session = open(&agent).await;
    assert_eq!(session.resume().unwrap().result().await.unwrap().content, "done");
    let report = results(&session).remove(0).content;
    assert_eq!(head(&report, "status"), "completed");
    let child = world.sessions().await.remove(0);
    let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
    assert_eq!(results(&child).len(), 2, "nothing ran twice");
}
