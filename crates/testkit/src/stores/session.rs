//! The promises of a session store.

use std::{sync::Arc, time::Duration};

use turnwright_core::{CallId, Message, SessionId, Sources, Timestamp, ToolCall, ToolResult};
use turnwright_react_runtime::approval::Rule;
use turnwright_react_runtime::store::{
    Committed, Fence, JournalAppend, JournalRecord, LeaseChange, RecordedEvent, SessionCommit, SessionQuery,
    SessionStatus, SessionStore, StoreError,
};

use super::{Broken, holds, model::random_operations, same};

const LONG: Duration = Duration::from_secs(600);
/// A lease that ends while a test waits for that.
const SHORT: Duration = Duration::from_millis(40);

/// A fresh store for each promise.
pub type MakeStore<'a> = &'a (dyn Fn() -> Arc<dyn SessionStore> + Sync);

/// Runs a store through every promise of [`SessionStore`]. Wants a tokio runtime with time.
///
/// # Errors
/// The first promise that is broken.
pub async fn store_conformance(make: MakeStore<'_>) -> Result<(), Broken> {
    changes_are_atomic_and_compared(&*make()).await?;
    leases_exclude_and_fence(&*make()).await?;
    leases_end(&*make()).await?;
    the_journal_is_of_one_revision(&*make()).await?;
    sessions_are_listed_and_deleted(&*make()).await?;
    a_journal_that_has_grown_is_noticed(&*make()).await?;
    rules_stay(&*make()).await?;
    events_are_numbered(&*make()).await?;
    watchers_are_woken(&*make()).await?;
    writers_race(&make()).await?;
    for seed in 0..20 {
        random_operations(&*make(), seed).await?;
    }
    Ok(())
}

pub(super) struct Desk<'a> {
    pub(super) store: &'a dyn SessionStore,
    sources: Sources,
}

impl<'a> Desk<'a> {
    pub(super) fn new(store: &'a dyn SessionStore) -> Self {
        Self { store, sources: Sources::default() }
    }

    pub(super) fn message(&self, text: &str) -> Arc<Message> {
        Arc::new(Message::user(self.sources.id(), text))
    }

    pub(super) fn change(
        &self,
        session: &SessionId,
        base: u64,
        text: &str,
        lease: LeaseChange,
    ) -> SessionCommit {
        SessionCommit {
            messages: vec![self.message(text)],
            lease,
            ..SessionCommit::new(session.clone(), self.sources.id(), base)
        }
    }

    async fn commit(&self, id: &SessionId, base: u64, lease: LeaseChange) -> Result<Committed, StoreError> {
        self.store.commit(self.change(id, base, "m", lease)).await
    }
}

pub(super) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap_or_else(|_| Sources::default().session_id())
}

