//! Control from outside: cancel, drain, steer, follow up, drop.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use turnwright_control::{
    CommandBody, ControlChannel, ControlCommand, ControlScope, Fate, InMemoryControlChannel, Receipt,
};
use turnwright_core::{
    CancelCause, Clock, ErrorKind, Origin, Outcome, Part, Role, Sources, StopReason, clock::SystemClock,
};
use turnwright_react_runtime::{Agent, Session, StartError, TurnEventKind, tool::tool};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use crate::support::{agent, read, run};

struct Desk {
    sources: Sources,
    channel: Arc<InMemoryControlChannel>,
    agent: Agent,
    model: ScriptedModel,
}

impl Desk {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let (sources, model) = (virtual_sources(1), ScriptedModel::new(replies));
        let channel = Arc::new(InMemoryControlChannel::new(&sources));
        let agent = Agent::builder("test", model.handle())
            .sources(sources.clone())
            .channel(channel.clone())
            .tool(tool("wait", "", async |_ctx, (): ()| {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Ok("waited")
            }))
            .build()
            .unwrap();
        Self { sources, channel, agent, model }
    }
    fn send(&self, session: &Session, body: CommandBody) -> Receipt {
        let scope = ControlScope::session(session.id().clone());
        let command = ControlCommand::new(&self.sources, scope, "ann", body);
        self.channel.send(command).now_or_never().unwrap().unwrap()
    }
}

fn stop() -> CommandBody {
    CommandBody::CancelTurn { reason: Some("enough".into()) }
}
fn steer(text: &str) -> CommandBody {
    CommandBody::InjectSteer { parts: vec![Part::text(text)] }
}
fn follow_up(text: &str) -> CommandBody {
    CommandBody::InjectUserMessage { parts: vec![Part::text(text)] }
}

#[tokio::test(start_paused = true)]
async fn fault_a1_a10_a_cancel_through_the_channel_stops_a_silent_stream_and_keeps_its_text() {
    let desk = Desk::new([Reply::new().text("Hel").text("lo").silence()]);
    let session = desk.agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipt = desk.send(&session, stop());
    let ran = read(&session, handle).await;
    assert_eq!(receipt.fate().await, Fate::Applied);
    let told = ran.kinds().any(|k| matches!(k, TurnEventKind::Command { fate: Fate::Applied, .. }));
    assert!(told, "what became of the command is an event");
    let result = ran.result();
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Cancelled, "Hello"));
    assert_eq!(result.cancelled_by, Some(CancelCause::requested("ann").reason("enough")));
    let last = ran.messages.last().unwrap();
    assert_eq!(
        (last.text().as_str(), last.interrupted.as_ref().unwrap().reason.as_str()),
        ("Hello", "user_stop")
    );
    assert_eq!(desk.channel.sessions(), 0, "nothing is kept for the session");
}

#[tokio::test(start_paused = true)]
async fn fault_a9_b2_r3_45_a_cancel_stops_a_running_tool_within_the_grace() {
    let desk = Desk::new([Reply::new().call("c", "wait", "{}").finish(), Reply::new().text("no").finish()]);
    let session = desk.agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = SystemClock.instant();
    desk.send(&session, stop());
    let ran = read(&session, handle).await;
    assert!(
        (SystemClock.instant() - start) <= turnwright_react_runtime::GRACE,
        "{:?}",
        (SystemClock.instant() - start)
    );
    assert_eq!((ran.result().outcome(), desk.model.calls()), (Outcome::Cancelled, 1));
    let result = ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap();
    assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::NotRun);
}

#[tokio::test(start_paused = true)]
async fn fault_a8_a_cancel_after_the_end_changes_nothing_and_is_stale() {
    let desk = Desk::new([Reply::new().text("ok").finish(), Reply::new().text("again").finish()]);
    let session = desk.agent.new_session();
    let mut handle = session.start("hi").unwrap();
    assert_eq!(handle.result().await.unwrap().stop_reason, StopReason::Completed);
    handle.cancel(CancelCause::requested("late"));
    assert_eq!(handle.result().await.unwrap().stop_reason, StopReason::Completed);
    // A stop that came between two turns does not hit the next one.
    let late = desk.send(&session, stop());
    tokio::time::advance(Duration::from_millis(1)).await;
    let ran = read(&session, session.start("more").unwrap()).await;
    assert_eq!(ran.result().content, "again");
    assert_eq!(late.fate().await, Fate::Stale);
}

