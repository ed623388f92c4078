//! Control commands in the store's file.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction};
use tokio::sync::watch;
use turnwright_control::{
    Ack, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate, Receipt, SendError,
    Wakeup, validate,
};
use turnwright_core::{BoxFuture, CommandId, SessionId};
use turnwright_react_runtime::store::StoreError;

use crate::{
    commands::{Accepted, AuditRow, Claimed, audit, claim, expire, fate_of, insert, settle, waits},
    poll::{Listener, Watchers},
    sqlite::Shared,
    write::sql,
};

/// A control channel over the file of a [`crate::SqliteStore`]: a command reaches whichever process runs the session.
///
/// A receipt means that the command is stored. The process that listens for a session (a leg does, from its start to its
/// end) claims the session's commands; those that it has not taken when it stops listening, or dies, wait for the next
/// one. So what comes when no turn runs waits for the next turn, unless it expires first. Fates are stored, and are seen by
/// the sender's receipt in whatever process; a sender that is gone finds them in the audit of [`SqliteChannel::audit`].
pub struct SqliteChannel {
    shared: Arc<Shared>,
    /// Who listens to which session here.
    listeners: Watchers,
    /// What was claimed and not taken, by session; highest priority first.
    claimed: Mutex<HashMap<SessionId, VecDeque<Claimed>>>,
    /// Receipts of commands that were sent here and have no fate yet.
    open: Mutex<HashMap<CommandId, watch::Sender<Option<Fate>>>>,
    /// Fates that could not be stored yet.
    unstored: Arc<Mutex<HashMap<CommandId, Fate>>>,
    /// Rows of claimed commands that could not be given back yet.
    unreleased: Mutex<Vec<i64>>,
    /// Sessions whose commands are about to be claimed.
    claiming: Arc<Mutex<HashSet<SessionId>>>,
    me: Weak<Self>,
}

impl SqliteChannel {
    pub(crate) fn of(shared: &Arc<Shared>) -> Arc<Self> {
        let channel = Arc::new_cyclic(|me: &Weak<Self>| Self {
            shared: shared.clone(),
            listeners: Watchers::default(),
            claimed: Mutex::default(),
            open: Mutex::default(),
            unstored: Arc::default(),
            unreleased: Mutex::default(),
            claiming: Arc::default(),
            me: me.clone(),
        });
        let listener: Weak<dyn Listener> = channel.me.clone();
        shared.poller().listen(listener);
        channel
    }