pub(super) fn acquire(holder: &str, ttl: Duration) -> LeaseChange {
    LeaseChange::Acquire { holder: holder.into(), ttl }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
pub(super) fn words(e: StoreError) -> Broken {
    format!("the store failed: {e}")
}

async fn changes_are_atomic_and_compared(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    same!(store.load(&id).await.map_err(words)?.is_none(), true, "a session that was never stored is none");
    let change = desk.change(&id, 0, "one", LeaseChange::None);
    let (name, first) = (change.id, change.messages.clone());
    let done = store.commit(change).await.map_err(words)?;
    same!(done, Committed { revision: 1, fence: None }, "the first change makes revision 1");
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!(stored.messages, first, "messages are as they were given");
    same!((stored.revision, stored.last_commit), (1, Some(name)), "revision and last change are known");
    let refused = store.commit(desk.change(&id, 0, "two", LeaseChange::None)).await;
    let conflict = StoreError::Conflict { session: id.clone(), expected: 0, found: 1 };
    same!(refused, Err(conflict), "a change on another revision is a conflict");
    let after = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!((after.messages.len(), after.revision), (1, 1), "a refused change changes nothing");
    let elsewhere = store.load(&session("s2")).await.map_err(words)?;
    holds!(elsewhere.is_none(), "sessions whose ids begin alike are two (K15)");
    Ok(())
}

async fn leases_exclude_and_fence(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let a = desk.commit(&id, 0, acquire("a", LONG)).await.map_err(words)?;
    let Some(first) = a.fence else { return Err("an acquired lease has a fence".into()) };
    let is_held = |done: Result<Committed, StoreError>| matches!(done, Err(StoreError::Held { holder, .. }) if holder == "a");
    holds!(is_held(desk.commit(&id, 1, acquire("b", LONG)).await), "a lease excludes another holder");
    holds!(is_held(desk.commit(&id, 1, LeaseChange::None).await), "a lease excludes changes beside legs");
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!(stored.lease.map(|l| (l.holder, l.fence)), Some(("a".into(), first)), "the lease is told");
    let kept = desk.commit(&id, 1, LeaseChange::Keep(first)).await.map_err(words)?;
    same!(kept, Committed { revision: 2, fence: Some(first) }, "the holder writes under its fence");
    let again = desk.commit(&id, 2, acquire("a", LONG)).await.map_err(words)?;
    let Some(second) = again.fence else { return Err("a lease that is taken again has a fence".into()) };
    holds!(second > first, "fences grow");
    let lost = StoreError::LeaseLost { session: id.clone(), fence: first };
    same!(desk.commit(&id, 3, LeaseChange::Keep(first)).await, Err(lost.clone()), "an old fence is refused");
    same!(store.renew(&id, first, LONG).await, Err(lost.clone()), "an old fence renews nothing");
    let note = JournalAppend { session: id.clone(), base: 3, fence: first, records: Vec::new() };
    same!(store.append(note).await, Err(lost), "an old fence notes nothing");
    store.release(&id, first, Vec::new()).await.map_err(words)?;
    holds!(is_held(desk.commit(&id, 3, acquire("b", LONG)).await), "an old fence releases nothing");
    store.release(&id, second, Vec::new()).await.map_err(words)?;
    let b = desk.commit(&id, 3, acquire("b", LONG)).await.map_err(words)?;
    holds!(b.fence > Some(second), "a released lease can be taken");
    Ok(())
}

async fn leases_end(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let a = desk.commit(&id, 0, acquire("a", SHORT)).await.map_err(words)?;
    let fence = a.fence.unwrap_or(Fence(0));
    tokio::time::sleep(SHORT * 3).await;
    let kept = desk.commit(&id, 1, LeaseChange::Keep(fence)).await;
    holds!(kept.is_ok(), "a lease that ended, and that nobody took, is as good as one that lasts");
    store.renew(&id, fence, LONG).await.map_err(words)?;
    holds!(desk.commit(&id, 2, acquire("b", SHORT)).await.is_err(), "a renewed lease lasts");
    store.renew(&id, fence, SHORT).await.map_err(words)?;
    tokio::time::sleep(SHORT * 3).await;
    let b = desk.commit(&id, 2, acquire("b", SHORT)).await;
    holds!(b.is_ok(), "a lease that ended can be taken");
    holds!(desk.commit(&id, 3, LeaseChange::Keep(fence)).await.is_err(), "and is lost to who had it");
    tokio::time::sleep(SHORT * 3).await;
    holds!(desk.commit(&id, 3, LeaseChange::None).await.is_ok(), "an ended lease excludes nobody");
    Ok(())
}

async fn the_journal_is_of_one_revision(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let a = desk.commit(&id, 0, acquire("a", LONG)).await.map_err(words)?;
    let fence = a.fence.unwrap_or(Fence(0));
    let call = ToolCall::new("c", "t", "{}");
    let records = vec![
        JournalRecord::Intent { call: CallId::from("c"), ran_with: Some("{ }".into()) },
        JournalRecord::Result { result: ToolResult::ok(&call, "\u{1F980} done") },
        JournalRecord::Shown { answer: 1, text: "t".into(), reasoning: String::new() },
    ];
    let note = |base, records: &[JournalRecord]| JournalAppend {
        session: id.clone(),
        base,
        fence,
        records: records.to_vec(),
    };
    store.append(note(1, &records[..1])).await.map_err(words)?;
    store.append(note(1, &records[1..])).await.map_err(words)?;
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!(stored.journal, records, "records are read in their order");
    same!(stored.revision, 1, "records leave the revision");
    let conflict = StoreError::Conflict { session: id.clone(), expected: 0, found: 1 };
    same!(store.append(note(0, &records)).await, Err(conflict), "records are of one revision");
    desk.commit(&id, 1, LeaseChange::Keep(fence)).await.map_err(words)?;
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!(stored.journal, Vec::new(), "a change supersedes the journal");
    Ok(())
}

async fn a_journal_that_has_grown_is_noticed(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let fence = desk.commit(&id, 0, acquire("a", SHORT)).await.map_err(words)?.fence.unwrap_or(Fence(0));
    let shown = |text: &str| JournalRecord::Shown { answer: 1, text: text.into(), reasoning: String::new() };
    let records = vec![shown("a"), shown("b")];
    let append = JournalAppend { session: id.clone(), base: 1, fence, records: records.clone() };
    store.append(append).await.map_err(words)?;
    tokio::time::sleep(SHORT * 2).await;
    let beside = SessionCommit { keeps_journal: true, ..desk.change(&id, 1, "beside", LeaseChange::None) };
    store.commit(beside).await.map_err(words)?;
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!(stored.journal, records, "a change may leave the journal");
    let read = |n, text: &str| {
        let change = desk.change(&id, 2, text, acquire("b", LONG));
        store.commit(SessionCommit { journal_read: Some(n), ..change })
    };
    let grown = Err(StoreError::Grown { session: id.clone() });
    same!(read(1, "stale").await.map(drop), grown, "who did not read all of the journal does not take it up");
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!((stored.revision, stored.journal.len()), (2, 2), "and nothing was changed");
    read(2, "fresh").await.map(drop).map_err(words)
}

async fn sessions_are_listed_and_deleted(store: &dyn SessionStore) -> Result<(), Broken> {
    let desk = Desk::new(store);
    for n in 0..7 {
        let lease = if n == 3 { acquire("a", LONG) } else { LeaseChange::None };
        desk.commit(&session(&format!("s{n}")), 0, lease).await.map_err(words)?;
    }
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(SessionQuery { after, limit: 3, status: None }).await.map_err(words)?;
        let Some(last) = page.last() else { break };
        after = Some(last.session.clone());
        all.extend(page);
    }
    let ids: Vec<_> = all.iter().map(|s| s.session.to_string()).collect();
    same!(ids, (0..7).map(|n| format!("s{n}")).collect::<Vec<_>>(), "pages hold each session once, in order");
    holds!(all.iter().all(|s| s.messages == 1 && s.revision == 1), "a line says how much there is");
    let running = SessionQuery { status: Some(SessionStatus::Running), ..SessionQuery::default() };
    let running = store.list(running).await.map_err(words)?;
    same!(running.len(), 1, "a session whose lease lasts is running");
    let held = store.delete(&session("s3")).await;
    holds!(matches!(held, Err(StoreError::Held { .. })), "a session that runs is not deleted");
    store.delete(&session("s2")).await.map_err(words)?;
    store.delete(&session("s2")).await.map_err(words)?;
    holds!(store.load(&session("s2")).await.map_err(words)?.is_none(), "a deleted session is none");
    let anew = desk.commit(&session("s2"), 0, LeaseChange::None).await.map_err(words)?;
    same!(anew.revision, 1, "and may be made anew");
    let stored = store.load(&session("s2")).await.map_err(words)?.unwrap_or_default();
    same!(stored.messages.len(), 1, "with nothing of what was deleted");
    Ok(())
}

