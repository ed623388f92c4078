//! The in-memory channel.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_core::{BoxFuture, Clock, SessionId, Sources, clock::Instant};

use crate::{
    Ack, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate, Receipt, SendError,
    Wakeup,
};

/// How much an [`InMemoryControlChannel`] holds. When a bound is reached, `send` refuses.
#[derive(Debug, Clone, Copy)]
pub struct ChannelLimits {
    /// Commands that may wait for one session. 256 by default.
    pub per_session: usize,
    /// Commands that may wait in all. 65,536 by default.
    pub total: usize,
    /// Idempotency keys remembered a session, the oldest forgotten first. 256 by default.
    pub remembered_keys: usize,
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self { per_session: 256, total: 65_536, remembered_keys: 256 }
    }
}

/// The default channel: within one process, bounded, with lifetimes. Nothing is kept for a session whose commands are
/// gone and whose wake-ups were dropped, once its remembered keys have outlived the default lifetime.
pub struct InMemoryControlChannel {
    clock: Arc<dyn Clock>,
    limits: ChannelLimits,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Queue>,
    waiting: usize,
}

struct Queue {
    commands: Vec<Waiting>,
    keys: VecDeque<(String, Instant, Receipt)>,
    arrivals: watch::Sender<u64>,
}

struct Waiting {
    command: ControlCommand,
    accepted: Instant,
    fate: watch::Sender<Option<Fate>>,
}

impl Waiting {
    fn is_expired(&self, now: Instant) -> bool {
        !self.command.command_type().carries_message()
            && now.saturating_duration_since(self.accepted) >= self.command.ttl
    }

    fn deliver(self) -> Delivery {
        let fate = self.fate;
        Delivery::new(self.command, Ack::new(move |f| drop(fate.send_replace(Some(f)))))
    }
}

impl InMemoryControlChannel {
    /// A channel with the default bounds.
    pub fn new(sources: &Sources) -> Self {
        Self::with_limits(sources, ChannelLimits::default())
    }

    /// A channel with these bounds.
    pub fn with_limits(sources: &Sources, limits: ChannelLimits) -> Self {
        Self { clock: sources.clock.clone(), limits, inner: Mutex::default() }
    }

    /// How many commands wait, expired ones that nobody asked for included.
    pub fn waiting(&self) -> usize {
        self.inner.lock().waiting
    }

    /// For how many sessions anything is kept.
    pub fn sessions(&self) -> usize {
        let now = self.clock.instant();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        inner.sessions.len()
    }

    fn accept(&self, command: ControlCommand) -> Result<Receipt, SendError> {
        check(&command)?;
        let now = self.clock.instant();
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.expire(&command.scope.session, now);
        if let Some(queue) = inner.sessions.get_mut(&command.scope.session)
            && let Some(key) = &command.idempotency_key
            && let Some((.., receipt)) = queue.keys.iter().find(|(k, ..)| k == key)
        {
            return Ok(receipt.clone());
        }
        if inner.waiting >= self.limits.total {
            inner.sweep(now);
        }
        if inner.waiting >= self.limits.total {
            return Err(SendError::Full { what: "the channel".into(), capacity: self.limits.total });
        }
        let session = &command.scope.session;
        if inner.sessions.get(session).is_some_and(|q| q.commands.len() >= self.limits.per_session) {
            return Err(SendError::Full {
                what: format!("session {session}"),
                capacity: self.limits.per_session,
            });
        }
        let queue = inner.sessions.entry(session.clone()).or_insert_with(Queue::new);
        let (fate, receipt) = Receipt::new(command.id);
        if let Some(key) = command.idempotency_key.clone() {
            queue.keys.push_back((key, now, receipt.clone()));
            if queue.keys.len() > self.limits.remembered_keys {
                queue.keys.pop_front();
            }
        }
        // Highest priority first, equal ones in the order they came.
        let at = queue.commands.partition_point(|w| w.command.priority >= command.priority);
        queue.commands.insert(at, Waiting { command, accepted: now, fate });
        inner.waiting += 1;
        // The waker of a listener is not ours: it runs after the lock is gone.
        let arrivals = queue.arrivals.clone();
        drop(guard);
        arrivals.send_modify(|n| *n += 1);
        Ok(receipt)
    }
}