#[tokio::test(start_paused = true)]
async fn fault_r3_42_r3_44_steering_lands_before_the_next_model_call_and_then_counts_as_applied() {
    let desk = Desk::new([
        Reply::new().text("look").call("c", "wait", "{}").finish(),
        Reply::new().text("turned left").finish(),
    ]);
    let session = desk.agent.new_session();
    let handle = session.start("go").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipts: Vec<_> = (0..25).map(|n| desk.send(&session, steer(&format!("left {n}")))).collect();
    assert_eq!(receipts[0].try_fate(), None, "not before it is in history");
    let ran = read(&session, handle).await;
    for receipt in receipts {
        assert_eq!(receipt.fate().await, Fate::Applied);
    }
    let asked = &desk.model.requests()[1].messages;
    let steered: Vec<_> = asked.iter().filter(|m| m.origin == Origin::Steer).map(|m| m.text()).collect();
    assert_eq!(steered.len(), 25, "fault R3.43: a burst loses none");
    assert_eq!((steered[0].as_str(), steered[24].as_str()), ("left 0", "left 24"));
    assert_eq!(asked[2].role, Role::Tool, "after the tool batch");
    assert_eq!(ran.result().content, "turned left");
}

#[tokio::test(start_paused = true)]
async fn fault_r3_56_a_follow_up_lands_when_the_turn_would_end() {
    let desk = Desk::new([Reply::new().text("one").finish(), Reply::new().text("two").finish()]);
    let session = desk.agent.new_session();
    let receipt = desk.send(&session, follow_up("and then?"));
    let ran = read(&session, session.start("go").unwrap()).await;
    assert_eq!(receipt.fate().await, Fate::Applied);
    assert_eq!((ran.result().content.as_str(), ran.result().iterations), ("two", 2));
    let texts: Vec<_> = ran.messages.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["go", "one", "and then?", "two"]);
    let told = ran.kinds().any(|k| matches!(k, TurnEventKind::Command { fate: Fate::Applied, .. }));
    assert!(told, "what became of a command is an event");
}

