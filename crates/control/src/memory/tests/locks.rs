//! Nothing of a listener runs under the channel's lock.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    task::{Context, Wake, Waker},
};

use super::*;

/// Calls back into the channel when it is woken.
struct Nosy {
    channel: Arc<InMemoryControlChannel>,
    scope: ControlScope,
    woken: AtomicU32,
    was_locked: AtomicBool,
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Relaxed);
        // Asked first, so that the test fails instead of hanging.
        if self.channel.inner.is_locked() {
            self.was_locked.store(true, Relaxed);
            return;
        }
        self.channel.waiting();
        self.channel.sessions();
        drop(self.channel.take(&self.scope, &[CommandType::DrainTurn]));
        drop(self.channel.wakeup(&self.scope.session));
    }
}

type Act = fn(&InMemoryControlChannel, &Desk);

/// One waits for the fate of a cancel and for arrivals; then this happens.
async fn woken_by(limits: ChannelLimits, wait: Duration, act: Act) -> (u32, bool) {
    let d = Desk::new();
    let channel = Arc::new(InMemoryControlChannel::with_limits(&d.sources, limits));
    let nosy = Arc::new(Nosy {
        channel: channel.clone(),
        scope: d.scope(),
        woken: AtomicU32::new(0),
        was_locked: AtomicBool::new(false),
    });
    let waker = Waker::from(nosy.clone());
    let receipt = channel.send(d.cancel()).await.unwrap();
    let mut fate = pin!(receipt.fate());
    assert!(fate.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let mut wakeup = channel.wakeup(d.ctx.session());
    let mut arrived = pin!(wakeup.arrived());
    assert!(arrived.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tokio::time::advance(wait).await;
    act(&channel, &d);
    (nosy.woken.load(Relaxed), nosy.was_locked.load(Relaxed))
}

#[tokio::test(start_paused = true)]
async fn wakers_may_call_back_whatever_wakes_them() {
    fn send(channel: &InMemoryControlChannel, command: ControlCommand) -> bool {
        channel.send(command).now_or_never().unwrap().is_ok()
    }
    let (limits, over) = (ChannelLimits::default(), ControlCommand::DEFAULT_TTL);
    let no_room = ChannelLimits { per_session: 1, ..limits };
    let one_in_all = ChannelLimits { total: 1, ..limits };
    let cases: [(&str, ChannelLimits, Duration, Act, u32); 9] = [
        ("arrival", limits, Duration::ZERO, |c, d| assert!(send(c, d.cancel())), 1),
        ("accept", limits, over, |c, d| assert!(send(c, d.steer("left"))), 2),
        ("room", no_room, over, |c, d| assert!(send(c, d.steer("left"))), 2),
        (
            "sweep",
            one_in_all,
            over,
            |c, d| {
                let mut other = d.steer("left");
                other.scope.session = SessionId::new("t").unwrap();
                assert!(send(c, other));
            },
            1,
        ),
        ("take", limits, over, |c, d| assert!(c.take(&d.scope(), &[CommandType::CancelTurn]).is_empty()), 1),
        ("sessions", limits, over, |c, _| assert_eq!(c.sessions(), 1), 1),
        (
            "wakeup",
            limits,
            over,
            |c, _| (0..256).for_each(|i| drop(c.wakeup(&SessionId::new(format!("s{i}")).unwrap()))),
            1,
        ),
        (
            "settled",
            limits,
            Duration::ZERO,
            |c, d| {
                let taken = c.take(&d.scope(), &[CommandType::CancelTurn]);
                taken.into_iter().for_each(|t| t.settle(Fate::Applied));
            },
            1,
        ),
        ("returned", limits, Duration::ZERO, |c, d| drop(c.take(&d.scope(), &[CommandType::CancelTurn])), 1),
    ];
    for (name, limits, wait, act, woken) in cases {
        // Where its time is over, whoever waits for the fate is woken by that first.
        let woken = woken + u32::from(wait == over);
        assert_eq!(woken_by(limits, wait, act).await, (woken, false), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_refused_tells_what_it_ended_outside_the_lock() {
    let limits = ChannelLimits { per_session: 0, ..ChannelLimits::default() };
    let refused = |c: &InMemoryControlChannel, d: &Desk| {
        assert!(c.send(d.steer("left")).now_or_never().unwrap().is_err());
    };
    assert_eq!(woken_by(limits, ControlCommand::DEFAULT_TTL, refused).await, (2, false));
}
