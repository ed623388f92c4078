//! Control commands in the store's file.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tokio::sync::watch;
use turnwright_control::{
    Ack, ChannelLimits, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate, Receipt,
    SendError, Wakeup, validate,
};
use turnwright_core::{BoxFuture, CommandId, SessionId, Timestamp};
use turnwright_react_runtime::store::StoreError;

use crate::{
    error::corrupt,
    poll::{Listener, Watchers},
    sqlite::Shared,
    write::{Now, json, sql},
};

/// How long an idempotency key is remembered after its command has its fate.
const KEYS_LAST_MS: i64 = 300_000;

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

struct Claimed {
    number: i64,
    command: ControlCommand,
    accepted_at: Timestamp,
    expires_at: Option<i64>,
}

/// A command and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// The command: who sent what, to whom, when.
    pub command: ControlCommand,
    /// When the channel accepted it.
    pub accepted_at: Timestamp,
    /// What became of it, and when.
    pub settled: Option<(Fate, Timestamp)>,
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

enum Accepted {
    New,
    /// The key was used before, by this command.
    Repeated(CommandId, Option<Fate>),
}

fn insert(
    tx: &Transaction<'_>,
    command: &ControlCommand,
    limits: &ChannelLimits,
    now: &Now,
) -> Result<Accepted, SendError> {
    let backend = |e: StoreError| SendError::Backend(e.to_string());
    expire(tx, now.ms()).map_err(backend)?;
    if let Some(key) = &command.idempotency_key
        && let Some(repeated) = repeated(tx, command, key, now)?
    {
        return Ok(repeated);
    }
    room(tx, command, limits)?;
    let session = command.scope.session.as_str();
    let is_message = command.command_type().carries_message();
    let ttl = i64::try_from(command.ttl.as_millis()).unwrap_or(i64::MAX);
    let expires_at = (!is_message).then(|| now.ms().saturating_add(ttl));
    let body = json(command).map_err(backend)?;
    tx.prepare_cached(
        "INSERT INTO commands (id, session, priority, is_exit, key, body, accepted_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            command.id.to_string(),
            session,
            command.priority,
            command.command_type().is_exit(),
            command.idempotency_key,
            body,
            now.ms(),
            expires_at,
        ])
    })
    .map_err(|e| match e.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            SendError::Invalid(format!("a command with the id {} was sent before", command.id))
        }
        _ => backend(sql(e)),
    })?;
    Ok(Accepted::New)
}

fn repeated(
    tx: &Transaction<'_>,
    command: &ControlCommand,
    key: &str,
    now: &Now,
) -> Result<Option<Accepted>, SendError> {
    let backend = |e: StoreError| SendError::Backend(e.to_string());
    let row: Option<(String, Option<String>)> = tx
        .query_row(
            "SELECT body, fate FROM commands WHERE session = ?1 AND key = ?2 AND (fate IS NULL OR settled_at > ?3)
             ORDER BY number DESC LIMIT 1",
            params![command.scope.session.as_str(), key, now.ms() - KEYS_LAST_MS],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .map_err(|e| backend(sql(e)))?;
    let Some((body, fate)) = row else { return Ok(None) };
    let first: ControlCommand = serde_json::from_str(&body).map_err(|e| backend(corrupt("a command", e)))?;
    if first.body != command.body || first.scope != command.scope {
        let why = format!("the idempotency key {key:?} was used for another command");
        return Err(SendError::Invalid(why));
    }
    let fate = fate.map(|fate| read_fate(&fate)).transpose().map_err(backend)?;
    Ok(Some(Accepted::Repeated(first.id, fate)))
}

/// Whether one more may wait. Others never use up the room of an exit.
fn room(tx: &Transaction<'_>, command: &ControlCommand, limits: &ChannelLimits) -> Result<(), SendError> {
    let count = |what: &str, session: &str| -> Result<usize, SendError> {
        let sql = format!("SELECT count(*) FROM commands WHERE fate IS NULL AND {what}");
        let count: rusqlite::Result<i64> =
            tx.prepare_cached(&sql).and_then(|mut count| count.query_row([session], |row| row.get(0)));
        let count = count.map_err(|e| SendError::Backend(e.to_string()))?;
        Ok(usize::try_from(count).unwrap_or_default())
    };
    let session = command.scope.session.as_str();
    if command.command_type().is_exit()
        && count("is_exit AND session = ?1", session)? < ChannelLimits::EXIT_RESERVE
        && count("is_exit AND ?1 = ?1", session)? < limits.total
    {
        return Ok(());
    }
    if count("?1 = ?1", session)? >= limits.total {
        return Err(SendError::Full { what: "the channel".into(), capacity: limits.total });
    }
    if count("session = ?1", session)? >= limits.per_session {
        return Err(SendError::Full { what: format!("session {session}"), capacity: limits.per_session });
    }
    Ok(())
}

/// What waits for a session and is nobody's, or a dead process's.
fn claim(tx: &Transaction<'_>, session: &SessionId, now: &Now) -> Result<Vec<Claimed>, StoreError> {
    expire(tx, now.ms())?;
    let mut find = tx
        .prepare_cached(
            "SELECT number, body, accepted_at, expires_at, owner FROM commands
             WHERE session = ?1 AND fate IS NULL ORDER BY number",
        )
        .map_err(sql)?;
    let mut rows = find.query([session.as_str()]).map_err(sql)?;
    let mut claimed = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let owner: Option<String> = row.get(4).map_err(sql)?;
        if owner.as_deref().is_some_and(|owner| !now.owner.is_dead(owner)) {
            continue;
        }
        let (number, body): (i64, String) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
        match serde_json::from_str(&body) {
            Ok(command) => claimed.push(Claimed {
                number,
                command,
                accepted_at: Timestamp::from_millisecond(row.get(2).map_err(sql)?).unwrap_or_default(),
                expires_at: row.get(3).map_err(sql)?,
            }),
            // It can reach nobody, and must not keep others from it; `check` names it.
            Err(e) => tracing::warn!("row {number} of the table commands cannot be read: {e}"),
        }
    }
    let mut update = tx.prepare_cached("UPDATE commands SET owner = ?2 WHERE number = ?1").map_err(sql)?;
    for one in &claimed {
        update.execute(params![one.number, now.owner.id()]).map_err(sql)?;
    }
    Ok(claimed)
}