#[tokio::test(start_paused = true)]
async fn messages_a_cancelled_turn_did_not_use_go_back_to_their_sender() {
    let desk = Desk::new([Reply::new().text("Hel").silence()]);
    let session = desk.agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unused = [desk.send(&session, steer("left")), desk.send(&session, follow_up("more"))];
    desk.send(&session, stop());
    let _ = read(&session, handle).await;
    for receipt in unused {
        assert!(matches!(receipt.fate().await, Fate::Returned { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drained_turn_stops_at_a_boundary_and_goes_on_where_it_was() {
    let desk = Desk::new([
        Reply::new().text("look").call("c", "wait", "{}").finish(),
        Reply::new().text("done").finish(),
    ]);
    let session = desk.agent.new_session();
    let handle = session.start("go").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipt = desk.send(&session, CommandBody::DrainTurn);
    let ran = read(&session, handle).await;
    assert_eq!(receipt.fate().await, Fate::Applied);
    assert!(ran.result.is_none() && session.is_parked());
    assert!(matches!(
        ran.kinds().last(),
        Some(TurnEventKind::TurnFinished(f)) if f.outcome == Outcome::Drained && !f.terminal
    ));
    assert_eq!(session.start("more").unwrap_err(), StartError::Parked);
    let rest = read(&session, session.resume().unwrap()).await;
    assert_eq!((rest.result().content.as_str(), desk.model.calls()), ("done", 2));
}

#[tokio::test(start_paused = true)]
async fn fault_k1_a_second_turn_of_a_session_is_refused_while_one_runs() {
    let desk = Desk::new([Reply::new().wait(Duration::from_secs(1)).text("ok").finish()]);
    let session = desk.agent.new_session();
    let handle = session.start("hi").unwrap();
    assert_eq!(session.start("me too").unwrap_err(), StartError::Busy);
    let same = desk.agent.open_session(session.id().clone()).await.unwrap();
    assert_eq!(same.start("me too").unwrap_err(), StartError::Busy, "one id is one session");
    let ran = read(&session, handle).await;
    assert_eq!(ran.result().content, "ok");
    assert_eq!(session.messages().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_interrupts_and_detaching_does_not() {
    let desk = Desk::new([
        Reply::new().text("a").wait(Duration::from_secs(5)).text("b").finish(),
        Reply::new().text("c").finish(),
    ]);
    let session = desk.agent.new_session();
    let mut handle = session.start("hi").unwrap();
    while let Some(event) = handle.next().await {
        if matches!(event.kind, TurnEventKind::TextDelta { .. }) {
            break;
        }
    }
    drop(handle);
    while session.is_busy() {
        tokio::task::yield_now().await;
    }
    let last = session.messages().last().unwrap().clone();
    assert_eq!((last.text().as_str(), last.interrupted.is_some()), ("a", true), "fault A5");
    session.start("more").unwrap().detach();
    while session.is_busy() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(session.messages().last().unwrap().text(), "c");
}

#[test]
fn a_runtime_that_goes_away_leaves_a_legal_history_and_one_last_event() {
    for polled in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (session, mut handle) = runtime.block_on(async {
            let agent = agent([Reply::new().text("Hel").silence()]).build().unwrap();
            let session = agent.new_session();
            let mut handle = session.start("hi").unwrap();
            if polled {
                while let Some(event) = handle.next().await {
                    if matches!(event.kind, TurnEventKind::TextDelta { .. }) {
                        break;
                    }
                }
            }
            (session, handle)
        });
        drop(runtime);
        let result = handle.outcome().now_or_never().unwrap().finished().unwrap();
        assert_eq!(result.stop_reason, StopReason::Error);
        assert!(!session.is_busy());
        let texts: Vec<_> = session.messages().iter().map(|m| m.text()).collect();
        assert_eq!(texts, if polled { vec!["hi", "Hel"] } else { vec!["hi"] }, "fault R3.40");
    }
}

#[test]
fn starting_outside_of_a_runtime_is_an_error_and_no_panic() {
    let agent = agent([]).build().unwrap();
    let session = agent.new_session();
    let e = session.start("hi").unwrap_err();
    assert!(e.to_string().contains("no tokio runtime here"), "{e}");
    assert!(!session.is_busy() && session.messages().is_empty());
}

#[tokio::test(start_paused = true)]
async fn fault_r1_33_the_deadline_always_leads_to_an_end() {
    let agent =
        agent([Reply::new().text("Hel").silence()]).deadline(Duration::from_secs(30)).build().unwrap();
    let start = SystemClock.instant();
    let ran = run(&agent, "hi").await;
    assert_eq!((ran.result().outcome(), ran.result().content.as_str()), (Outcome::TimedOut, "Hel"));
    assert!((SystemClock.instant() - start) < Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn fault_k5_k8_nothing_is_kept_of_a_session_that_is_gone() {
    let desk = Desk::new([Reply::new().text("ok").finish()]);
    for _ in 0..100 {
        let session = desk.agent.new_session();
        let _ = read(&session, session.start("hi").unwrap()).await;
    }
    assert_eq!((desk.agent.open_sessions(), desk.channel.sessions()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn fault_a20_a_detached_turn_is_stopped_through_its_session() {
    let desk = Desk::new([Reply::new().text("Hel").silence()]);
    let session = desk.agent.new_session();
    session.start("hi").unwrap().detach();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipt = desk.send(&session, stop());
    assert_eq!(receipt.fate().await, Fate::Applied);
    while session.is_busy() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(session.messages().last().unwrap().text(), "Hel");
}

#[tokio::test(start_paused = true)]
async fn fault_a15_a_graceful_stop_with_a_slow_reader_loses_no_event_and_asks_no_more() {
    let desk = Desk::new([
        Reply::new().text("a").text("b").call("c", "wait", "{}").finish(),
        Reply::new().text("no").finish(),
    ]);
    let session = desk.agent.new_session();
    let mut handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.drain();
    // Nobody reads until the leg is over.
    assert_eq!(handle.outcome().await.outcome(), Outcome::Drained);
    let ran = read(&session, handle).await;
    let text: String = ran
        .kinds()
        .filter_map(|k| match k {
            TurnEventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((text.as_str(), desk.model.calls()), ("ab", 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_the_run_is_the_turns_too() {
    let desk = Desk::new([Reply::new().text("Hel").silence()]);
    let session = desk.agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let receipt = desk.send(&session, CommandBody::CancelRun { reason: None });
    let ran = read(&session, handle).await;
    assert_eq!((receipt.fate().await, ran.result().outcome()), (Fate::Applied, Outcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn fault_l8_the_end_of_a_turn_lists_what_it_gave_back_and_what_still_waits() {
    let channel = Arc::new(InMemoryControlChannel::new(&Sources::default()));
    let agent = agent([Reply::new().text("I think ").silence()]).channel(channel.clone()).build().unwrap();
    let session = agent.new_session();
    let handle = session.start("hi").unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let send = async |body: CommandBody, scope: ControlScope| {
        let command = ControlCommand::new(&Sources::default(), scope, "ann", body);
        channel.send(command).await.unwrap()
    };
    let here = || ControlScope::session(session.id().clone());
    let steer = send(CommandBody::InjectSteer { parts: vec![Part::text("left")] }, here()).await;
    let say = send(CommandBody::InjectUserMessage { parts: vec![Part::text("and then?")] }, here()).await;
    let graph = send(CommandBody::PauseGraph, ControlScope::graph(session.id().clone(), "g")).await;
    let stop = send(CommandBody::CancelTurn { reason: Some("enough".into()) }, here()).await;
    let ran = read(&session, handle).await;
    let Some(TurnEventKind::TurnFinished(end)) = ran.events.last().map(|e| &e.kind) else { panic!() };
    assert_eq!(end.cancelled_by.as_ref().unwrap().to_string(), "cancelled by ann: enough");
    assert_eq!((&end.returned, &end.queued), (&vec![steer.id(), say.id()], &vec![graph.id()]));
    assert_eq!(stop.fate().await, Fate::Applied);
    for receipt in [steer, say] {
        assert!(matches!(receipt.fate().await, Fate::Returned { .. }));
    }
    assert_eq!(graph.try_fate(), None);
}