async fn rules_stay(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let rule = |tool: &str| Rule {
        source: "local".into(),
        tool: tool.into(),
        actor: "ann".into(),
        at: Timestamp::UNIX_EPOCH,
    };
    desk.commit(&id, 0, LeaseChange::None).await.map_err(words)?;
    for (base, rules, after) in [
        (1, Some(vec![rule("a"), rule("b")]), vec![rule("a"), rule("b")]),
        (2, None, vec![rule("a"), rule("b")]),
        (3, Some(vec![rule("b")]), vec![rule("b")]),
        (4, Some(Vec::new()), Vec::new()),
    ] {
        let change = SessionCommit { rules, ..desk.change(&id, base, "m", LeaseChange::None) };
        store.commit(change).await.map_err(words)?;
        let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
        same!(stored.rules, after, "rules stay until a change has others");
    }
    Ok(())
}

async fn events_are_numbered(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let event = |n: u64| RecordedEvent {
        turn: Sources::default().id(),
        at: Timestamp::UNIX_EPOCH,
        event: serde_json::json!({ "type": "usage", "n": n }),
    };
    let mut change = desk.change(&id, 0, "m", acquire("a", LONG));
    change.events = vec![event(1), event(2)];
    let fence = store.commit(change).await.map_err(words)?.fence.unwrap_or(Fence(0));
    store.release(&id, fence, vec![event(3)]).await.map_err(words)?;
    store.release(&id, fence, vec![event(4)]).await.map_err(words)?;
    let read = store.events(&id, 0, 10).await.map_err(words)?;
    let found: Vec<_> = read.iter().map(|e| (e.number, e.recorded.event["n"].as_u64())).collect();
    same!(found, vec![(1, Some(1)), (2, Some(2)), (3, Some(3))], "events are numbered from 1, each once");
    let some = store.events(&id, 1, 1).await.map_err(words)?;
    same!(some.iter().map(|e| e.number).collect::<Vec<_>>(), vec![2], "a part can be read");
    Ok(())
}

