//! Sessions in memory.

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, SessionId, Sources, Timestamp, clock::Instant};

use super::{
    Committed, Fence, JournalAppend, LeaseChange, LeaseInfo, RecordedEvent, SessionCommit, SessionQuery,
    SessionStore, SessionSummary, StoreError, StoredEvent, StoredSession,
};

/// Recorded events a session keeps; the oldest go first.
const MAX_EVENTS: usize = 10_000;

/// Keeps sessions in this process, until they are deleted. Messages are shared with the sessions that run.
#[derive(Default)]
pub struct MemoryStore {
    sources: Sources,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Kept>,
    watchers: BTreeMap<SessionId, watch::Sender<u64>>,
    /// The last fence that was given, over all sessions: a session that is deleted and made anew goes on from there.
    fence: u64,
}

#[derive(Default)]
struct Kept {
    /// Its lease is filled in when it is read.
    stored: StoredSession,
    lease: Option<Lease>,
    updated_at: Timestamp,
    events: Vec<StoredEvent>,
    last_event: u64,
}

struct Lease {
    holder: String,
    fence: Fence,
    until: Instant,
}

impl Kept {
    fn lease(&self, now: &Now) -> Option<LeaseInfo> {
        let lease = self.lease.as_ref().filter(|lease| lease.until > now.instant)?;
        Some(LeaseInfo { holder: lease.holder.clone(), fence: lease.fence, until: now.until(lease.until) })
    }

    fn read(&self, now: &Now) -> StoredSession {
        StoredSession { lease: self.lease(now), ..self.stored.clone() }
    }

    fn record(&mut self, events: Vec<RecordedEvent>) {
        for recorded in events {
            self.last_event += 1;
            self.events.push(StoredEvent { number: self.last_event, recorded });
        }
        let surplus = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..surplus);
    }

    fn owned(&mut self, session: &SessionId, fence: Fence) -> Result<&mut Lease, StoreError> {
        let lease = self.lease.as_mut().filter(|lease| lease.fence == fence);
        lease.ok_or_else(|| StoreError::LeaseLost { session: session.clone(), fence })
    }
}

struct Now {
    instant: Instant,
    time: Timestamp,
}

