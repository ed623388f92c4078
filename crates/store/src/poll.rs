//! Noticing what other processes changed.
//!
//! SQLite tells nobody. A thread asks for the file's version, which is a look at shared memory, every few milliseconds,
//! but only while somebody waits for something.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::watch;
use turnwright_control::Wakeup;
use turnwright_core::SessionId;
use turnwright_react_runtime::store::StoreError;

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(5);
/// Looks from one sweep of what waits too long to the next: a quarter of a second.
const SWEEP: u32 = 50;

/// Who watches which session.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<SessionId, watch::Sender<u64>>>);

impl Watchers {
    pub(crate) fn watch(&self, session: &SessionId) -> Wakeup {
        let mut watchers = self.0.lock();
        Wakeup::new(watchers.entry(session.clone()).or_insert_with(|| watch::Sender::new(0)))
    }

    /// Whether nobody watches anything any more; what nobody watches is forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        let mut watchers = self.0.lock();
        watchers.retain(|_, watcher| watcher.receiver_count() > 0);
        watchers.is_empty()
    }

    /// Sessions that somebody watches.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.0
            .lock()
            .iter()
            .filter(|(_, w)| w.receiver_count() > 0)
            .map(|(session, _)| session.clone())
            .collect()
    }

    pub(crate) fn changed(&self, session: &SessionId) {
        let watcher = self.0.lock().get(session).cloned();
        if let Some(watcher) = watcher {
            watcher.send_modify(|n| *n += 1);
        }
    }

    fn all_changed(&self) {
        // Wakers are not ours: none is called under the lock.
        let watchers: Vec<_> = self.0.lock().values().cloned().collect();
        for watcher in watchers {
            watcher.send_modify(|n| *n += 1);
        }
    }
}

/// What a channel wants to be told.
pub(crate) trait Listener: Send + Sync {
    /// Whether it waits for nothing.
    fn is_idle(&self) -> bool;
    /// The file changed.
    fn changed(&self, db: &Connection);
    /// Some time has passed.
    fn sweep(&self, db: &Connection);
}

/// The thread that looks.
pub(crate) struct Poller(Arc<Inner>);

struct Inner {
    watchers: Weak<Watchers>,
    listener: Mutex<Option<Weak<dyn Listener>>>,
    is_needed: Mutex<bool>,
    wake: Condvar,
    over: AtomicBool,
}

impl Poller {
    pub(crate) fn start(
        db: Connection,
        watchers: &Arc<Watchers>,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let inner = Arc::new(Inner {
            watchers: Arc::downgrade(watchers),
            listener: Mutex::new(None),
            is_needed: Mutex::new(false),
            wake: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let ran = inner.clone();
        let thread = std::thread::Builder::new().name("turnwright-store-p".into());
        let handle = thread
            .spawn(move || ran.run(&db))
            .map_err(|e| StoreError::Backend(format!("no thread could be started: {e}")))?;
        Ok((Self(inner), handle))
    }

    /// Somebody waits for something from now on.
    pub(crate) fn needed(&self) {
        *self.0.is_needed.lock() = true;
        self.0.wake.notify_one();
    }

    pub(crate) fn listen(&self, listener: Weak<dyn Listener>) {
        *self.0.listener.lock() = Some(listener);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
        // Under the lock, so that the thread is either before its look at `over` or asleep.
        let _needed = self.0.is_needed.lock();
        self.0.wake.notify_one();
    }
}

impl Inner {
    fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.lock().as_ref().and_then(Weak::upgrade)
    }

    fn run(&self, db: &Connection) {
        let (mut seen, mut looks) = (None, 0_u32);
        while !self.over.load(SeqCst) {
            let listener = self.listener();
            let version = db.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).ok();
            if version != seen {
                seen = version;
                if let Some(watchers) = self.watchers.upgrade() {
                    watchers.all_changed();
                }
                if let Some(listener) = &listener {
                    listener.changed(db);
                }
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(SWEEP)
                && let Some(listener) = &listener
            {
                listener.sweep(db);
            }
            self.rest(listener.is_none_or(|listener| listener.is_idle()));
        }
    }

    /// Waits for the time of the next look; for ever where nobody waits for anything.
    fn rest(&self, is_listener_idle: bool) {
        let mut is_needed = self.is_needed.lock();
        if self.over.load(SeqCst) {
            return;
        }
        if is_listener_idle
            && self.watchers.upgrade().is_none_or(|watchers| watchers.is_idle())
            && !*is_needed
        {
            self.wake.wait(&mut is_needed);
        } else {
            *is_needed = false;
            self.wake.wait_for(&mut is_needed, EVERY);
        }
        *is_needed = false;
    }
}
