//! The in-memory channel.

use std::sync::Arc;

use turnwright_core::{BoxFuture, Clock, CommandId, SessionId, Sources, clock::Instant};

use crate::{
    CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Receipt, SendError, Wakeup,
    sync::Mutex, validate,
};

mod audit;
mod queue;

pub use audit::AUDIT_TARGET;
use queue::{Inner, Waiting};

/// How much an [`InMemoryControlChannel`] holds. When a bound is reached, `send` refuses.
///
/// A stop still gets through when others fill the queue: beside these bounds [`EXIT_RESERVE`](Self::EXIT_RESERVE) exits
/// ([`CommandType::is_exit`]) may always wait for each session, up to `total` exits in all.
#[derive(Debug, Clone, Copy)]
pub struct ChannelLimits {
    /// Commands that may wait for one session. 256 by default.
    pub per_session: usize,
    /// Commands that may wait in all. 65,536 by default.
    pub total: usize,
    /// Idempotency keys remembered a session, the oldest forgotten first. 256 by default.
    pub remembered_keys: usize,
}

impl ChannelLimits {
    /// Exits that may wait for one session whatever else waits, for it or for others.
    pub const EXIT_RESERVE: usize = 16;
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self { per_session: 256, total: 65_536, remembered_keys: 256 }
    }
}

/// The default channel: within one process, bounded, with lifetimes.
///
/// Nothing is kept for a session whose commands are gone and whose wake-ups were dropped, once its remembered keys have
/// outlived the default lifetime. That is found when somebody sends to or takes for the session, and for all sessions
/// each time 256 commands or listeners were added. Wakers and acknowledgements run outside the channel's lock: they may
/// call back.
///
/// # Cancel safety
/// `send` queues the command at its first poll, never before, and is ready then.
pub struct InMemoryControlChannel {
    clock: Arc<dyn Clock>,
    limits: ChannelLimits,
    inner: Arc<Mutex<Inner>>,
}

impl InMemoryControlChannel {
    /// A channel with the default bounds.
    pub fn new(sources: &Sources) -> Self {
        Self::with_limits(sources, ChannelLimits::default())
    }

    /// A channel with these bounds.
    pub fn with_limits(sources: &Sources, limits: ChannelLimits) -> Self {
        Self { clock: sources.clock.clone(), limits, inner: Arc::default() }
    }

    /// How many commands wait, expired ones that nobody asked for included.
    pub fn waiting(&self) -> usize {
        self.inner.lock().waiting
    }

    /// For how many sessions anything is kept.
    pub fn sessions(&self) -> usize {
        self.locked(|inner, now| {
            inner.sweep(now);
            inner.sessions.len()
        })
    }

    fn accept(&self, command: ControlCommand) -> Result<Receipt, SendError> {
        let id = command.id;
        audit::sent(&command);
        let accepted = self.accept_unheard(command);
        match &accepted {
            Err(e) => audit::refused(id, e),
            Ok(first) if first.id() != id => audit::repeated(id, first.id()),
            Ok(_) => {}
        }
        accepted
    }

    fn accept_unheard(&self, command: ControlCommand) -> Result<Receipt, SendError> {
        validate(&command)?;
        let accepted_at = self.clock.now();
        let (session, ttl) = (command.scope.session.clone(), command.ttl);
        let may_expire = !command.command_type().carries_message();
        let (receipt, arrivals) =
            self.locked(|inner, now| inner.accept(command, (now, accepted_at), &self.limits))?;
        if let Some(arrivals) = arrivals {
            arrivals.send_modify(|n| *n += 1);
        }
        match self.clock.instant().checked_add(ttl).filter(|_| may_expire) {
            Some(end) => Ok(receipt.ends_at(end, self.expiry(session))),
            None => Ok(receipt),
        }
    }

    /// Has the commands of a session looked at, as long as there is a channel.
    fn expiry(&self, session: SessionId) -> Arc<dyn Fn() + Send + Sync> {
        let (inner, clock) = (Arc::downgrade(&self.inner), self.clock.clone());
        Arc::new(move || {
            if let Some(inner) = inner.upgrade() {
                locked(&inner, clock.instant(), |inner, now| inner.expire(&session, now));
            }
        })
    }

