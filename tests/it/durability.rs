//! A turn whose process goes away goes on in another one: checkpoints, the journal, calls in doubt, leases.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::StreamExt;
use parking_lot::Mutex;
use turnwright_control::{
    CommandBody, ControlChannel, ControlCommand, ControlScope, Fate, InMemoryControlChannel,
};
use turnwright_core::{
    CallId, Decision, ErrorKind, Outcome, Part, Recovery, Role, SessionId, Sources, Synthetic, Timestamp,
    ToolResult, history,
};
use turnwright_react_runtime::{
    Agent, Session, TurnEventKind,
    gate::AskFor,
    store::{LeaseChange, MemoryStore, SessionCommit, SessionQuery, SessionStatus, SessionStore},
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read};

const MS: Duration = Duration::from_millis(1);

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// How often each call took effect, by its idempotency key.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<BTreeMap<String, usize>>>);

impl Effects {
    fn most(&self) -> usize {
        self.0.lock().values().copied().max().unwrap_or_default()
    }
    fn all(&self) -> usize {
        self.0.lock().len()
    }
}

/// An agent of a process of its own: two parallel reads, a write that is asked about, and a write that is not.
fn process(model: &ScriptedModel, store: &Arc<MemoryStore>, effects: &Effects, recovery: Recovery) -> Agent {
    let acts = |name: &str| {
        let effects = effects.clone();
        tool(name, "", move |ctx: ToolContext, args: serde_json::Value| {
            let effects = effects.clone();
            async move {
                tokio::task::yield_now().await;
                *effects.0.lock().entry(ctx.idempotency_key()).or_default() += 1;
                tokio::task::yield_now().await;
                Ok::<_, ToolError>(args.to_string())
            }
        })
    };
    agent_of(model)
        .store(store.clone())
        .lease(MS)
        .tool(acts("look").parallel().recovery(recovery))
        .tool(acts("write").recovery(recovery))
        .tool(acts("note").recovery(recovery))
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap()
}