    /// The commands of a session, oldest first, at most so many: who sent what, when, and what became of it.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn audit(&self, session: &SessionId, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        let session = session.clone();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.shared.threads.read(move |db| audit(db, &session, limit)).await
    }

    async fn accept(&self, command: ControlCommand) -> Result<Receipt, SendError> {
        validate(&command)?;
        let (now, limits, session) = (self.shared.now(), self.shared.limits, command.scope.session.clone());
        let id = command.id;
        // Before it is stored: its fate may come before this future goes on.
        let receipt = self.receipt(id);
        let stored = self.shared.threads.write(move |tx| Ok(insert(tx, &command, &limits, &now))).await;
        self.shared.poller().needed();
        match stored.map_err(|e| SendError::Backend(e.to_string())).and_then(|stored| stored) {
            Ok(Accepted::New) => {
                self.claim(session);
                Ok(receipt)
            }
            Ok(Accepted::Repeated(first, settled)) => Ok(self.repeated(first, settled)),
            // Nobody holds a receipt of it, and what is open without one is forgotten.
            Err(e) => Err(e),
        }
    }

    /// The receipt of a command that was sent before, here or elsewhere.
    fn repeated(&self, first: CommandId, settled: Option<Fate>) -> Receipt {
        let receipt = self.receipt(first);
        if let Some(settled) = settled {
            self.tell(first, settled);
        }
        receipt
    }

    /// A receipt of a command that has no fate yet, as far as is known here.
    fn receipt(&self, id: CommandId) -> Receipt {
        let mut open = self.open.lock();
        Receipt::of(id, open.entry(id).or_insert_with(|| watch::Sender::new(None)))
    }

    /// Whether nobody waits for a fate; what nobody holds a receipt of is forgotten.
    fn nobody_waits(&self) -> bool {
        let mut open = self.open.lock();
        open.retain(|_, fate| fate.receiver_count() > 0);
        open.is_empty()
    }

    /// Takes what waits for a session that is listened to here.
    fn claim(&self, session: SessionId) {
        // One that is under way and has not begun finds what has come since, too.
        if self.listeners.sessions().contains(&session) && self.claiming.lock().insert(session.clone()) {
            self.claim_then(session, || ());
        }
    }

    /// Takes what waits for a session, and then does this, in the writer's thread.
    fn claim_then(&self, session: SessionId, done: impl FnOnce() + Send + 'static) {
        let (me, now, claiming) = (self.me.clone(), self.shared.now(), self.claiming.clone());
        let of = session.clone();
        let claim = move |tx: &Transaction<'_>| {
            claiming.lock().remove(&of);
            claim(tx, &of, None, &now)
        };
        let (claiming, shared) = (self.claiming.clone(), self.shared.clone());
        let then = move |claimed: Result<Vec<Claimed>, StoreError>| {
            match (claimed, me.upgrade()) {
                (Ok(claimed), _) if claimed.is_empty() => {}
                (Ok(claimed), Some(me)) => me.take_over(&session, claimed),
                // Nobody is there any more.
                (Ok(claimed), None) => release(&shared, None, claimed),
                (Err(e), _) => {
                    // The transaction may not even have begun.
                    claiming.lock().remove(&session);
                    tracing::warn!("commands for session {session} could not be claimed yet: {e}");
                }
            }
            done();
        };
        self.shared.threads.write_then(claim, then);
    }

    fn claim_what_waits(&self, db: &Connection, session: SessionId) {
        match waits(db, &session, &self.shared.owner) {
            Ok(false) => {}
            _ => self.claim(session),
        }
    }

    fn take_over(&self, session: &SessionId, new: Vec<Claimed>) {
        {
            let mut all = self.claimed.lock();
            let claimed = all.entry(session.clone()).or_default();
            for one in new {
                if claimed.iter().all(|other| other.number != one.number) {
                    let at = claimed.partition_point(|other| other.command.priority >= one.command.priority);
                    claimed.insert(at, one);
                }
            }
        }
        self.listeners.changed(session);
    }

    fn deliver(&self, claimed: Claimed) -> Delivery {
        let (me, id) = (self.me.clone(), claimed.command.id);
        let (shared, unstored) = (self.shared.clone(), self.unstored.clone());
        let ack = Ack::new(move |fate| {
            store(&shared, &unstored, id, fate.clone());
            if let Some(me) = me.upgrade() {
                me.tell(id, fate);
            }
        });
        Delivery::new(claimed.command, claimed.accepted_at, ack)
    }

    /// A command that was taken here has its fate.
    fn settled(&self, id: CommandId, fate: Fate) {
        store(&self.shared, &self.unstored, id, fate.clone());
        self.tell(id, fate);
    }

    fn tell(&self, id: CommandId, fate: Fate) {
        let open = self.open.lock().remove(&id);
        if let Some(open) = open {
            open.send_replace(Some(fate));
        }
    }

    /// Gives back what was claimed for sessions that nobody listens to here any more.
    fn give_back(&self) {
        let heard = self.listeners.sessions();
        let left: Vec<Claimed> = {
            let mut claimed = self.claimed.lock();
            let gone: Vec<_> = claimed.keys().filter(|session| !heard.contains(session)).cloned().collect();
            gone.into_iter().filter_map(|session| claimed.remove(&session)).flatten().collect()
        };
        release(&self.shared, Some(self), left);
    }

    /// Tries again what could not be stored.
    fn store_again(&self) {
        let unreleased = std::mem::take(&mut *self.unreleased.lock());
        release_rows(&self.shared, Some(self), unreleased);
        let unstored = std::mem::take(&mut *self.unstored.lock());
        for (id, fate) in unstored {
            store(&self.shared, &self.unstored, id, fate);
        }
    }
}

/// What was claimed and not taken is nobody's again. Where that cannot be stored the channel tries again with its next sweep; while
/// nobody can, the rows are this process's.
fn release(shared: &Shared, channel: Option<&SqliteChannel>, claimed: impl IntoIterator<Item = Claimed>) {
    let left: Vec<i64> = claimed.into_iter().map(|claimed| claimed.number).collect();
    release_rows(shared, channel, left);
}

fn release_rows(shared: &Shared, channel: Option<&SqliteChannel>, left: Vec<i64>) {
    if left.is_empty() {
        return;
    }
    let (rows, me) = (left.clone(), channel.map(|channel| channel.me.clone()));
    shared.threads.write_then(
        move |tx| {
            for number in rows {
                tx.execute("UPDATE commands SET owner = NULL WHERE number = ?1 AND fate IS NULL", [number])
                    .map_err(sql)?;
            }
            Ok(())
        },
        move |done: Result<(), StoreError>| {
            if let Err(e) = done {
                tracing::warn!("{} claimed commands are not given back yet: {e}", left.len());
                if let Some(me) = me.and_then(|me| me.upgrade()) {
                    me.unreleased.lock().extend(left);
                }
            }
        },
    );
}

/// Stores a fate. One that cannot be stored is kept, and tried again with the next sweep.
fn store(shared: &Shared, unstored: &Arc<Mutex<HashMap<CommandId, Fate>>>, id: CommandId, fate: Fate) {
    let (now, stored, unstored) = (shared.now().ms(), fate.clone(), unstored.clone());
    shared.threads.write_then(
        move |tx| settle(tx, &id.to_string(), &stored, now),
        move |done| {
            if let Err(e) = done {
                tracing::warn!("the fate of command {id} is not stored yet: {e}");
                unstored.lock().insert(id, fate);
            }
        },
    );
}

