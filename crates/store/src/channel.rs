//! Control commands in the store's file.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use rusqlite::Connection;
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
    me: Weak<Self>,
}

impl SqliteChannel {
    pub(crate) fn of(shared: &Arc<Shared>) -> Arc<Self> {
        let channel = Arc::new_cyclic(|me: &Weak<Self>| Self {
            shared: shared.clone(),
            listeners: Watchers::default(),
            claimed: Mutex::default(),
            open: Mutex::default(),
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
        let (fate, receipt) = Receipt::new(command.id);
        // Before it is stored: its fate may come before this future goes on.
        self.open.lock().insert(command.id, fate);
        let id = command.id;
        let stored = self.shared.threads.write(move |tx| Ok(insert(tx, &command, &limits, &now))).await;
        self.shared.poller().needed();
        match stored.map_err(|e| SendError::Backend(e.to_string())).and_then(|stored| stored) {
            Ok(Accepted::New) => {
                self.claim(session);
                Ok(receipt)
            }
            Ok(Accepted::Repeated(first, settled)) => {
                self.open.lock().remove(&id);
                Ok(self.repeated(first, settled))
            }
            Err(e) => {
                self.open.lock().remove(&id);
                Err(e)
            }
        }
    }

    /// The receipt of a command that was sent before, here or elsewhere.
    fn repeated(&self, first: CommandId, settled: Option<Fate>) -> Receipt {
        let (fate, receipt) = Receipt::new(first);
        match settled {
            Some(settled) => drop(fate.send_replace(Some(settled))),
            None => {
                let mut open = self.open.lock();
                match open.get(&first) {
                    Some(known) => return Receipt::of(first, known),
                    None => drop(open.insert(first, fate)),
                }
            }
        }
        receipt
    }

    /// Takes what waits for a session that is listened to here.
    fn claim(&self, session: SessionId) {
        if !self.listeners.sessions().contains(&session) {
            return;
        }
        let (me, now) = (self.me.clone(), self.shared.now());
        let of = session.clone();
        self.shared.threads.write_then(
            move |tx| claim(tx, &of, &now),
            move |claimed| {
                if let Some(me) = me.upgrade()
                    && !claimed.is_empty()
                {
                    me.take_over(&session, claimed);
                }
            },
        );
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
        let ack = Ack::new(move |fate| {
            if let Some(me) = me.upgrade() {
                me.settled(id, fate);
            }
        });
        Delivery::new(claimed.command, claimed.accepted_at, ack)
    }

    /// A command that was taken here has its fate.
    fn settled(&self, id: CommandId, fate: Fate) {
        let now = self.shared.now().ms();
        let stored = fate.clone();
        self.shared.threads.write_later(move |tx| settle(tx, &id.to_string(), &stored, now));
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
        let left: Vec<_> = {
            let mut claimed = self.claimed.lock();
            let gone: Vec<_> = claimed.keys().filter(|session| !heard.contains(session)).cloned().collect();
            gone.into_iter()
                .filter_map(|session| claimed.remove(&session))
                .flatten()
                .map(|c| c.number)
                .collect()
        };
        if left.is_empty() {
            return;
        }
        self.shared.threads.write_later(move |tx| {
            for number in left {
                tx.execute("UPDATE commands SET owner = NULL WHERE number = ?1 AND fate IS NULL", [number])
                    .map_err(sql)?;
            }
            Ok(())
        });
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

    fn queued(&self, session: &SessionId) -> Vec<CommandId> {
        let all = self.claimed.lock();
        all.get(session).into_iter().flatten().map(|claimed| claimed.command.id).collect()
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
        self.listeners.is_idle() && self.open.lock().is_empty() && self.claimed.lock().is_empty()
    }

    fn changed(&self, db: &Connection) {
        for session in self.listeners.sessions() {
            match waits(db, &session) {
                Ok(false) => {}
                _ => self.claim(session),
            }
        }
        let open: Vec<CommandId> = self.open.lock().keys().copied().collect();
        for id in open {
            if let Ok(Some(fate)) = fate_of(db, &id.to_string()) {
                self.tell(id, fate);
            }
        }
    }

    fn sweep(&self) {
        self.give_back();
        if !self.open.lock().is_empty() {
            let now = self.shared.now().ms();
            self.shared.threads.write_later(move |tx| expire(tx, now));
        }
        for session in self.listeners.sessions() {
            // Claims of a process that died are nobody's.
            self.claim(session);
        }
    }
}

impl std::fmt::Debug for SqliteChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteChannel").finish_non_exhaustive()
    }
}