impl Now {
    fn until(&self, at: Instant) -> Timestamp {
        let rest = at.saturating_duration_since(self.instant);
        self.time.checked_add(rest).unwrap_or(Timestamp::MAX)
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that tells the time by these sources.
    pub fn with_sources(sources: Sources) -> Self {
        Self { sources, inner: Mutex::default() }
    }

    /// How many sessions it holds.
    pub fn len(&self) -> usize {
        self.inner.lock().sessions.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn now(&self) -> Now {
        let clock = &self.sources.clock;
        Now { instant: clock.instant(), time: clock.now() }
    }

    /// Changes one session; whoever watches it is woken when the lock is gone.
    fn change<R>(
        &self,
        session: &SessionId,
        change: impl FnOnce(&mut Inner, &Now) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let now = self.now();
        let mut inner = self.inner.lock();
        let changed = change(&mut inner, &now)?;
        inner.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
        let watcher = inner.watchers.get(session).cloned();
        drop(inner);
        if let Some(watcher) = watcher {
            watcher.send_modify(|n| *n += 1);
        }
        Ok(changed)
    }

    fn apply(&self, change: SessionCommit) -> Result<Committed, StoreError> {
        let session = change.session.clone();
        self.change(&session, |inner, now| inner.apply(change, now))
    }

    fn note(&self, append: JournalAppend) -> Result<(), StoreError> {
        let session = append.session.clone();
        self.change(&session, |inner, _| {
            let JournalAppend { session, base, fence, records } = append;
            let lost = || StoreError::LeaseLost { session: session.clone(), fence };
            let kept = inner.sessions.get_mut(&session).ok_or_else(lost)?;
            kept.owned(&session, fence)?;
            let found = kept.stored.revision;
            if found != base {
                return Err(StoreError::Conflict { session, expected: base, found });
            }
            kept.stored.journal.extend(records);
            Ok(())
        })
    }
}

impl Inner {
    fn apply(&mut self, change: SessionCommit, now: &Now) -> Result<Committed, StoreError> {
        let SessionCommit {
            session,
            id,
            base,
            messages,
            snapshot,
            rules,
            lease,
            events,
            applied: _,
            journal_read,
            keeps_journal,
        } = change;
        let fresh = Kept::default();
        let kept = self.sessions.get(&session).unwrap_or(&fresh);
        let held = kept.lease(now);
        let lease_is_none = lease == LeaseChange::None;
        let next = match lease {
            LeaseChange::Keep(fence) if kept.lease.as_ref().is_some_and(|lease| lease.fence == fence) => None,
            LeaseChange::Keep(fence) => return Err(StoreError::LeaseLost { session, fence }),
            LeaseChange::Acquire { holder, ttl } if held.as_ref().is_none_or(|h| h.holder == holder) => {
                Some((holder, now.instant + ttl))
            }
            LeaseChange::None if held.is_none() => None,
            _ => {
                let (holder, until) = held.map(|h| (h.holder, h.until)).unwrap_or_default();
                return Err(StoreError::Held { session, holder, until });
            }
        };
        let found = kept.stored.revision;
        if found != base {
            return Err(StoreError::Conflict { session, expected: base, found });
        }
        if journal_read.is_some_and(|read| read < kept.stored.journal.len()) {
            return Err(StoreError::Grown { session });
        }
        let kept = self.sessions.entry(session).or_default();
        if lease_is_none {
            kept.lease = None;
        }
        if let Some((holder, until)) = next {
            self.fence += 1;
            kept.lease = Some(Lease { holder, fence: Fence(self.fence), until });
        }
        kept.record(events);
        kept.updated_at = now.time;
        let stored = &mut kept.stored;
        stored.messages.extend(messages);
        stored.snapshot = snapshot;
        if let Some(rules) = rules {
            stored.rules = rules;
        }
        if !keeps_journal {
            stored.journal = Vec::new();
        }
        stored.revision += 1;
        stored.last_commit = Some(id);
        Ok(Committed { revision: stored.revision, fence: kept.lease.as_ref().map(|lease| lease.fence) })
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("sessions", &self.len()).finish_non_exhaustive()
    }
}

fn ready<'a, T: Send + 'a>(done: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(done))
}

impl SessionStore for MemoryStore {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        let now = self.now();
        ready(Ok(self.inner.lock().sessions.get(session).map(|kept| kept.read(&now))))
    }

    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        ready(self.apply(change))
    }

    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.note(records))
    }

    fn renew<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let now = self.now();
        let mut inner = self.inner.lock();
        let lost = || StoreError::LeaseLost { session: session.clone(), fence };
        let lease = inner.sessions.get_mut(session).ok_or_else(lost).and_then(|k| k.owned(session, fence));
        ready(lease.map(|lease| lease.until = now.instant + ttl))
    }

    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.change(session, |inner, _| {
            if let Some(kept) = inner.sessions.get_mut(session)
                && kept.lease.take_if(|lease| lease.fence == fence).is_some()
            {
                kept.record(events);
            }
            Ok(())
        }))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.change(session, |inner, now| {
            if let Some(LeaseInfo { holder, until, .. }) =
                inner.sessions.get(session).and_then(|kept| kept.lease(now))
            {
                return Err(StoreError::Held { session: session.clone(), holder, until });
            }
            inner.sessions.remove(session);
            Ok(())
        }))
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        let now = self.now();
        let inner = self.inner.lock();
        let from = query.after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = inner
            .sessions
            .range((from, Bound::Unbounded))
            .map(|(session, kept)| kept.read(&now).summary(session.clone(), kept.updated_at));
        let wanted = all.filter(|s| query.status.is_none_or(|status| s.status == status));
        ready(Ok(wanted.take(query.limit).collect()))
    }

    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        let inner = self.inner.lock();
        let events = inner.sessions.get(session).map_or(&[][..], |kept| &kept.events);
        let from = events.partition_point(|e| e.number <= after);
        ready(Ok(events.iter().skip(from).take(limit).cloned().collect()))
    }

    fn watch(&self, session: &SessionId) -> Wakeup {
        let mut inner = self.inner.lock();
        let watcher = inner.watchers.entry(session.clone()).or_insert_with(|| watch::Sender::new(0));
        Wakeup::new(watcher)
    }
}
