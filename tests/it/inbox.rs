//! The door for messages: every mode against every state, commands, duplicates, many at once; and shutting down.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::Value;
use turnwright_control::{
    CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, InMemoryControlChannel, Receipt,
    SendError, Wakeup,
};
use turnwright_core::{BoxFuture, CommandId, ImageRef, Outcome, Part, Role, SessionId, Sources, history};
use turnwright_react_runtime::{
    Agent, AgentBuilder, OnDrop, Session, StartError, TurnHandle,
    gate::AskFor,
    input::{BusyMode, CommandDone, Delivered, Inbox, Refused, Submitted, UserMessage},
    store::MemoryStore,
    tool::tool,
};
use turnwright_testkit::Reply;

use crate::support::{agent, read};

const MS: Duration = Duration::from_millis(1);

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn slow(text: &str) -> Reply {
    Reply::new().text(text).wait(MS * 1_000).text(".").finish()
}

fn asks() -> Reply {
    Reply::new().call("a", "write", "{}").finish()
}

fn build(replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    let write = tool("write", "", async |_ctx, args: Value| Ok(args.to_string()));
    let channel: Arc<dyn ControlChannel> = Arc::new(InMemoryControlChannel::new(&Sources::default()));
    agent(replies).tool(write).gate(AskFor::tools(["write"])).channel(channel)
}

fn says(text: &str) -> UserMessage {
    UserMessage::text(text, "ann")
}

async fn started(inbox: &Inbox, text: &str) -> TurnHandle {
    match inbox.submit(&id(), says(text)).await.unwrap() {
        Submitted::Started(turn) => turn,
        other => panic!("{other:?}"),
    }
}

fn users(session: &Session) -> Vec<String> {
    session.messages().iter().filter(|m| m.role == Role::User).map(|m| m.text()).collect()
}