impl Drop for SqliteChannel {
    /// What was claimed and not taken waits for whoever listens next.
    fn drop(&mut self) {
        self.store_again();
        let claimed = std::mem::take(self.claimed.get_mut());
        release(&self.shared, None, claimed.into_values().flatten());
    }
}

impl ControlChannel for SqliteChannel {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        Box::pin(self.accept(command))
    }

    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        let now = self.shared.now().ms();
        let (mut taken, mut late) = (Vec::new(), Vec::new());
        {
            let mut all = self.claimed.lock();
            let Some(claimed) = all.get_mut(&scope.session) else { return Vec::new() };
            for one in std::mem::take(claimed) {
                if one.expires_at.is_some_and(|at| at <= now) {
                    late.push(one.command.id);
                } else if types.contains(&one.command.command_type()) && one.command.scope.fits(scope) {
                    taken.push(one);
                } else {
                    claimed.push_back(one);
                }
            }
        }
        for id in late {
            self.settled(id, Fate::Expired);
        }
        taken.into_iter().map(|one| self.deliver(one)).collect()
    }

    fn withdraw<'a>(&'a self, session: &'a SessionId, command: CommandId) -> BoxFuture<'a, Option<Delivery>> {
        Box::pin(async move {
            let here = {
                let mut all = self.claimed.lock();
                let claimed = all.get_mut(session);
                claimed.and_then(|claimed| {
                    let at = claimed.iter().position(|one| one.command.id == command)?;
                    claimed.remove(at)
                })
            };
            if let Some(one) = here {
                return Some(self.deliver(one));
            }
            let (now, of) = (self.shared.now(), session.clone());
            let claim = move |tx: &Transaction<'_>| claim(tx, &of, Some(command), &now);
            let (shared, me) = (self.shared.clone(), self.me.clone());
            let (told, taken) = tokio::sync::oneshot::channel();
            // Whether anybody still waits for it is known only when it was claimed.
            self.shared.threads.write_then(claim, move |claimed| {
                let one = match claimed {
                    Ok(claimed) => claimed.into_iter().next(),
                    Err(e) => {
                        tracing::warn!("command {command} could not be taken back: {e}");
                        None
                    }
                };
                if let Err(Some(unwanted)) = told.send(one) {
                    release(&shared, me.upgrade().as_deref(), [unwanted]);
                }
            });
            let one = taken.await.ok().flatten()?;
            Some(self.deliver(one))
        })
    }

    fn queued(&self, session: &SessionId) -> Vec<CommandId> {
        let all = self.claimed.lock();
        all.get(session).into_iter().flatten().map(|claimed| claimed.command.id).collect()
    }

    fn fetch<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (of, owner) = (session.clone(), self.shared.owner.clone());
            // Most often nothing waits, and a look costs no change.
            let waits = self.shared.threads.read(move |db| waits(db, &of, &owner).map_err(sql)).await;
            if let Ok(false) = waits {
                return;
            }
            let (told, done) = tokio::sync::oneshot::channel();
            self.claim_then(session.clone(), move || {
                // Whoever waited may be gone.
                let _ = told.send(());
            });
            // The writer may be gone: then nothing can be taken.
            let _ = done.await;
        })
    }

    fn wakeup(&self, session: &SessionId) -> Wakeup {
        let wakeup = self.listeners.watch(session);
        self.shared.poller().needed();
        self.claim(session.clone());
        wakeup
    }
}

impl Listener for SqliteChannel {
    fn is_idle(&self) -> bool {
        self.listeners.is_idle()
            && self.nobody_waits()
            && self.claimed.lock().is_empty()
            && self.unstored.lock().is_empty()
            && self.unreleased.lock().is_empty()
    }

    fn changed(&self, db: &Connection) {
        for session in self.listeners.sessions() {
            self.claim_what_waits(db, session);
        }
        let open: Vec<CommandId> = self.open.lock().keys().copied().collect();
        for id in open {
            if let Ok(Some(fate)) = fate_of(db, &id.to_string()) {
                self.tell(id, fate);
            }
        }
    }

    fn sweep(&self, db: &Connection) {
        self.give_back();
        self.store_again();
        if !self.nobody_waits() {
            let now = self.shared.now().ms();
            self.shared.threads.write_later(move |tx| expire(tx, now));
        }
        for session in self.listeners.sessions() {
            // Claims of a process that died are nobody's.
            self.claim_what_waits(db, session);
        }
    }
}

impl std::fmt::Debug for SqliteChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteChannel").field("open", &self.open.lock().len()).finish_non_exhaustive()
    }
}
