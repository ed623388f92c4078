//! The threads of a store: one that writes, two that read. Callers wait for them without blocking anybody.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Semaphore, oneshot};
use turnwright_react_runtime::store::StoreError;

use crate::error::store_error;

/// Callers that may wait for the writer at once; further ones wait before that.
const WAITING: usize = 1_024;
/// Changes that are committed together at most.
const TOGETHER: usize = 64;

type Look = Box<dyn FnOnce(&Connection) + Send>;

/// A change: made inside a transaction, and told once that is committed or has failed.
trait Change: Send {
    /// Says whether it was made.
    fn make(&mut self, transaction: &Transaction<'_>) -> bool;
    fn tell(self: Box<Self>, failed: Option<StoreError>);
}

struct Write<T, F, N> {
    change: Option<F>,
    made: Option<Result<T, StoreError>>,
    then: N,
}

/// Who is told, and whether anybody still waits.
trait Then<T>: Send {
    fn is_wanted(&self) -> bool;
    fn tell(self, done: Result<T, StoreError>);
}

impl<T: Send> Then<T> for oneshot::Sender<Result<T, StoreError>> {
    fn is_wanted(&self) -> bool {
        !self.is_closed()
    }
    fn tell(self, done: Result<T, StoreError>) {
        drop(self.send(done));
    }
}

/// What follows a change that nobody waits for.
struct Later<N>(N);

impl<T: Send, N: FnOnce(Result<T, StoreError>) + Send> Then<T> for Later<N> {
    fn is_wanted(&self) -> bool {
        true
    }
    fn tell(self, done: Result<T, StoreError>) {
        (self.0)(done);
    }
}

impl<T, F, N> Change for Write<T, F, N>
where
    T: Send,
    F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send,
    N: Then<T>,
{
    fn make(&mut self, transaction: &Transaction<'_>) -> bool {
        // Where nobody waits for it any more when its turn comes, it is not made.
        let is_wanted = self.then.is_wanted();
        self.made = self.change.take().filter(|_| is_wanted).map(|change| change(transaction));
        self.made.as_ref().is_some_and(Result::is_ok)
    }

    fn tell(self: Box<Self>, failed: Option<StoreError>) {
        self.then.tell(match (self.made, failed) {
            (Some(Err(e)), _) => Err(e),
            (Some(Ok(made)), None) => Ok(made),
            (_, failed) => Err(failed.unwrap_or_else(gone)),
        });
    }
}

pub(crate) struct Threads {
    changes: mpsc::Sender<Box<dyn Change>>,
    looks: mpsc::Sender<Look>,
    room: Semaphore,
}

fn gone() -> StoreError {
    StoreError::Backend("the store is closed".into())
}

impl Threads {
    /// Starts the threads. They end when this is dropped and what waits is done; the handles are for whoever joins them.
    pub(crate) fn start(
        writer: Connection,
        readers: Vec<Connection>,
    ) -> Result<(Self, Vec<JoinHandle<()>>), StoreError> {
        let (changes, waiting) = mpsc::channel();
        let (looks, wanted) = mpsc::channel::<Look>();
        let wanted = Arc::new(Mutex::new(wanted));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
            spawned.map_err(|e| StoreError::Backend(format!("no thread could be started: {e}")))
        };
        let mut handles = vec![spawn("turnwright-store-w", Box::new(move || write(writer, &waiting)))?];
        for reader in readers {
            let wanted = wanted.clone();
            let work = move || {
                loop {
                    let next = wanted.lock().recv();
                    let Ok(look) = next else { return };
                    look(&reader);
                }
            };
            handles.push(spawn("turnwright-store-r", Box::new(work))?);
        }
        Ok((Self { changes, looks, room: Semaphore::new(WAITING) }, handles))
    }

    /// Makes a change. Where nobody waits for it any more when its turn comes, it is not made.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _room = self.room.acquire().await.map_err(|_| gone())?;
        let (answer, answered) = oneshot::channel();
        self.push(Write { change: Some(change), made: None, then: answer })?;
        answered.await.map_err(|_| gone())?
    }

    /// Makes a change that nobody waits for; a failure is logged.
    pub(crate) fn write_later(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.write_then(change, |done| {
            if let Err(e) = done {
                tracing::warn!("a change of the store was lost: {e}");
            }
        });
    }

    /// The same, and does something with what it came to, in the writer's thread.
    pub(crate) fn write_then<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        if let Err(e) = self.push(Write { change: Some(change), made: None, then: Later(then) }) {
            tracing::warn!("a change of the store was lost: {e}");
        }
    }

    fn push(&self, change: impl Change + 'static) -> Result<(), StoreError> {
        self.changes.send(Box::new(change)).map_err(|_| gone())
    }

    /// Looks at the store.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _room = self.room.acquire().await.map_err(|_| gone())?;
        let (answer, answered) = oneshot::channel();
        let work = move |connection: &Connection| {
            if !answer.is_closed() {
                let _ = answer.send(look(connection));
            }
        };
        self.looks.send(Box::new(work)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn write(mut connection: Connection, waiting: &mpsc::Receiver<Box<dyn Change>>) {
    while let Ok(first) = waiting.recv() {
        let mut changes = vec![first];
        changes.extend(waiting.try_iter().take(TOGETHER - 1));
        let failed = make(&mut connection, &mut changes).err().map(|e| store_error(&e));
        for change in changes {
            change.tell(failed.clone());
        }
    }
}

/// Commits changes in one transaction, each in a savepoint of its own: one that fails takes none with it. When the
/// transaction itself fails, all of it fails.
fn make(connection: &mut Connection, changes: &mut [Box<dyn Change>]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for change in changes {
        transaction.execute_batch("SAVEPOINT one")?;
        if change.make(&transaction) {
            transaction.execute_batch("RELEASE one")?;
        } else if transaction.is_autocommit() {
            // A full disk, for one, ends the whole transaction.
            let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            let words = "a change that was to be committed together with others ended their transaction";
            return Err(rusqlite::Error::SqliteFailure(full, Some(words.into())));
        } else {
            transaction.execute_batch("ROLLBACK TO one; RELEASE one")?;
        }
    }
    transaction.commit()
}