    fn locked<R>(&self, f: impl FnOnce(&mut Inner, Instant) -> R) -> R {
        locked(&self.inner, self.clock.instant(), f)
    }
}

/// Runs `f` under the lock, and tells the fates of what it ended when the lock is gone: the wakers of whoever listens are not
/// ours.
fn locked<R>(inner: &Mutex<Inner>, now: Instant, f: impl FnOnce(&mut Inner, Instant) -> R) -> R {
    let mut inner = inner.lock();
    let result = f(&mut inner, now);
    let ended = std::mem::take(&mut inner.ended);
    drop(inner);
    drop(ended);
    result
}

impl ControlChannel for InMemoryControlChannel {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        Box::pin(async move { self.accept(command) })
    }

    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        let taken = self.locked(|inner, now| inner.take(scope, types, now));
        taken.into_iter().map(Waiting::deliver).collect()
    }

    fn withdraw<'a>(&'a self, session: &'a SessionId, command: CommandId) -> BoxFuture<'a, Option<Delivery>> {
        let taken = self.locked(|inner, now| inner.take_one(session, command, now));
        Box::pin(std::future::ready(taken.map(Waiting::deliver)))
    }

    fn queued(&self, session: &SessionId) -> Vec<CommandId> {
        self.locked(|inner, now| inner.queued(session, now))
    }

    fn wakeup(&self, session: &SessionId) -> Wakeup {
        self.locked(|inner, now| Wakeup::new(inner.arrivals(session, now)))
    }
}

impl std::fmt::Debug for InMemoryControlChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InMemoryControlChannel").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(turnwright_model))]
mod tests;

/// Every interleaving of a few threads; run by `cargo xtask model`.
#[cfg(all(test, turnwright_model))]
mod model {
    use std::sync::Arc;

    use shuttle::{check_dfs, check_random, future::block_on, thread};
    use turnwright_core::Part;

    use super::*;
    use crate::{CommandBody, Fate};

    fn scope() -> ControlScope {
        ControlScope::session(SessionId::new("s").unwrap())
    }

    fn steer() -> ControlCommand {
        let body = CommandBody::InjectSteer { parts: vec![Part::text("left")] };
        ControlCommand::new(&Sources::default(), scope(), "ann", body)
    }

    fn two_senders_and_one_who_listens() {
        let channel = Arc::new(InMemoryControlChannel::new(&Sources::default()));
        let mut wakeup = channel.wakeup(&scope().session);
        let send = || {
            let channel = channel.clone();
            thread::spawn(move || channel.accept(steer()).unwrap())
        };
        let senders = [send(), send()];
        let mut taken = 0;
        // No wake-up is lost: else this never ends, and the checker says so.
        while taken < 2 {
            let deliveries = channel.take(&scope(), &[CommandType::InjectSteer]);
            if deliveries.is_empty() {
                block_on(wakeup.arrived());
            }
            for delivery in deliveries {
                taken += 1;
                delivery.settle(Fate::Applied);
            }
        }
        for sender in senders {
            let receipt = sender.join().unwrap();
            assert_eq!(block_on(receipt.fate()), Fate::Applied);
        }
        assert_eq!(channel.waiting(), 0);
    }

    #[test]
    fn each_command_is_taken_once_and_no_wakeup_is_lost() {
        check_dfs(two_senders_and_one_who_listens, Some(10_000));
        check_random(two_senders_and_one_who_listens, 3_000);
    }

    #[test]
    fn two_who_drain_take_each_command_once() {
        check_dfs(
            || {
                let channel = Arc::new(InMemoryControlChannel::new(&Sources::default()));
                channel.accept(steer()).unwrap();
                let take = || {
                    let channel = channel.clone();
                    thread::spawn(move || channel.take(&scope(), &[CommandType::InjectSteer]).len())
                };
                let (a, b) = (take(), take());
                assert_eq!(a.join().unwrap() + b.join().unwrap(), 1);
            },
            None,
        );
    }
}