fn waits(db: &Connection, session: &SessionId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM commands WHERE session = ?1 AND fate IS NULL AND owner IS NULL LIMIT 1")?
        .exists([session.as_str()])
}

fn fate_of(db: &Connection, id: &str) -> rusqlite::Result<Option<Fate>> {
    let fate: Option<Option<String>> = db
        .prepare_cached("SELECT fate FROM commands WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(fate.flatten().and_then(|fate| read_fate(&fate).ok()))
}

fn read_fate(text: &str) -> Result<Fate, StoreError> {
    serde_json::from_str(text).map_err(|e| corrupt("the fate of a command", e))
}

/// Tells a fate, once: a second one changes nothing.
pub(crate) fn settle(tx: &Transaction<'_>, id: &str, fate: &Fate, now: i64) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE commands SET fate = ?2, settled_at = ?3 WHERE id = ?1 AND fate IS NULL")
        .and_then(|mut update| update.execute(params![id, json(fate).unwrap_or_default(), now]))
        .map_err(sql)?;
    Ok(())
}

/// Ends what nobody claimed in time.
fn expire(tx: &Transaction<'_>, now: i64) -> Result<(), StoreError> {
    let fate = json(&Fate::Expired)?;
    tx.prepare_cached(
        "UPDATE commands SET fate = ?1, settled_at = ?2
         WHERE fate IS NULL AND owner IS NULL AND expires_at IS NOT NULL AND expires_at <= ?2",
    )
    .and_then(|mut update| update.execute(params![fate, now]))
    .map_err(sql)?;
    Ok(())
}

/// A session is deleted: what waits for it goes back.
pub(crate) fn forget(tx: &Transaction<'_>, session: &SessionId, now: i64) -> Result<(), StoreError> {
    let fate = json(&Fate::returned("the session was deleted"))?;
    tx.execute(
        "UPDATE commands SET fate = ?2, settled_at = ?3 WHERE session = ?1 AND fate IS NULL",
        params![session.as_str(), fate, now],
    )
    .map_err(sql)?;
    Ok(())
}

fn audit(db: &Connection, session: &SessionId, limit: i64) -> Result<Vec<AuditRow>, StoreError> {
    let mut find = db
        .prepare_cached(
            "SELECT number, body, accepted_at, fate, settled_at FROM commands WHERE session = ?1 ORDER BY number LIMIT ?2",
        )
        .map_err(sql)?;
    let mut rows = find.query(params![session.as_str(), limit]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let fate: Option<String> = row.get(3).map_err(sql)?;
        let time = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default();
        let settled = match fate {
            Some(fate) => {
                let at: Option<i64> = row.get(4).map_err(sql)?;
                Some((read_fate(&fate)?, time(at.unwrap_or_default())))
            }
            None => None,
        };
        all.push(AuditRow {
            command: crate::read::body(row, session, "commands")?,
            accepted_at: time(row.get(2).map_err(sql)?),
            settled,
        });
    }
    Ok(all)
}
