//! The store itself: opening, and the trait.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use turnwright_control::{ChannelLimits, Wakeup};
use turnwright_core::{BoxFuture, SessionId, Sources};
use turnwright_react_runtime::store::{
    Committed, Fence, JournalAppend, RecordedEvent, SessionCommit, SessionQuery, SessionStore,
    SessionSummary, StoreError, StoredEvent, StoredSession,
};

use crate::{
    ApprovalRow, CheckReport, OpenError, Retention, SqliteChannel, SqliteMailbox, Swept, check,
    error::store_error,
    owner::Owner,
    poll::{Poller, Watchers},
    read, retention, schema,
    threads::Threads,
    write::{self, Now},
};

/// When a commit is on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// It survives the end of the process, however it ends; after a loss of power the last commits may be missing, and
    /// the file is whole. The default: what SQLite calls NORMAL.
    #[default]
    Normal,
    /// It survives a loss of power too, as far as the disk keeps its word, and each commit waits for the disk: FULL.
    Full,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// When a commit is on the disk.
    pub synchronous: Synchronous,
    /// How long to wait for another process that writes; 5 s by default.
    pub busy_timeout: Duration,
    /// What is forgotten with every [`SqliteStore::sweep`]; events beyond their number when others are written, too.
    pub retention: Retention,
    /// The most the file may grow to, in pages of 4 KiB; no bound by default.
    pub max_pages: Option<u32>,
    /// Bounds of the channel.
    pub limits: ChannelLimits,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(5),
            retention: Retention::default(),
            max_pages: None,
            limits: ChannelLimits::default(),
        }
    }
}

/// Sessions in a SQLite file. Clones are the same store.
///
/// Several processes of one machine may open one file; on network file systems SQLite's locks do not hold. Times are the
/// machine's clock.
#[derive(Clone)]
pub struct SqliteStore(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) threads: Threads,
    pub(crate) owner: Arc<Owner>,
    pub(crate) sources: Sources,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) limits: ChannelLimits,
    retention: Retention,
    poller: Poller,
    channel: Mutex<Weak<SqliteChannel>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens a file, makes it where there is none, and brings an older one up to date.
    ///
    /// # Errors
    /// [`OpenError`]; a file that is newer, or of something else, is not touched.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, SqliteOptions::default(), Sources::default())
    }

    /// The same, with options and sources of time and ids.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
        sources: Sources,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        open(&path, options, sources).map_err(|why| OpenError { path, why })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The control channel in the same file: the same one for as long as somebody holds it. Receipts are told as long as it
    /// lives.
    pub fn channel(&self) -> Arc<SqliteChannel> {
        let mut known = self.0.channel.lock();
        known.upgrade().unwrap_or_else(|| {
            let channel = SqliteChannel::of(&self.0);
            *known = Arc::downgrade(&channel);
            channel
        })
    }

    /// The mailbox in the same file. It is a clone of the store in what [`SqliteStore::close`] says.
    pub fn mailbox(&self) -> SqliteMailbox {
        SqliteMailbox(self.0.clone())
    }

    /// Forgets what is too old or too much, as the options say. Sessions with an open turn stay.
    ///
    /// # Errors
    /// [`StoreError`]; what was forgotten before it stays so.
    ///
    /// # Cancel safety
    /// Safe: sweep again.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        let (retention, now) = (self.0.retention.clone(), self.0.now());
        self.0.threads.write(move |tx| retention::sweep(tx, &retention, &now)).await
    }

    /// Reads everything, and tells what cannot be read.
    ///
    /// # Errors
    /// [`StoreError`] when the file as a whole cannot be read.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn check(&self) -> Result<CheckReport, StoreError> {
        self.0.threads.read(check::check).await
    }

    /// Every question that calls of a session waited with, oldest first, and who decided what about it. They go with the
    /// session.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn approvals(&self, session: &SessionId) -> Result<Vec<ApprovalRow>, StoreError> {
        let session = session.clone();
        self.0.threads.read(move |db| read::approvals(db, &session)).await
    }

    /// Waits until all changes that were asked for before are made, those too that nobody waits for.
    ///
    /// # Errors
    /// [`StoreError`] when nothing can be written.
    ///
    /// # Cancel safety
    /// Safe: they are made all the same.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.0.threads.write(|_| Ok(())).await
    }

    /// Waits until all that was asked for is done, and ends the store's threads. Clones and channels that are left get
    /// errors from then on only if they were the last; so drop them first.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when clones are left, or a thread panicked.
    pub async fn close(self) -> Result<(), StoreError> {
        let mut left = self.0;
        let mut tries = 0;
        let shared = loop {
            match Arc::try_unwrap(left) {
                Ok(shared) => break shared,
                // The thread that looks holds it for the moment of a look.
                Err(shared) if tries < 40 => {
                    left = shared;
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(_) => {
                    let words = "the store is still in use: drop its clones and channels";
                    return Err(StoreError::Backend(words.into()));
                }
            }
        };
        let handles = std::mem::take(&mut *shared.handles.lock());
        drop(shared);
        let joined = tokio::task::spawn_blocking(move || {
            handles.into_iter().map(JoinHandle::join).filter(Result::is_err).count()
        });
        match joined.await {
            Ok(0) => Ok(()),
            _ => Err(StoreError::Backend("a thread of the store panicked".into())),
        }
    }
}

