//! Messages and commands for a turn that another process has: two stores over one file stand for two processes.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use turnwright_control::{CommandBody, ControlChannel, ControlCommand, ControlScope, Fate};
use turnwright_core::{ErrorKind, Outcome, Part, SessionId, Sources};
use turnwright_react_runtime::{
    Agent, AgentBuilder,
    gate::AskFor,
    input::{BusyMode, CommandDone, Delivered, Inbox, Submitted, Ticket, UserMessage},
    tool::tool,
};
use turnwright_store::{SqliteOptions, SqliteStore};
use turnwright_testkit::{Reply, ScriptedModel};

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn build(path: &Path, replies: Vec<Reply>) -> AgentBuilder {
    let store = SqliteStore::open(path).unwrap();
    let wait = tool("wait", "", async |_ctx, _: serde_json::Value| {
        tokio::time::sleep(MS * 800).await;
        Ok("waited")
    });
    let agent = Agent::builder("a", ScriptedModel::new(replies).handle()).tool(wait).channel(store.channel());
    agent.store(Arc::new(store))
}

fn agent(path: &Path, replies: Vec<Reply>) -> Agent {
    build(path, replies).build().unwrap()
}

fn stop() -> ControlCommand {
    let body = CommandBody::CancelTurn { reason: None };
    ControlCommand::new(&Sources::default(), ControlScope::session(id()), "ann", body)
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

fn works() -> Vec<Reply> {
    vec![Reply::new().call("a", "wait", "{}").finish(), says("done")]
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
async fn waits(agent: &Agent, mode: BusyMode, text: &str) -> Ticket {
    let inbox = Inbox::new(agent.clone()).mode(mode);
    match inbox.submit(&id(), UserMessage::text(text, "ann")).await.unwrap() {
        Submitted::Waits(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_message_takes_nothing_from_the_process_that_runs_the_turn() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let twice = [works(), works()].concat();
    let (theirs, ours) = (agent(&path, twice), agent(&path, vec![]));
    let mut turn = theirs.open_session(id()).await.unwrap().start("go").unwrap();
    tokio::time::sleep(MS * 200).await;
    let mut ticket = waits(&ours, BusyMode::Steer, "left").await;
    let told = tokio::spawn(async move { tokio::time::timeout(PATIENCE, ticket.delivered()).await });
    assert_eq!(turn.outcome().await.outcome(), Outcome::Completed);
    assert!(matches!(told.await.unwrap(), Ok(Delivered::Landed)), "it landed in their turn");

    let mut turn = theirs.open_session(id()).await.unwrap().start("go on").unwrap();
    tokio::time::sleep(MS * 200).await;
    let mut ticket = waits(&ours, BusyMode::Queue, "and this").await;
    let told = tokio::spawn(async move { tokio::time::timeout(MS * 700, ticket.delivered()).await });
    // The tool of their turn is in its first half still: with a stop after its end, nobody need take it.
    tokio::time::sleep(MS * 100).await;
    let third = SqliteStore::open(&path).unwrap().channel();
    let receipt = third.send(stop()).await.unwrap();
    let fate = tokio::time::timeout(PATIENCE, receipt.fate()).await.expect("somebody took it and kept it");
    assert!(matches!(fate, Fate::Applied | Fate::Stale | Fate::Returned { .. }), "{fate:?}");
    turn.outcome().await;
    drop(told.await);
}

#[tokio::test]
async fn what_was_sent_before_a_turn_is_in_it_however_quick_that_is() {
    for _ in 0..10 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("s.db");
        let agent = agent(&path, vec![says("one"), says("two")]);
        let body = CommandBody::InjectUserMessage { parts: vec![Part::text("by the way")] };
        let command = ControlCommand::new(&Sources::default(), ControlScope::session(id()), "ann", body);
        let theirs = SqliteStore::open(&path).unwrap().channel();
        drop(theirs.send(command).await.unwrap());
        drop(theirs);
        let session = agent.open_session(id()).await.unwrap();
        let result = session.start("go").unwrap().result().await.unwrap();
        assert_eq!(result.content, "two", "it was not there yet when the turn was over");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_for_a_turn_which_goes_on_elsewhere_is_not_left_waiting() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let gated = |replies| build(&path, replies).gate(AskFor::tools(["wait"])).build().unwrap();
    let ours = gated(vec![Reply::new().call("a", "wait", "{}").finish(), says("mine")]);
    let theirs = gated(vec![says("done"), says("again")]);
    let started = Inbox::new(ours.clone()).submit(&id(), UserMessage::text("go", "ann")).await.unwrap();
    let Submitted::Started(mut turn) = started else { panic!("{started:?}") };
    assert_eq!(turn.outcome().await.outcome(), Outcome::Suspended);
    let mut ticket = waits(&ours, BusyMode::Queue, "and this").await;
    let told = tokio::spawn(async move { tokio::time::timeout(PATIENCE, ticket.delivered()).await });
    tokio::time::sleep(MS * 300).await;
    let approved = Inbox::new(theirs.clone()).submit(&id(), UserMessage::text("/approve all", "bob")).await;
    let Ok(Submitted::Command(CommandDone::Leg(mut leg))) = approved else { panic!("{approved:?}") };
    leg.outcome().await;
    match told.await.unwrap().expect("it waits for ever") {
        Delivered::Landed => {}
        Delivered::Started(mut turn) => assert_eq!(turn.outcome().await.outcome(), Outcome::Completed),
        other => panic!("{other:?}"),
    }
    let messages = theirs.open_session(id()).await.unwrap().messages();
    assert_eq!(messages.iter().filter(|m| m.text() == "and this").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leg_that_never_begins_takes_no_command_from_the_one_that_runs() {
    for _ in 0..4 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("s.db");
        let theirs = agent(&path, vec![Reply::new().text("x").silence()]);
        let (ours, third) = (agent(&path, vec![]), SqliteStore::open(&path).unwrap().channel());
        let mut turn = theirs.open_session(id()).await.unwrap().start("go").unwrap();
        tokio::time::sleep(MS * 100).await;
        let same = ours.open_session(id()).await.unwrap();
        let receipt = third.send(stop()).await.unwrap();
        let refused = same.resume().unwrap().result().await.unwrap();
        let kind = refused.error.map(|e| e.kind);
        assert!(matches!(kind, Some(ErrorKind::SessionHeld | ErrorKind::Conflict)), "{kind:?}");
        let ended = tokio::time::timeout(PATIENCE, turn.outcome()).await.expect("the stop was taken away");
        assert_eq!(ended.outcome(), Outcome::Cancelled);
        assert_eq!(receipt.fate().await, Fate::Applied);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_comes_right_after_the_start_is_meant_for_that_turn() {
    for _ in 0..20 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("s.db");
        let channel = SqliteStore::open(&path).unwrap().channel();
        let session = agent(&path, vec![Reply::new().text("x").silence()]).open_session(id()).await.unwrap();
        let mut turn = session.start("go").unwrap();
        let receipt = channel.send(stop()).await.unwrap();
        let fate = tokio::time::timeout(PATIENCE, receipt.fate()).await.unwrap();
        assert_eq!((fate, turn.outcome().await.outcome()), (Fate::Applied, Outcome::Cancelled));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_pause_of_an_inbox_reach_the_process_that_runs_the_turn() {
    for (word, ends) in [("/stop", Outcome::Cancelled), ("/pause", Outcome::Drained)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("s.db");
        let (theirs, ours) = (agent(&path, works()), agent(&path, vec![]));
        let mut turn = theirs.open_session(id()).await.unwrap().start("go").unwrap();
        tokio::time::sleep(MS * 200).await;
        let done = Inbox::new(ours.clone()).submit(&id(), UserMessage::text(word, "ann")).await.unwrap();
        let Submitted::Command(CommandDone::Sent(receipt)) = done else { panic!("{done:?}") };
        assert_eq!(turn.outcome().await.outcome(), ends, "{word}");
        assert_eq!(tokio::time::timeout(PATIENCE, receipt.fate()).await, Ok(Fate::Applied));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_sender_went_away_may_come_again() {
    let folder = TempDir::new().unwrap();
    let agent = agent(&folder.path().join("s.db"), vec![Reply::new().text("x").silence(), says("two")]);
    let inbox = Inbox::new(agent.clone()).mode(BusyMode::Interrupt);
    let message = |text: &str, id: &str| UserMessage::text(text, "ann").id(id);
    let Submitted::Started(mut first) = inbox.submit(&id(), message("first", "m1")).await.unwrap() else {
        panic!()
    };
    tokio::time::sleep(MS * 200).await;
    let session = agent.open_session(id()).await.unwrap();
    // The client goes away while its message takes the turn's place.
    let gone = tokio::time::timeout(Duration::ZERO, inbox.submit(&id(), message("second", "m2"))).await;
    assert!(gone.is_err());
    // Whether its stop was on its way already is left open: it stops the turn now at the latest.
    let again = inbox.submit(&id(), message("second", "m2")).await.unwrap();
    first.outcome().await;
    let Submitted::Started(mut turn) = again else { panic!("{again:?}") };
    assert_eq!(turn.result().await.unwrap().content, "two");
    assert_eq!(session.messages().iter().filter(|m| m.text() == "second").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_could_not_be_given_back_are_given_back_later() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let open = || {
        let options = SqliteOptions { busy_timeout: MS * 20, ..SqliteOptions::default() };
        SqliteStore::open_with(&path, options, Sources::default()).unwrap()
    };
    let (here, there) = (open(), open());
    let (ours, theirs) = (here.channel(), there.channel());
    let listening = ours.wakeup(&id());
    let receipt = ours.send(stop()).await.unwrap();
    let until = async |channel: &dyn ControlChannel, wanted: usize| {
        for _ in 0..2000 {
            if channel.queued(&id()).len() == wanted {
                return true;
            }
            tokio::time::sleep(MS * 2).await;
        }
        false
    };
    assert!(until(&*ours, 1).await);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(listening);
    tokio::time::sleep(MS * 800).await;
    db.execute_batch("ROLLBACK").unwrap();
    let _listening = theirs.wakeup(&id());
    assert!(until(&*theirs, 1).await, "it is nobody's for ever");
    assert_eq!(receipt.try_fate(), None);
}
