//! One leg, cut somewhere.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use turnwright_control::InMemoryControlChannel;
use turnwright_core::{CallId, Decision, Message, SessionId, Timestamp};
use turnwright_hook::HookPoint;
use turnwright_react_runtime::{
    Agent, Spawner, TurnEvent, TurnEventKind, TurnFinished,
    snapshot::TurnSnapshot,
    store::{MemoryStore, SessionCommit, SessionStore},
};
use turnwright_testkit::{trace::HookTrace, virtual_sources};

use super::{
    cut::{CutAt, Knife, Mode},
    scenario::{self, Scenario},
};

/// What a leg left behind.
pub(super) struct Report {
    pub(super) polls: usize,
    pub(super) commits: usize,
    pub(super) events: Vec<TurnEvent>,
    /// The events without their times, to compare runs.
    pub(super) kinds: Vec<TurnEventKind>,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) snapshot: Option<TurnSnapshot>,
    /// All hook calls of the turn so far.
    pub(super) trace: Vec<(HookPoint, usize)>,
    pub(super) trace_len_at_drop: Option<usize>,
    pub(super) stored: usize,
    pub(super) busy: bool,
    pub(super) model_calls: usize,
}

impl Report {
    pub(super) fn finished(&self) -> Option<&TurnFinished> {
        match &self.events.last()?.kind {
            TurnEventKind::TurnFinished(finished) => Some(finished),
            _ => None,
        }
    }
    pub(super) fn outcome_name(&self) -> String {
        self.finished().map_or("unseen".into(), |f| format!("{:?}", f.outcome))
    }
    pub(super) fn is_parked(&self) -> bool {
        self.snapshot.is_some()
    }
}

/// Runs the leg that follows `earlier`, cut at place `k`.
pub(super) fn leg(scenario: Scenario, mode: Mode, k: usize, earlier: &[Report]) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let report = runtime.block_on(run(scenario, mode, k, earlier));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "{scenario:?} {mode:?} {k}: a task outlived its turn");
    assert_eq!(scenario::alive(), 0, "{scenario:?} {mode:?} {k}: something outlived its turn");
    report
}

async fn run(scenario: Scenario, mode: Mode, k: usize, earlier: &[Report]) -> Report {
    let sources = virtual_sources(7 + earlier.len() as u64);
    let channel = Arc::new(InMemoryControlChannel::new(&sources));
    let store = Arc::new(MemoryStore::new());
    let trace = HookTrace::new();
    let knife = Arc::new(Knife {
        mode,
        k,
        polls: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        handle: Mutex::new(None),
        channel: channel.clone(),
        sources: sources.clone(),
        trace_len_at_drop: Mutex::new(None),
    });
    let id = SessionId::new("sweep").unwrap();
    let before = earlier.last();
    if let Some(before) = before {
        // The next leg runs in another process: all it has is the store. The snapshot goes through its JSON.
        let snapshot = before.snapshot.as_ref().map(|s| serde_json::to_string(s).unwrap());
        let change = SessionCommit {
            session: id.clone(),
            id: sources.id(),
            base: 0,
            messages: before.messages.clone(),
            snapshot: snapshot.map(|s| serde_json::from_str(&s).unwrap()),
        };
        store.commit(change).await.unwrap();
    }
    let task = Arc::new(Mutex::new(None));
    let (spawned, cut, traced) = (task.clone(), knife.clone(), trace.clone());
    let spawner = Spawner::new(move |leg| {
        let (knife, traced) = (cut.clone(), traced.clone());
        let trace_len = Box::new(move || traced.calls().len());
        // The production shape: a spawned task owns the leg; the harness only wraps it.
        *spawned.lock() = Some(tokio::spawn(CutAt { leg: Some(leg), knife, trace_len }));
        Ok(())
    });
    let probe = knife.clone();
    let model = scenario.model(earlier.iter().map(|r| r.model_calls).sum());
    let agent: Agent = scenario
        .agent(&model, &trace)
        .sources(sources.clone())
        .channel(channel.clone())
        .store(store.clone())
        .spawner(spawner)
        .commit_probe(Arc::new(move || probe.commit()))
        .build()
        .unwrap();
    let session = agent.open_session(id.clone()).await.unwrap();
    scenario.before_leg(&channel, &sources, &id, earlier.len());
    let handle = match before {
        None => session.start("hi").unwrap(),
        Some(_) => {
            let pending: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
            if let Some(first) = pending.first() {
                let decided = scenario.decides(first, &pending);
                session.decide(&Decision::allow(decided, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
            }
            session.resume().unwrap()
        }
    };
    *knife.handle.lock() = Some(handle);
    let task = task.lock().take().unwrap();
    task.await.unwrap();
    let mut events = Vec::new();
    if let Some(mut handle) = knife.handle.lock().take() {
        while let Some(Some(event)) = handle.next().now_or_never() {
            events.push(event);
        }
        assert!(handle.outcome().now_or_never().is_some(), "{scenario:?} {mode:?} {k}: no outcome");
    }
    let mut calls = before.map(|r| r.trace.clone()).unwrap_or_default();
    calls.extend(trace.calls());
    let stored = store.load(&id).await.unwrap().unwrap_or_default().messages.len();
    let report = Report {
        polls: knife.polls.load(SeqCst),
        commits: knife.commits.load(SeqCst),
        kinds: events.iter().map(|e| e.kind.clone()).collect(),
        events,
        messages: session.messages(),
        snapshot: session.snapshot(),
        trace: calls,
        trace_len_at_drop: knife.trace_len_at_drop.lock().map(|n| n + before.map_or(0, |r| r.trace.len())),
        stored,
        busy: session.is_busy(),
        model_calls: model.calls(),
    };
    drop((session, agent));
    report
}
