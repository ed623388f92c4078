//! What waits, by session. All of it runs under the channel's lock, so nothing here may wake anybody: what has ended is
//! kept in [`Inner::ended`], and its fates are told once the lock is gone.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;
use turnwright_core::{CommandId, SessionId, Timestamp, clock::Instant};

use super::{ChannelLimits, audit};
use crate::{
    Ack, CommandBody, CommandType, ControlCommand, ControlScope, Delivery, Fate, Receipt, SendError,
};

/// New commands and new queues from one look at every session to the next.
const SWEEP_EVERY: usize = 256;

#[derive(Default)]
pub(super) struct Inner {
    pub(super) sessions: HashMap<SessionId, Queue>,
    /// Commands that wait.
    pub(super) waiting: usize,
    /// The exits among them.
    exits: usize,
    since_sweep: usize,
    pub(super) ended: Vec<Ended>,
}

impl Inner {
    /// Queues a command. The counter of arrivals is none for a repeated one.
    pub(super) fn accept(
        &mut self,
        command: ControlCommand,
        (now, accepted_at): (Instant, Timestamp),
        limits: &ChannelLimits,
    ) -> Result<(Receipt, Option<watch::Sender<u64>>), SendError> {
        self.expire(&command.scope.session, now);
        if let Some(queue) = self.sessions.get(&command.scope.session)
            && let Some(receipt) = queue.repeated(&command)?
        {
            return Ok((receipt, None));
        }
        if self.waiting >= limits.total {
            self.sweep(now);
        }
        self.room(&command, limits)?;
        self.grown(now);
        self.waiting += 1;
        self.exits += usize::from(command.command_type().is_exit());
        let queue = self.sessions.entry(command.scope.session.clone()).or_insert_with(Queue::new);
        let (fate, receipt) = Receipt::new(command.id);
        queue.remember(&command, now, &receipt, limits.remembered_keys);
        queue.insert(Waiting { command, accepted: now, accepted_at, fate });
        Ok((receipt, Some(queue.arrivals.clone())))
    }

    /// Whether one more may wait. Others never use up the room of an exit.
    fn room(&self, command: &ControlCommand, limits: &ChannelLimits) -> Result<(), SendError> {
        let session = &command.scope.session;
        let waiting = self.sessions.get(session).map_or(&[][..], |q| &q.commands);
        let reserved = command.command_type().is_exit()
            && self.exits < limits.total
            && waiting.iter().filter(|w| w.is_exit()).count() < ChannelLimits::EXIT_RESERVE;
        if reserved {
            return Ok(());
        }
        if self.waiting >= limits.total {
            return Err(SendError::Full { what: "the channel".into(), capacity: limits.total });
        }
        if waiting.len() >= limits.per_session {
            return Err(SendError::Full { what: format!("session {session}"), capacity: limits.per_session });
        }
        Ok(())
    }

    pub(super) fn take(&mut self, scope: &ControlScope, types: &[CommandType], now: Instant) -> Vec<Waiting> {
        let fits = |w: &Waiting| types.contains(&w.command.command_type()) && w.command.scope.fits(scope);
        self.take_which(&scope.session, fits, now)
    }

    pub(super) fn take_one(
        &mut self,
        session: &SessionId,
        command: CommandId,
        now: Instant,
    ) -> Option<Waiting> {
        self.take_which(session, |w| w.command.id == command, now).pop()
    }

    fn take_which(
        &mut self,
        session: &SessionId,
        fits: impl Fn(&Waiting) -> bool,
        now: Instant,
    ) -> Vec<Waiting> {
        self.expire(session, now);
        let Some(queue) = self.sessions.get_mut(session) else { return Vec::new() };
        let taken: Vec<_> = queue.commands.extract_if(.., |w| fits(w)).collect();
        if queue.is_idle() {
            self.sessions.remove(session);
        }
        self.uncount(&taken);
        taken
    }

    /// What waits for a session.
    pub(super) fn queued(&mut self, session: &SessionId, now: Instant) -> Vec<CommandId> {
        self.expire(session, now);
        let waiting = self.sessions.get(session).map_or(&[][..], |queue| &queue.commands);
        waiting.iter().map(|waiting| waiting.command.id).collect()
    }

    /// The arrivals of a session.
    pub(super) fn arrivals(&mut self, session: &SessionId, now: Instant) -> &watch::Sender<u64> {
        if !self.sessions.contains_key(session) {
            self.grown(now);
        }
        &self.sessions.entry(session.clone()).or_insert_with(Queue::new).arrivals
    }