fn script() -> Vec<Reply> {
    vec![
        Reply::new().text("one ").call("a", "look", r#"{"n":1}"#).call("b", "look", r#"{"n":2}"#).finish(),
        Reply::new()
            .reasoning("hm")
            .text("two ")
            .call("c", "write", r#"{"n":3}"#)
            .call("d", "note", "")
            .finish(),
        Reply::new().text("done").finish(),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

async fn allow_all(session: &Session) {
    let calls: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
    session.decide(&Decision::allow(calls, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
}

fn results(session: &Session) -> Vec<ToolResult> {
    session.messages().iter().flat_map(|m| m.tool_results().cloned().collect::<Vec<_>>()).collect()
}

/// Runs the turn to its end in processes that each die after so many polls, but for the last ones. Gives the effects, the
/// results that history has, and how many calls were in doubt.
fn in_dying_processes(polls: usize, recovery: Recovery) -> (Effects, Vec<ToolResult>, usize) {
    let (store, effects) = (Arc::new(MemoryStore::new()), Effects::default());
    let mut doubts = 0;
    for life in 0..40 {
        let dying = runtime();
        let over = dying.block_on(async {
            // The leases of those before end.
            tokio::time::advance(MS * 60_000).await;
            // A provider answers what it is asked: by the calls that are history.
            let stored = store.load(&id()).await.unwrap();
            let answers =
                stored.iter().flat_map(|s| &s.messages).filter(|m| m.tool_calls().count() > 0).count();
            let model = ScriptedModel::new(script().into_iter().skip(answers).collect::<Vec<_>>());
            let session = process(&model, &store, &effects, recovery).open_session(id()).await.unwrap();
            if session.messages().iter().any(|m| m.text() == "done") && !session.is_parked() {
                return Some(session);
            }
            if !session.is_interrupted() && !session.pending().is_empty() {
                allow_all(&session).await;
            }
            let started = if session.is_parked() { session.resume() } else { session.start("go") };
            let mut handle = started.unwrap();
            let mut polled = 0;
            while let Some(event) = handle.next().await {
                doubts += usize::from(matches!(event.kind, TurnEventKind::InDoubt { .. }));
                polled += 1;
                // The first lives end early, ever later; the last ones may go on.
                if life < 6 && polled > polls % 11 + life {
                    for _ in 0..polls / 11 {
                        tokio::task::yield_now().await;
                    }
                    return None;
                }
            }
            None
        });
        drop(dying);
        if let Some(session) = over {
            let messages = session.messages();
            history::check(messages.iter().map(|m| &**m)).unwrap();
            assert_eq!(messages.iter().filter(|m| m.role == Role::User).count(), 1, "one prompt");
            return (effects, results(&session), doubts);
        }
    }
    panic!("polls {polls}: the turn never ended");
}

#[test]
fn fault_c1_n10_r5_78_no_call_takes_effect_twice_and_each_missing_one_is_reported() {
    let mut doubts = 0;
    for polls in 0..66 {
        let (effects, results, in_doubt) = in_dying_processes(polls, Recovery::Report);
        assert!(effects.most() <= 1, "polls {polls}: {:?}", effects.0.lock());
        assert_eq!(results.len(), 4, "polls {polls}");
        let reported = results.iter().filter(|r| r.synthetic == Some(Synthetic::InDoubt)).count();
        // A process that dies at once again tells of the same call again.
        assert!(reported <= in_doubt, "polls {polls}");
        let known = results.iter().filter(|r| r.synthetic.is_none()).count();
        assert!(known <= effects.all() && effects.all() <= known + reported, "polls {polls}");
        doubts += in_doubt;
    }
    assert!(doubts > 10, "{doubts}: it died in the middle of calls");
}

#[test]
fn a_call_in_doubt_that_may_run_again_runs_with_the_same_key() {
    let mut again = 0;
    for polls in 0..66 {
        let (effects, results, _) = in_dying_processes(polls, Recovery::Rerun);
        assert_eq!((effects.all(), results.len()), (4, 4), "polls {polls}: one key a call");
        assert!(results.iter().all(|r| r.synthetic.is_none()), "polls {polls}: each has a result of its own");
        again += usize::from(effects.most() > 1);
    }
    assert!(again > 5, "{again}: some ran again");
}

#[test]
fn a_call_in_doubt_that_is_asked_about_runs_again_only_if_allowed() {
    let mut asked = 0;
    for polls in 0..66 {
        let (effects, results, in_doubt) = in_dying_processes(polls, Recovery::Ask);
        assert_eq!((effects.all(), results.len()), (4, 4), "polls {polls}");
        asked += in_doubt;
    }
    assert!(asked > 10, "{asked}");
    // Denied, it is reported and does not run.
    let (store, effects) = (Arc::new(MemoryStore::new()), Effects::default());
    let first = runtime();
    first.block_on(async {
        let model = ScriptedModel::new([Reply::new().call("a", "note", "{}").finish()]);
        let session = process(&model, &store, &effects, Recovery::Ask).open_session(id()).await.unwrap();
        session.start("go").unwrap().detach();
        while effects.all() == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(first);
    runtime().block_on(async {
        // The leases of those before end.
        tokio::time::advance(MS * 60_000).await;
        let model = ScriptedModel::new([Reply::new().text("ok").finish()]);
        let session = process(&model, &store, &effects, Recovery::Ask).open_session(id()).await.unwrap();
        let leg = read(&session, session.resume().unwrap()).await;
        assert!(leg.result.is_none());
        assert!(session.pending()[0].reason.contains("nobody knows whether it took effect"));
        let deny = Decision::deny(["a".into()], "ann", Timestamp::UNIX_EPOCH, Some("I looked".into()));
        session.decide(&deny).await.unwrap();
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!(last.result().content, "ok");
        let result = &results(&session)[0];
        assert_eq!(result.synthetic, Some(Synthetic::InDoubt));
        assert!(result.content.contains("I looked"), "{}", result.content);
        assert_eq!(effects.most(), 1);
    });
}

#[test]
fn what_was_shown_before_the_process_went_away_is_history_but_for_the_last_moment() {
    let store = Arc::new(MemoryStore::new());
    let dying = runtime();
    let mut shown = String::new();
    dying.block_on(async {
        let mut reply = Reply::new().reasoning("I think ");
        for n in 0..40 {
            reply = reply.wait(MS * 20).text(format!("word{n} "));
        }
        let model = ScriptedModel::new([reply.silence()]);
        let agent = agent_of(&model).store(store.clone()).lease(MS).build().unwrap();
        let mut handle = agent.open_session(id()).await.unwrap().start("go").unwrap();
        while let Some(event) = handle.next().await {
            if let TurnEventKind::TextDelta { text } = event.kind {
                shown.push_str(&text);
            }
            if shown.contains("word30 ") {
                break;
            }
        }
    });
    drop(dying);
    runtime().block_on(async {
        // The leases of those before end.
        tokio::time::advance(MS * 60_000).await;
        let agent = agent([Reply::new().text("again").finish()]).store(store.clone()).build().unwrap();
        let session = agent.open_session(id()).await.unwrap();
        assert!(session.is_interrupted());
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!(last.result().content, "again");
        let kept = &last.messages[1];
        assert_eq!(kept.interrupted.as_ref().unwrap().reason, "crash");
        assert!(matches!(&kept.parts[0], Part::Reasoning(r) if r.text == "I think "));
        let kept = kept.text();
        assert!(shown.starts_with(&kept), "{kept:?} of {shown:?}");
        // 250 ms are twelve words; each has a pause of 20 ms.
        assert!(kept.contains("word18 "), "{kept:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn fault_r5_73_a_session_that_runs_elsewhere_is_refused_until_its_lease_ends() {
    let store = Arc::new(MemoryStore::new());
    let mine = agent([Reply::new().text("slow").wait(MS * 90_000).text("ly").finish()])
        .store(store.clone())
        .build()
        .unwrap();
    let theirs = agent([Reply::new().text("no").finish()]).store(store.clone()).build().unwrap();
    let running = mine.open_session(id()).await.unwrap().start("go").unwrap();
    tokio::time::sleep(MS * 40_000).await;
    let listed = store.list(SessionQuery::default()).await.unwrap();
    assert_eq!(listed[0].status, SessionStatus::Running);
    let same = theirs.open_session(id()).await.unwrap();
    // The lease is renewed: it lasts although the turn takes longer than it.
    let refused = read(&same, same.resume().unwrap()).await;
    assert_eq!(refused.result().error.as_ref().unwrap().kind, ErrorKind::SessionHeld);
    assert!(same.is_interrupted(), "nothing was changed");
    assert!(store.delete(&id()).await.unwrap_err().is_lost());
    let session = mine.open_session(id()).await.unwrap();
    assert_eq!(read(&session, running).await.result().content, "slowly");
    let listed =
        store.list(SessionQuery { status: Some(SessionStatus::Idle), ..SessionQuery::default() }).await;
    assert_eq!(listed.unwrap().len(), 1, "the lease was given back with the end of the turn");
    let same = theirs.open_session(id()).await.unwrap();
    assert_eq!(read(&same, same.start("and now?").unwrap()).await.result().content, "no");
}

#[tokio::test(start_paused = true)]
async fn fault_k3_a_message_for_a_session_that_was_written_elsewhere_is_the_callers_again() {
    let store = Arc::new(MemoryStore::new());
    let build = || agent([Reply::new().text("ok").finish()]).store(store.clone()).build().unwrap();
    let (mine, theirs) = (build(), build());
    let (a, b) = (mine.open_session(id()).await.unwrap(), theirs.open_session(id()).await.unwrap());
    let _ = read(&a, a.start("first").unwrap()).await;
    let late = read(&b, b.start("second").unwrap()).await;
    assert_eq!(late.result().error.as_ref().unwrap().kind, ErrorKind::Conflict);
    assert!(late.messages.is_empty(), "it was no part of a history");
    b.refresh().await.unwrap();
    assert_eq!(b.messages().len(), 2);
    assert_eq!(read(&b, b.start("second").unwrap()).await.messages.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_lost_its_lease_stops_and_changes_nothing() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    let count = ran.clone();
    let acts = tool("act", "", move |_: ToolContext, _: serde_json::Value| {
        count.fetch_add(1, SeqCst);
        async {
            tokio::time::sleep(MS * 60_000).await;
            Ok::<_, ToolError>("done".to_owned())
        }
    });
    let mine =
        agent([Reply::new().text("I act ").call("a", "act", "{}").finish(), Reply::new().text("x").finish()])
            .store(store.clone())
            .tool(acts)
            .build()
            .unwrap();
    let session = mine.open_session(id()).await.unwrap();
    let handle = session.start("go").unwrap();
    tokio::time::sleep(MS * 1_000).await;
    // Somebody takes it over, as after a pause of this process that was longer than its lease.
    let stored = store.load(&id()).await.unwrap().unwrap();
    let taken = SessionCommit {
        lease: LeaseChange::Acquire { holder: stored.lease.unwrap().holder, ttl: MS * 60_000 },
        snapshot: stored.snapshot,
        ..SessionCommit::new(id(), Sources::default().id(), stored.revision)
    };
    store.commit(taken).await.unwrap();
    let before = store.load(&id()).await.unwrap().unwrap();
    let clock = Sources::default().clock;
    let began = clock.instant();
    let ended = read(&session, handle).await;
    assert_eq!(ended.result().error.as_ref().unwrap().kind, ErrorKind::LeaseLost);
    assert_eq!(ended.result().outcome(), Outcome::Failed);
    assert!(clock.instant() - began < MS * 15_000, "at the next renewal");
    let after = store.load(&id()).await.unwrap().unwrap();
    assert_eq!((after.revision, after.journal.len()), (before.revision, before.journal.len()));
    assert_eq!(ran.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_steer_is_applied_when_it_is_stored_and_its_turn_is_recorded() {
    let (store, channel) =
        (Arc::new(MemoryStore::new()), Arc::new(InMemoryControlChannel::new(&Sources::default())));
    let wait = tool("wait", "", async |_ctx, _: serde_json::Value| {
        tokio::time::sleep(MS * 100).await;
        Ok("waited".to_owned())
    });
    let agent =
        agent([Reply::new().text("w ").call("a", "wait", "{}").finish(), Reply::new().text("ok").finish()])
            .store(store.clone())
            .channel(channel.clone())
            .tool(wait)
            .build()
            .unwrap();
    let session = agent.open_session(id()).await.unwrap();
    let mut handle = session.start("go").unwrap();
    tokio::time::sleep(MS * 50).await;
    let steer = CommandBody::InjectSteer { parts: vec![Part::text("left")] };
    let command = ControlCommand::new(&Sources::default(), ControlScope::session(id()), "ann", steer);
    let receipt = channel.send(command).await.unwrap();
    while let Some(event) = handle.next().await {
        if let TurnEventKind::Command { fate, .. } = event.kind {
            assert_eq!(fate, Fate::Applied);
            let stored = store.load(&id()).await.unwrap().unwrap();
            assert!(stored.messages.iter().any(|m| m.text() == "left"), "stored before it was told");
        }
    }
    assert_eq!(receipt.fate().await, Fate::Applied);
    let events = store.events(&id(), 0, 100).await.unwrap();
    let types: Vec<_> =
        events.iter().map(|e| e.recorded.event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        types,
        [
            "turn_started",
            "iteration_started",
            "tool_call",
            "tool_result",
            "iteration_finished",
            "iteration_started",
            "command",
            "iteration_finished",
            "turn_finished"
        ]
    );
    assert_eq!(events.iter().map(|e| e.number).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
}