fn open(path: &Path, options: SqliteOptions, sources: Sources) -> Result<SqliteStore, StoreError> {
    let mut writer =
        connect(path, &options, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    schema::migrate(&mut writer)?;
    let read_only = || connect(path, &options, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let readers = vec![read_only()?, read_only()?];
    let id = sources.id::<SqliteStore>().to_string();
    // Ids come from the embedder, which may give the same twice; two stores must not be one owner.
    let id =
        format!("{}-{}", Sources::default().id::<SqliteStore>(), id.split('-').next().unwrap_or_default());
    let owner = Owner::new(path, id)
        .map_err(|e| StoreError::Backend(format!("the sign of life beside the file cannot be made: {e}")))?;
    let (owner, watchers) = (Arc::new(owner), Arc::new(Watchers::default()));
    let (threads, mut handles) = Threads::start(writer, readers)?;
    let (poller, handle) = Poller::start(read_only()?, &watchers)?;
    handles.push(handle);
    let store = SqliteStore(Arc::new(Shared {
        threads,
        owner,
        sources,
        watchers,
        limits: options.limits,
        retention: options.retention,
        poller,
        channel: Mutex::default(),
        handles: Mutex::new(handles),
        path: path.to_owned(),
    }));
    Ok(store)
}

fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> Result<Connection, StoreError> {
    let made = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(options.busy_timeout)?;
        let synchronous = match options.synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        if let Some(pages) = options.max_pages {
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    made().map_err(|e| store_error(&e))
}

impl Shared {
    pub(crate) fn now(&self) -> Now {
        Now {
            time: self.sources.clock.now(),
            owner: self.owner.clone(),
            events: self.retention.events_per_session,
        }
    }

    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Makes a change of a session, and wakes whoever watches it.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        session: SessionId,
        change: impl FnOnce(&rusqlite::Transaction<'_>, &Now) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let now = self.now();
        let done = self.threads.write(move |tx| change(tx, &now)).await?;
        self.watchers.changed(&session);
        Ok(done)
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.0.path).finish()
    }
}

impl SessionStore for SqliteStore {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        let (session, now) = (session.clone(), self.0.now());
        Box::pin(self.0.threads.read(move |db| read::load(db, &session, &now)))
    }

    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let session = change.session.clone();
        Box::pin(self.0.change(session, |tx, now| write::commit(tx, change, now)))
    }

    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        let now = self.0.now();
        Box::pin(self.0.threads.write(move |tx| write::append(tx, records, &now)))
    }

    fn renew<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (session, now) = (session.clone(), self.0.now());
        Box::pin(self.0.threads.write(move |tx| write::renew(tx, &session, fence, ttl, &now)))
    }

    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = session.clone();
        Box::pin(self.0.change(session.clone(), move |tx, now| write::release(tx, &id, fence, &events, now)))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = session.clone();
        Box::pin(self.0.change(session.clone(), move |tx, now| write::delete(tx, &id, now)))
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        let now = self.0.now();
        Box::pin(self.0.threads.read(move |db| read::list(db, &query, &now)))
    }

    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        let session = session.clone();
        Box::pin(self.0.threads.read(move |db| read::events(db, &session, after, limit)))
    }

    fn watch(&self, session: &SessionId) -> Wakeup {
        let wakeup = self.0.watchers.watch(session);
        self.0.poller.needed();
        wakeup
    }
}