    /// Ends what nobody took in time, forgets old keys and sessions with nothing left, everywhere.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.since_sweep = 0;
        let mut expired = Vec::new();
        self.sessions.retain(|_, queue| {
            expired.extend(queue.expire(now));
            !queue.is_idle()
        });
        self.end(expired);
    }

    /// The same for the commands and keys of one session.
    pub(super) fn expire(&mut self, session: &SessionId, now: Instant) {
        if let Some(queue) = self.sessions.get_mut(session) {
            let expired = queue.expire(now);
            self.end(expired);
        }
    }

    fn end(&mut self, expired: Vec<Waiting>) {
        self.uncount(&expired);
        self.ended.extend(expired.into_iter().map(Ended));
    }

    fn uncount(&mut self, gone: &[Waiting]) {
        self.waiting -= gone.len();
        self.exits -= gone.iter().filter(|w| w.is_exit()).count();
    }

    /// Called before something is added, so that what nobody comes back for does not pile up.
    fn grown(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_EVERY {
            self.sweep(now);
        }
    }
}

/// What waits for one session.
pub(super) struct Queue {
    commands: Vec<Waiting>,
    keys: VecDeque<Key>,
    arrivals: watch::Sender<u64>,
}

/// A remembered idempotency key, and which command it stands for.
struct Key {
    key: String,
    body: CommandBody,
    scope: ControlScope,
    accepted: Instant,
    receipt: Receipt,
}

impl Key {
    /// Whether it is old, and its command has its fate or is about to be told that it expired.
    fn is_over(&self, now: Instant, expired: &[Waiting]) -> bool {
        now.saturating_duration_since(self.accepted) >= ControlCommand::DEFAULT_TTL
            && (self.receipt.try_fate().is_some()
                || expired.iter().any(|w| w.command.id == self.receipt.id()))
    }
}

impl Queue {
    fn new() -> Self {
        Self { commands: Vec::new(), keys: VecDeque::new(), arrivals: watch::Sender::new(0) }
    }

    fn repeated(&self, command: &ControlCommand) -> Result<Option<Receipt>, SendError> {
        if let Some(waiting) = self.commands.iter().find(|waiting| waiting.command.id == command.id) {
            return match waiting.command.body == command.body && waiting.command.scope == command.scope {
                true => Ok(Some(Receipt::of(command.id, &waiting.fate))),
                false => Err(SendError::Invalid(format!("the id {} is another command's", command.id))),
            };
        }
        let same = |k: &&Key| command.idempotency_key.as_ref() == Some(&k.key);
        match self.keys.iter().find(same) {
            None => Ok(None),
            Some(k) if k.body == command.body && k.scope == command.scope => Ok(Some(k.receipt.clone())),
            Some(k) => Err(SendError::Invalid(format!(
                "the idempotency key {:?} was used for another command",
                k.key
            ))),
        }
    }

    fn remember(&mut self, command: &ControlCommand, accepted: Instant, receipt: &Receipt, at_most: usize) {
        let Some(key) = command.idempotency_key.clone() else { return };
        let (body, scope, receipt) = (command.body.clone(), command.scope.clone(), receipt.clone());
        self.keys.push_back(Key { key, body, scope, accepted, receipt });
        if self.keys.len() > at_most {
            self.keys.pop_front();
        }
    }

    /// Highest priority first, equal ones in the order they came.
    fn insert(&mut self, waiting: Waiting) {
        let at = self.commands.partition_point(|w| w.command.priority >= waiting.command.priority);
        self.commands.insert(at, waiting);
    }

    /// Takes out what nobody took in time, and forgets old keys.
    fn expire(&mut self, now: Instant) -> Vec<Waiting> {
        let expired: Vec<_> = self.commands.extract_if(.., |w| w.is_expired(now)).collect();
        self.keys.retain(|k| !k.is_over(now, &expired));
        expired
    }

    fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.keys.is_empty() && self.arrivals.receiver_count() == 0
    }
}

/// A command that waits to be taken.
pub(super) struct Waiting {
    command: ControlCommand,
    accepted: Instant,
    accepted_at: Timestamp,
    fate: watch::Sender<Option<Fate>>,
}

impl Waiting {
    fn is_exit(&self) -> bool {
        self.command.command_type().is_exit()
    }

    fn is_expired(&self, now: Instant) -> bool {
        !self.command.command_type().carries_message()
            && now.saturating_duration_since(self.accepted) >= self.command.ttl
    }

    pub(super) fn deliver(self) -> Delivery {
        let (id, told) = (self.command.id, self.fate);
        let ack = Ack::new(move |fate| {
            audit::settled(id, &fate);
            told.send_replace(Some(fate));
        });
        Delivery::new(self.command, self.accepted_at, ack)
    }
}

/// A command that nobody took in time. Dropping it tells, which wakes whoever waits for its fate.
pub(super) struct Ended(Waiting);

impl Drop for Ended {
    fn drop(&mut self) {
        audit::settled(self.0.command.id, &Fate::Expired);
        self.0.fate.send_replace(Some(Fate::Expired));
    }
}