async fn open(agent: &Agent) -> Session {
    agent.open_session(id()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn fault_l2_a_message_for_a_running_turn_is_what_the_mode_says_and_is_never_overwritten() {
    for mode in [BusyMode::Queue, BusyMode::Steer, BusyMode::Interrupt, BusyMode::Reject] {
        let agent = build([slow("one"), slow("two"), slow("three")]).build().unwrap();
        let inbox = Inbox::new(agent.clone()).mode(mode);
        let first = started(&inbox, "first").await;
        tokio::time::sleep(MS * 10).await;
        let image = Part::Image(ImageRef { uri: "blob:1".into(), media_type: None });
        let mut message = says("second");
        message.parts.push(image.clone());
        let submitted = inbox.submit(&id(), message).await;
        let session = open(&agent).await;
        match (mode, submitted) {
            (BusyMode::Queue | BusyMode::Steer, Ok(Submitted::Waits(mut ticket))) => {
                let (ran, delivered) = tokio::join!(read(&session, first), ticket.delivered());
                assert_eq!(ran.result().outcome(), Outcome::Completed);
                match (mode, delivered) {
                    (BusyMode::Queue, Delivered::Landed) => assert_eq!(ran.result().content, "two."),
                    // No model call was to come any more: it began the next turn.
                    (BusyMode::Steer, Delivered::Started(turn)) => {
                        assert_eq!(read(&session, turn).await.result().content, "two.");
                    }
                    other => panic!("{other:?}"),
                }
            }
            (BusyMode::Interrupt, Ok(Submitted::Started(turn))) => {
                let mut first = first;
                assert_eq!(first.result().await.unwrap().outcome(), Outcome::Cancelled);
                assert_eq!(read(&session, turn).await.result().content, "two.");
                let kept = session.messages();
                assert_eq!((kept[1].text().as_str(), kept[1].interrupted.is_some()), ("one", true));
            }
            (BusyMode::Reject, Err(Refused::Busy)) => {
                let _ = read(&session, first).await;
                assert_eq!(users(&session), ["first"]);
                continue;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(users(&session), ["first", "second"], "{mode:?}");
        assert!(
            session.messages().iter().any(|m| m.parts.contains(&image)),
            "{mode:?}: what is attached is kept"
        );
        history::check(session.messages().iter().map(|m| &**m)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn fault_l4_r5_75_a_message_while_an_approval_is_pending_asks_no_model() {
    for mode in [BusyMode::Queue, BusyMode::Steer, BusyMode::Interrupt, BusyMode::Reject] {
        let model = turnwright_testkit::ScriptedModel::new([
            asks(),
            Reply::new().text("two").finish(),
            Reply::new().text("three").finish(),
        ]);
        let channel: Arc<dyn ControlChannel> = Arc::new(InMemoryControlChannel::new(&Sources::default()));
        let write = tool("write", "", async |_ctx, args: Value| Ok(args.to_string()));
        let agent = crate::support::agent_of(&model);
        let agent = agent.tool(write).gate(AskFor::tools(["write"])).channel(channel).build().unwrap();
        let inbox = Inbox::new(agent.clone()).mode(mode);
        let session = open(&agent).await;
        let _ = read(&session, started(&inbox, "first").await).await;
        match (mode, inbox.submit(&id(), says("meanwhile")).await) {
            (BusyMode::Queue | BusyMode::Steer, Ok(Submitted::Waits(mut ticket))) => {
                assert_eq!(model.calls(), 1, "nothing is asked while a decision is outstanding");
                let done = inbox.submit(&id(), says("/approve a")).await.unwrap();
                let Submitted::Command(CommandDone::Leg(turn)) = done else { panic!("{done:?}") };
                let ran = read(&session, turn).await;
                assert!(matches!(ticket.delivered().await, Delivered::Landed));
                assert_eq!(users(&session), ["first", "meanwhile"]);
                assert!(ran.result().content.starts_with('t'));
            }
            (BusyMode::Interrupt, Ok(Submitted::Started(turn))) => {
                assert_eq!(read(&session, turn).await.result().content, "two");
                assert_eq!(users(&session), ["first", "meanwhile"]);
            }
            (BusyMode::Reject, Err(Refused::Busy)) => assert_eq!(session.pending().len(), 1),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn words_that_are_commands_act_at_once_and_others_are_messages() {
    let agent =
        build([slow("one"), asks(), Reply::new().text("ok").finish(), slow("x"), slow("y")]).build().unwrap();
    let inbox = Inbox::new(agent.clone());
    let session = open(&agent).await;
    let command = async |text: &str| match inbox.submit(&id(), says(text)).await.unwrap() {
        Submitted::Command(done) => done,
        other => panic!("{text}: {other:?}"),
    };
    assert!(matches!(command("/stop").await, CommandDone::Nothing));
    assert!(matches!(command("/resume").await, CommandDone::Nothing));
    let turn = started(&inbox, "first").await;
    tokio::time::sleep(MS * 10).await;
    assert!(matches!(command(" /stop ").await, CommandDone::Asked));
    assert!(matches!(command("/stop").await, CommandDone::AskedAlready));
    let ran = read(&session, turn).await;
    assert_eq!(ran.result().cancelled_by.as_ref().unwrap().actor, "ann");
    let _ = read(&session, started(&inbox, "second").await).await;
    assert!(matches!(inbox.submit(&id(), says("/approve zzz")).await, Err(Refused::Unclear(_))));
    let CommandDone::Leg(turn) = command("/deny a not now").await else { panic!() };
    assert_eq!(read(&session, turn).await.result().content, "ok");
    assert!(session.messages().iter().any(|m| m.tool_results().any(|r| r.content.contains("not now"))));
    let turn = started(&inbox, "/stop it, she said").await;
    tokio::time::sleep(MS * 10).await;
    assert!(matches!(command("/pause").await, CommandDone::Asked));
    // The model call that runs is finished first; after it nothing is left to drain.
    assert!(read(&session, turn).await.result.is_some());
    let plain = Inbox::new(agent.clone()).without_commands();
    assert!(matches!(plain.submit(&id(), says("/stop")).await.unwrap(), Submitted::Started(_)));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_twice_counts_once_also_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let fresh = || {
        build([Reply::new().text("ok").finish(), Reply::new().text("ok").finish()])
            .store(store.clone())
            .build()
            .unwrap()
    };
    let agent = fresh();
    let inbox = Inbox::new(agent.clone());
    let session = open(&agent).await;
    let Submitted::Started(turn) = inbox.submit(&id(), says("hi").id("m1")).await.unwrap() else { panic!() };
    assert!(matches!(inbox.submit(&id(), says("hi").id("m1")).await.unwrap(), Submitted::Duplicate));
    let _ = read(&session, turn).await;
    assert!(matches!(inbox.submit(&id(), says("hi").id("m1")).await.unwrap(), Submitted::Duplicate));
    // The same words without an id are words again.
    let again = inbox.submit(&id(), says("hi")).await.unwrap();
    let Submitted::Started(turn) = again else { panic!("{again:?}") };
    let _ = read(&session, turn).await;
    drop((inbox, session, agent));
    let inbox = Inbox::new(fresh());
    assert!(matches!(inbox.submit(&id(), says("hi").id("m1")).await.unwrap(), Submitted::Duplicate));
    // What was refused may come again.
    let refused = inbox.submit(&id(), UserMessage { parts: Vec::new(), ..says("") }.id("m2")).await;
    assert!(matches!(refused, Err(Refused::Start(StartError::InvalidInput))));
    assert!(matches!(inbox.submit(&id(), says("hi").id("m2")).await.unwrap(), Submitted::Started(_)));
}

#[tokio::test(start_paused = true)]
async fn fault_k1_a_hundred_messages_at_once_start_one_turn_and_none_is_lost() {
    let agent = build([slow("one"), Reply::new().text("ok").finish()]).build().unwrap();
    let inbox = Inbox::new(agent.clone());
    let session = open(&agent).await;
    let all = (0..100).map(|n| {
        let inbox = inbox.clone();
        tokio::spawn(async move { inbox.submit(&id(), says(&format!("m{n}"))).await })
    });
    let (mut turns, mut tickets, mut full) = (Vec::new(), Vec::new(), 0);
    for one in futures::future::join_all(all).await {
        match one.unwrap() {
            Ok(Submitted::Started(turn)) => turns.push(turn),
            Ok(Submitted::Waits(ticket)) => tickets.push(ticket),
            Err(Refused::Full { capacity: 50 }) => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((turns.len(), tickets.len(), full), (1, 50, 49));
    let _ = read(&session, turns.pop().unwrap()).await;
    for ticket in &mut tickets {
        assert!(matches!(ticket.delivered().await, Delivered::Landed));
    }
    let mut said = users(&session);
    assert_eq!(said.len(), 51);
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 51, "each once");
    // There is room again.
    let turn = started(&inbox, "more").await;
    assert!(matches!(inbox.submit(&id(), says("and more")).await.unwrap(), Submitted::Waits(_)));
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_came_back_may_come_again() {
    let agent = build([slow("one")]).build().unwrap();
    let inbox = Inbox::new(agent.clone());
    let turn = started(&inbox, "first").await;
    tokio::time::sleep(MS * 10).await;
    let Submitted::Waits(mut ticket) = inbox.submit(&id(), says("second").id("m2")).await.unwrap() else {
        panic!()
    };
    drop(turn);
    let report = agent.shutdown(MS * 5_000).await;
    assert_eq!(report.stuck, 0);
    let Delivered::Returned { input, why } = ticket.delivered().await else { panic!() };
    assert_eq!(input.key.as_deref(), Some("m2"));
    assert!(why.contains("shuts down"), "{why}");
    let again = inbox.submit(&id(), says("second").id("m2")).await;
    assert!(matches!(again, Err(Refused::Start(StartError::ShuttingDown))), "no duplicate: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_channel_says_that_nothing_can_wait() {
    let agent = agent([slow("one")]).build().unwrap();
    let inbox = Inbox::new(agent.clone());
    let _turn = started(&inbox, "first").await;
    assert!(matches!(inbox.submit(&id(), says("second")).await, Err(Refused::NoChannel)));
}

#[tokio::test(start_paused = true)]
async fn fault_a20_what_dropping_a_handle_means_can_be_chosen() {
    for (what, outcome) in
        [(OnDrop::Interrupt, "cancelled"), (OnDrop::Detach, "completed"), (OnDrop::Drain, "drained")]
    {
        for of_handle in [false, true] {
            let two = || [Reply::new().call("a", "look", "{}").finish(), slow("two")];
            let look = tool("look", "", async |_ctx, args: Value| {
                tokio::time::sleep(MS * 100).await;
                Ok(args.to_string())
            });
            let builder = build(two()).tool(look);
            let agent = if of_handle { builder } else { builder.on_drop(what) }.build().unwrap();
            let session = open(&agent).await;
            let turn = session.start("hi").unwrap();
            let turn = if of_handle { turn.on_drop(what) } else { turn };
            tokio::time::sleep(MS * 10).await;
            drop(turn);
            tokio::time::sleep(MS * 5_000).await;
            assert!(!session.is_busy());
            let last = session.messages().last().unwrap().text();
            let found = match (session.is_parked(), last.as_str()) {
                (true, _) => "drained",
                (false, "two.") => "completed",
                _ => "cancelled",
            };
            assert_eq!(found, outcome, "{what:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r8_116_a_shutdown_stops_at_boundaries_and_then_for_good() {
    let look = || {
        tool("look", "", async |_ctx, args: Value| {
            tokio::time::sleep(MS * 100).await;
            Ok(args.to_string())
        })
    };
    let store = Arc::new(MemoryStore::new());
    let script = || [Reply::new().call("a", "look", "{}").finish(), Reply::new().text("done").finish()];
    let agent = build(script()).tool(look()).store(store.clone()).build().unwrap();
    let drains = agent.open_session(SessionId::new("drains").unwrap()).await.unwrap();
    let mut one = drains.start("hi").unwrap();
    tokio::time::sleep(MS * 10).await;
    let both = async { tokio::join!(agent.shutdown(MS * 5_000), agent.shutdown(MS * 5_000)) };
    let (report, again) = both.await;
    assert_eq!((report.parked, report.interrupted, report.stuck, report.errors.len()), (1, 0, 0, 0));
    assert_eq!(again, report, "who asks twice is told the same");
    assert!(one.result().await.is_none());
    assert_eq!(drains.start("more").unwrap_err(), StartError::ShuttingDown);
    // Another process goes on.
    let next = build([Reply::new().text("done").finish()]).tool(look()).store(store).build().unwrap();
    let session = next.open_session(SessionId::new("drains").unwrap()).await.unwrap();
    assert_eq!(read(&session, session.resume().unwrap()).await.result().content, "done");
    // A model that never ends is interrupted, and its words are kept.
    let agent = build([Reply::new().text("I think ").silence()]).build().unwrap();
    let session = open(&agent).await;
    let mut turn = session.start("hi").unwrap();
    while turn.next().await.is_some_and(|e| e.seq < 3) {}
    let report = agent.shutdown(MS * 1_000).await;
    assert_eq!((report.parked, report.interrupted, report.stuck), (0, 1, 0));
    assert_eq!(session.messages()[1].text(), "I think ");
}

/// Sending takes a moment, as with a store behind it.
struct Slow(InMemoryControlChannel);

impl ControlChannel for Slow {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        Box::pin(async move {
            tokio::time::sleep(MS * 5).await;
            self.0.send(command).await
        })
    }
    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        self.0.take(scope, types)
    }
    fn withdraw<'a>(&'a self, session: &'a SessionId, command: CommandId) -> BoxFuture<'a, Option<Delivery>> {
        self.0.withdraw(session, command)
    }
    fn wakeup(&self, session: &SessionId) -> Wakeup {
        self.0.wakeup(session)
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_queued_as_the_turn_ends_begins_the_next_one() {
    let channel: Arc<dyn ControlChannel> = Arc::new(Slow(InMemoryControlChannel::new(&Sources::default())));
    let agent =
        agent([slow("first"), Reply::new().text("second").finish()]).channel(channel).build().unwrap();
    let session = open(&agent).await;
    session.start("one").unwrap().detach();
    tokio::time::sleep(MS * 998).await;
    let waits = Inbox::new(agent.clone()).submit(&id(), says("two")).await.unwrap();
    let Submitted::Waits(mut ticket) = waits else { panic!("{waits:?}") };
    assert!(!session.is_busy(), "the turn ended before the message was in the queue");
    let delivered = tokio::time::timeout(MS * 10_000, ticket.delivered()).await.expect("it waits for ever");
    let Delivered::Started(mut turn) = delivered else { panic!("{delivered:?}") };
    assert_eq!(turn.result().await.unwrap().content, "second");
    assert_eq!(users(&session), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_turn_another_process_had_may_come_again() {
    let store = Arc::new(MemoryStore::new());
    let mine = agent([slow("mine")]).store(store.clone()).build().unwrap();
    let theirs = build([Reply::new().text("yes").finish()]).store(store).build().unwrap();
    let same = open(&theirs).await;
    let mut running = open(&mine).await.start("go").unwrap();
    let inbox = Inbox::new(theirs.clone());
    let first = inbox.submit(&id(), says("two").id("m2")).await.unwrap();
    let Submitted::Started(turn) = first else { panic!("{first:?}") };
    tokio::task::yield_now().await;
    let refused = read(&same, turn).await;
    assert!(refused.result().error.is_some(), "the session is the other process's");
    running.outcome().await;
    let again = inbox.submit(&id(), says("two").id("m2")).await.unwrap();
    assert!(matches!(again, Submitted::Started(_)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_a_drained_turn_comes_back_when_the_agent_shuts_down() {
    let look = tool("look", "", async |_ctx, _: Value| {
        tokio::time::sleep(MS * 800).await;
        Ok("looked")
    });
    let replies = [Reply::new().call("a", "look", "{}").finish(), Reply::new().text("done").finish()];
    let agent = build(replies).tool(look).build().unwrap();
    let inbox = Inbox::new(agent.clone());
    let _turn = started(&inbox, "go").await;
    tokio::time::sleep(MS * 100).await;
    let waits = inbox.submit(&id(), says("and this").id("m")).await.unwrap();
    let Submitted::Waits(mut ticket) = waits else { panic!("{waits:?}") };
    assert_eq!(agent.shutdown(MS * 5_000).await.parked, 1);
    let delivered = tokio::time::timeout(MS * 5_000, ticket.delivered()).await.expect("it waits for ever");
    let Delivered::Returned { input, .. } = delivered else { panic!("{delivered:?}") };
    assert_eq!(input.key.as_deref(), Some("m"));
}