async fn watchers_are_woken(store: &dyn SessionStore) -> Result<(), Broken> {
    let (desk, id) = (Desk::new(store), session("s"));
    let mut watch = store.watch(&id);
    desk.commit(&id, 0, LeaseChange::None).await.map_err(words)?;
    let woken = tokio::time::timeout(Duration::from_secs(10), watch.arrived()).await;
    holds!(woken.is_ok(), "who watches a session is woken by its change");
    Ok(())
}

/// Many writers of one session: each change is there once, none is torn.
async fn writers_race(store: &Arc<dyn SessionStore>) -> Result<(), Broken> {
    let id = session("race");
    let write = |n: usize| {
        let (store, id) = (store.clone(), id.clone());
        async move {
            let desk = Desk::new(&*store);
            let (mut base, mut won) = (0, 0);
            while won < 10 {
                match store.commit(desk.change(&id, base, &format!("{n}.{won}"), LeaseChange::None)).await {
                    Ok(done) => (base, won) = (done.revision, won + 1),
                    Err(StoreError::Conflict { found, .. }) => base = found,
                    Err(e) => return Err(words(e)),
                }
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    };
    let done = futures::future::join_all((0..8).map(write)).await;
    done.into_iter().collect::<Result<Vec<()>, _>>()?;
    let stored = store.load(&id).await.map_err(words)?.unwrap_or_default();
    same!((stored.messages.len(), stored.revision), (80, 80), "each change of eight writers is there once");
    let mut texts: Vec<_> = stored.messages.iter().map(|m| m.text()).collect();
    texts.sort();
    texts.dedup();
    same!(texts.len(), 80, "and none replaced another");
    Ok(())
}
