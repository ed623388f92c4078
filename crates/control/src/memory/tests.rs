//! What the in-memory channel promises.

use std::time::Duration;

use futures::FutureExt;
use turnwright_core::{CancelCause, Part, TurnContext};

use super::*;
use crate::{CommandBody, Fate, drain_control_channel, return_leftovers, take_messages};

mod bounds;
mod locks;

struct Desk {
    sources: Sources,
    channel: InMemoryControlChannel,
    ctx: TurnContext,
}

impl Desk {
    fn new() -> Self {
        Self::with(ChannelLimits::default())
    }
    fn with(limits: ChannelLimits) -> Self {
        let sources = Sources::default();
        let channel = InMemoryControlChannel::with_limits(&sources, limits);
        let ctx = TurnContext::builder(SessionId::new("s").unwrap()).sources(sources.clone()).build();
        Self { sources, channel, ctx }
    }
    fn scope(&self) -> ControlScope {
        ControlScope::session(self.ctx.session().clone())
    }
    fn command(&self, body: CommandBody) -> ControlCommand {
        ControlCommand::new(&self.sources, self.scope(), "ann", body)
    }
    fn cancel(&self) -> ControlCommand {
        self.command(CommandBody::CancelTurn { reason: Some("enough".into()) })
    }
    fn steer(&self, text: &str) -> ControlCommand {
        self.command(CommandBody::InjectSteer { parts: vec![Part::text(text)] })
    }
    fn send(&self, command: ControlCommand) -> Receipt {
        self.channel.send(command).now_or_never().unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_latches_in_the_context_and_every_later_drain_sees_it() {
    let d = Desk::new();
    assert!(drain_control_channel(&d.channel, &d.ctx).is_ok());
    let receipt = d.send(d.cancel());
    let first = drain_control_channel(&d.channel, &d.ctx).unwrap_err();
    let second = drain_control_channel(&d.channel, &d.ctx).unwrap_err();
    assert_eq!(first, second);
    assert_eq!(first.cause(), Some(&CancelCause::requested("ann").reason("enough")));
    assert_eq!(receipt.fate().await, Fate::Applied);
}

#[tokio::test(start_paused = true)]
async fn a_command_for_another_turn_or_accepted_before_this_one_is_stale() {
    let d = Desk::new();
    let mut other = d.cancel();
    other.scope.turn = Some(d.sources.id());
    let other = d.send(other);
    assert!(drain_control_channel(&d.channel, &d.ctx).is_ok());
    assert_eq!(other.fate().await, Fate::Stale);
    let older = d.send(d.cancel());
    let later = d.ctx.started_at() + Duration::from_secs(3600);
    let later = TurnContext::builder(d.ctx.session().clone()).started_at(later).build();
    assert!(drain_control_channel(&d.channel, &later).is_ok());
    assert_eq!(older.fate().await, Fate::Stale);
}

#[tokio::test(start_paused = true)]
async fn the_senders_clock_decides_nothing() {
    let d = Desk::new();
    let mut slow = d.cancel();
    slow.created_at = d.ctx.started_at() - Duration::from_secs(3600);
    let receipt = d.send(slow);
    assert!(
        drain_control_channel(&d.channel, &d.ctx).is_err(),
        "a real stop of a sender whose clock is slow"
    );
    assert_eq!(receipt.fate().await, Fate::Applied);
    let mut fast = d.steer("left");
    fast.created_at = d.ctx.started_at() + Duration::from_secs(3600);
    let before = d.sources.clock.now();
    d.send(fast);
    let taken = take_messages(&d.channel, &d.ctx, CommandType::InjectSteer);
    assert!((before..=d.sources.clock.now()).contains(&taken[0].accepted_at()));
}

#[tokio::test(start_paused = true)]
async fn a_command_without_a_message_expires_and_one_with_a_message_does_not() {
    let d = Desk::new();
    let (cancel, steer) = (d.send(d.cancel()), d.send(d.steer("left")));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert_eq!(d.channel.sessions(), 1);
    assert_eq!(cancel.try_fate(), None);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(drain_control_channel(&d.channel, &d.ctx).is_ok());
    assert_eq!(cancel.fate().await, Fate::Expired);
    let taken = take_messages(&d.channel, &d.ctx, CommandType::InjectSteer);
    assert_eq!(taken.len(), 1);
    drop(taken);
    assert!(matches!(steer.fate().await, Fate::Returned { .. }), "dropped unused: returned, never lost");
    assert_eq!((d.channel.waiting(), d.channel.sessions()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn fault_l5_priority_orders_and_equal_ones_keep_their_order() {
    let d = Desk::new();
    for (text, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        d.send(d.steer(text).priority(priority));
    }
    let taken = take_messages(&d.channel, &d.ctx, CommandType::InjectSteer);
    let texts: Vec<_> = taken
        .iter()
        .map(|t| match &t.command.body {
            CommandBody::InjectSteer { parts } => parts[0].as_text().unwrap().to_owned(),
            _ => unreachable!(),
        })
        .collect();
    assert_eq!(texts, ["b", "d", "a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_key_is_the_same_command() {
    let d = Desk::new();
    let first = d.send(d.cancel().idempotency_key("stop-1"));
    let again = d.send(d.cancel().idempotency_key("stop-1"));
    assert_eq!(first.id(), again.id());
    assert_eq!(d.channel.waiting(), 1);
    let _ = drain_control_channel(&d.channel, &d.ctx);
    assert_eq!(again.fate().await, Fate::Applied);
    let late = d.send(d.cancel().idempotency_key("stop-1"));
    assert_eq!(late.try_fate(), Some(Fate::Applied), "also after it was applied");
    tokio::time::advance(ControlCommand::DEFAULT_TTL).await;
    assert_eq!(d.channel.sessions(), 0, "keys are forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_says_so() {
    let d = Desk::with(ChannelLimits { per_session: 1, ..ChannelLimits::default() });
    d.send(d.steer("a"));
    let e = d.channel.send(d.steer("b")).await.unwrap_err();
    assert_eq!(e.to_string(), "the control queue of session s is full: 1 commands wait");
}

#[tokio::test(start_paused = true)]
async fn approval_is_refused_and_names_the_way() {
    let d = Desk::new();
    let e = d.channel.send(d.command(CommandBody::ApprovalResponse)).await.unwrap_err();
    assert!(e.to_string().contains("Session::decide"), "{e}");
    let e = d.channel.send(d.command(CommandBody::PauseGraph)).await.unwrap_err();
    assert!(e.to_string().contains("graph instance"), "{e}");
}

#[tokio::test(start_paused = true)]
async fn a_wakeup_is_level_triggered_and_idle_sessions_are_forgotten() {
    let d = Desk::new();
    let mut wakeup = d.channel.wakeup(d.ctx.session());
    assert_eq!(wakeup.arrived().now_or_never(), None);
    d.send(d.cancel());
    assert_eq!(wakeup.arrived().now_or_never(), Some(()));
    assert_eq!(wakeup.arrived().now_or_never(), None);
    let _ = drain_control_channel(&d.channel, &d.ctx);
    assert_eq!(d.channel.sessions(), 1, "somebody listens");
    drop(wakeup);
    assert_eq!(d.channel.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_finished_turn_go_back_or_are_stale() {
    let d = Desk::new();
    let (steer, cancel) = (d.send(d.steer("x")), d.send(d.cancel()));
    let mut told = Vec::new();
    return_leftovers(&d.channel, &d.ctx, &mut |command, _| told.push(command.command_type()));
    assert_eq!(told, [CommandType::CancelTurn, CommandType::InjectSteer]);
    assert!(matches!(steer.fate().await, Fate::Returned { .. }));
    assert_eq!(cancel.fate().await, Fate::Stale);
}

#[test]
fn types_have_their_protocol_names() {
    assert_eq!(serde_json::to_string(&CommandType::CancelTurn).unwrap(), r#""CANCEL_TURN""#);
    let body = CommandBody::DeliverToNode { node: "review".into(), parts: vec![] };
    assert_eq!(
        serde_json::to_string(&body).unwrap(),
        r#"{"type":"DELIVER_TO_NODE","node":"review","parts":[]}"#
    );
}
