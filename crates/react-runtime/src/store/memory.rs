//! Sessions in memory.

use std::collections::HashMap;

use parking_lot::Mutex;
use turnwright_core::{BoxFuture, SessionId};

use super::{SessionCommit, SessionStore, StoreError, StoredSession};

/// Keeps sessions in this process, until they are deleted. Messages are shared with the sessions that run.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<SessionId, StoredSession>>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many sessions it holds.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn apply(&self, change: SessionCommit) -> Result<(), StoreError> {
        let mut sessions = self.0.lock();
        let found = sessions.get(&change.session).map_or(0, |s| s.revision);
        if found != change.base {
            return Err(StoreError::Conflict { session: change.session, expected: change.base, found });
        }
        let stored = sessions.entry(change.session).or_default();
        stored.messages.extend(change.messages);
        stored.snapshot = change.snapshot;
        stored.revision += 1;
        stored.last_commit = Some(change.id);
        Ok(())
    }
}

impl SessionStore for MemoryStore {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        let found = self.0.lock().get(session).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.apply(change)))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.lock().remove(session);
        Box::pin(std::future::ready(Ok(())))
    }
}