impl ControlChannel for InMemoryControlChannel {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        Box::pin(async move { self.accept(command) })
    }

    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        let now = self.clock.instant();
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let expired = inner.expire(&scope.session, now);
        let Some(queue) = inner.sessions.get_mut(&scope.session) else { return Vec::new() };
        let fits =
            |w: &mut Waiting| types.contains(&w.command.command_type()) && matches(&w.command.scope, scope);
        let taken: Vec<_> = queue.commands.extract_if(.., fits).collect();
        inner.waiting -= taken.len();
        inner.forget_if_idle(&scope.session);
        drop(guard);
        drop(expired);
        taken.into_iter().map(Waiting::deliver).collect()
    }

    fn wakeup(&self, session: &SessionId) -> Wakeup {
        let mut inner = self.inner.lock();
        Wakeup::new(&inner.sessions.entry(session.clone()).or_insert_with(Queue::new).arrivals)
    }
}

impl std::fmt::Debug for InMemoryControlChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InMemoryControlChannel").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl Queue {
    fn new() -> Self {
        Self { commands: Vec::new(), keys: VecDeque::new(), arrivals: watch::Sender::new(0) }
    }
}

impl Inner {
    /// Ends what nobody took in time, and forgets old keys. The fates are told by dropping what is returned, outside
    /// the lock.
    fn expire(&mut self, session: &SessionId, now: Instant) -> Vec<ToldExpired> {
        let Some(queue) = self.sessions.get_mut(session) else { return Vec::new() };
        let expired: Vec<_> = queue.commands.extract_if(.., |w| w.is_expired(now)).map(ToldExpired).collect();
        self.waiting -= expired.len();
        while let Some((_, at, receipt)) = queue.keys.front()
            && receipt.try_fate().is_some()
            && now.saturating_duration_since(*at) >= ControlCommand::DEFAULT_TTL
        {
            queue.keys.pop_front();
        }
        expired
    }

    fn forget_if_idle(&mut self, session: &SessionId) {
        if let Some(queue) = self.sessions.get(session)
            && queue.commands.is_empty()
            && queue.keys.is_empty()
            && queue.arrivals.receiver_count() == 0
        {
            self.sessions.remove(session);
        }
    }

    fn sweep(&mut self, now: Instant) {
        let sessions: Vec<_> = self.sessions.keys().cloned().collect();
        for session in sessions {
            self.expire(&session, now);
            self.forget_if_idle(&session);
        }
    }
}

struct ToldExpired(Waiting);

impl Drop for ToldExpired {
    fn drop(&mut self) {
        self.0.fate.send_replace(Some(Fate::Expired));
    }
}

/// Agent and graph instance are compared when the command names them; run and turn are the drain's to judge, since a
/// mismatch there has a fate of its own.
fn matches(command: &ControlScope, drainer: &ControlScope) -> bool {
    fn same<T: PartialEq>(command: &Option<T>, drainer: &Option<T>) -> bool {
        command.is_none() || command == drainer
    }
    command.session == drainer.session
        && same(&command.agent, &drainer.agent)
        && same(&command.graph_instance, &drainer.graph_instance)
}

fn check(command: &ControlCommand) -> Result<(), SendError> {
    let command_type = command.command_type();
    if command_type == CommandType::ApprovalResponse {
        return Err(SendError::ApprovalReserved);
    }
    if command_type.is_for_graph() && command.scope.graph_instance.is_none() {
        return Err(SendError::Invalid(format!("{command_type:?} names no graph instance")));
    }
    if command.ttl.is_zero() && !command_type.carries_message() {
        return Err(SendError::Invalid("its lifetime is zero".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
