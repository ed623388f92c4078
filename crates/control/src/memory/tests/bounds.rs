//! Room for exits, idempotency keys, and what is kept for whom.

use turnwright_core::SessionId;

use super::*;

fn session(name: impl Into<String>) -> SessionId {
    SessionId::new(name.into()).unwrap()
}

fn exits(d: &Desk) -> Vec<ControlCommand> {
    let mut exits: Vec<_> = [
        CommandBody::CancelTurn { reason: None },
        CommandBody::CancelRun { reason: None },
        CommandBody::DrainTurn,
        CommandBody::PauseGraph,
        CommandBody::StopGraph,
    ]
    .map(|body| d.command(body))
    .into();
    for exit in &mut exits {
        exit.scope.graph_instance = Some("g".into());
    }
    exits
}

async fn refused(d: &Desk, command: ControlCommand) -> SendError {
    d.channel.send(command).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_stop_gets_through_a_full_session_and_a_full_channel() {
    for limits in [
        ChannelLimits { per_session: 2, ..ChannelLimits::default() },
        ChannelLimits { total: 5, ..ChannelLimits::default() },
    ] {
        let d = Desk::with(limits);
        while d.channel.send(d.steer("left")).await.is_ok() {}
        for exit in exits(&d) {
            d.send(exit);
        }
        assert!(matches!(refused(&d, d.steer("left")).await, SendError::Full { .. }));
        let mut resume = d.command(CommandBody::ResumeGraph);
        resume.scope.graph_instance = Some("g".into());
        assert!(matches!(refused(&d, resume).await, SendError::Full { .. }), "no exit");
    }
}

#[tokio::test(start_paused = true)]
async fn the_reserve_is_bounded_a_session_and_in_all() {
    let d = Desk::with(ChannelLimits { per_session: 1, total: 20, ..ChannelLimits::default() });
    d.send(d.steer("left"));
    for _ in 0..ChannelLimits::EXIT_RESERVE {
        d.send(d.cancel());
    }
    let e = refused(&d, d.cancel()).await;
    assert_eq!(e.to_string(), "the control queue of session s is full: 1 commands wait");
    let others = |i: usize| {
        let mut other = d.cancel();
        other.scope.session = session(format!("s{i}"));
        other
    };
    for i in ChannelLimits::EXIT_RESERVE..20 {
        d.send(others(i));
    }
    let e = refused(&d, others(20)).await;
    assert_eq!(e.to_string(), "the control queue of the channel is full: 20 commands wait");
    // What is taken makes room again.
    assert!(drain_control_channel(&d.channel, &d.ctx).is_err());
    d.send(d.cancel());
    tokio::time::advance(ControlCommand::DEFAULT_TTL).await;
    assert_eq!(d.channel.sessions(), 1, "the message stays");
    for i in 0..20 {
        d.send(others(i));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_command_is_refused() {
    let d = Desk::new();
    let first = d.send(d.steer("left").idempotency_key("k"));
    let e = refused(&d, d.steer("right").idempotency_key("k")).await;
    assert!(matches!(e, SendError::Invalid(_)), "{e}");
    assert!(e.to_string().ends_with(r#"the idempotency key "k" was used for another command"#), "{e}");
    let mut elsewhere = d.steer("left").idempotency_key("k");
    elsewhere.scope.turn = Some(d.ctx.turn());
    assert!(matches!(refused(&d, elsewhere).await, SendError::Invalid(_)));
    assert_eq!(d.send(d.steer("left").idempotency_key("k")).id(), first.id());
    let mut other_session = d.steer("right").idempotency_key("k");
    other_session.scope.session = session("t");
    assert_ne!(d.send(other_session).id(), first.id(), "keys belong to a session");
    assert_eq!(d.channel.waiting(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_keyed_command_a_session_is_not_kept_for_ever() {
    let d = Desk::new();
    let kept = || d.channel.inner.lock().sessions.len();
    for i in 0..100 {
        let mut cancel = d.cancel().idempotency_key("stop");
        cancel.scope.session = session(format!("s{i}"));
        d.send(cancel);
    }
    assert_eq!(kept(), 100);
    tokio::time::advance(ControlCommand::DEFAULT_TTL).await;
    for _ in 0..256 {
        drop(d.send(d.cancel()));
        let _ = d.channel.take(&d.scope(), &[CommandType::CancelTurn]);
    }
    assert!(kept() <= 1, "swept: {} are left", kept());
}

#[tokio::test(start_paused = true)]
async fn listeners_alone_pile_nothing_up() {
    let d = Desk::new();
    for i in 0..1000 {
        drop(d.channel.wakeup(&session(format!("s{i}"))));
    }
    assert!(d.channel.inner.lock().sessions.len() <= 256);
}

#[tokio::test(start_paused = true)]
async fn taking_forgets_the_old_keys_of_a_session_behind_one_without_a_fate_too() {
    let d = Desk::new();
    let kept = || d.channel.inner.lock().sessions.len();
    d.send(d.steer("left").idempotency_key("steer"));
    d.send(d.cancel().idempotency_key("stop"));
    drop(d.channel.take(&d.scope(), &[CommandType::CancelTurn]));
    tokio::time::advance(ControlCommand::DEFAULT_TTL).await;
    assert!(d.channel.take(&d.scope(), &[]).is_empty());
    let other = d.send(d.command(CommandBody::DrainTurn).idempotency_key("stop"));
    assert_eq!(other.try_fate(), None, "the old key is free although an older one still waits");
    drop(d.channel.take(&d.scope(), &[CommandType::InjectSteer, CommandType::DrainTurn]));
    tokio::time::advance(ControlCommand::DEFAULT_TTL).await;
    assert!(d.channel.take(&d.scope(), &[]).is_empty());
    assert_eq!(kept(), 0);
}
