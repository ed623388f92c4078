//! One leg, cut somewhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::FutureExt;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use turnwright_control::InMemoryControlChannel;
use turnwright_core::{CallId, Decision, Message, Outcome, SessionId, Timestamp};
use turnwright_hook::HookPoint;
use turnwright_react_runtime::{
    Agent, Spawner, TurnEvent, TurnEventKind, TurnFinished,
    snapshot::TurnSnapshot,
    store::{MemoryStore, SessionCommit, SessionStore},
};
use turnwright_testkit::{trace::HookTrace, virtual_sources};
use turnwright_trace_spans::Tier;

use crate::traces::spans::Spans;

use super::{
    counts,
    cut::{CutAt, Knife, Mode},
    place::{Places, Record},
    scenario::Scenario,
    watched::{Callback, Watched},
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
    /// Those of this leg.
    pub(super) leg_trace: Vec<(HookPoint, usize)>,
    pub(super) callbacks: Vec<Callback>,
    pub(super) records: Vec<Arc<turnwright_react_runtime::Record>>,
    pub(super) spans: Vec<SpanData>,
    /// What is wrong with them.
    pub(super) spans_checked: Result<(), String>,
    pub(super) stored: usize,
    pub(super) busy: bool,
    /// How far the leg was, at each place if it was not cut, and at its end.
    pub(super) places: Places,
    /// How long it took from the cut on; none when nobody could cut it there.
    pub(super) after_cut: Option<Duration>,
    /// How long it took in all.
    pub(super) took: Duration,
}

impl Report {
    pub(super) fn finished(&self) -> Option<&TurnFinished> {
        match &self.events.last()?.kind {
            TurnEventKind::TurnFinished(finished) => Some(finished),
            _ => None,
        }
    }
    pub(super) fn outcome(&self) -> Option<Outcome> {
        Some(self.finished()?.outcome)
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
    counts::reset();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let report = runtime.block_on(run(scenario, mode, k, earlier));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "{scenario:?} {mode:?} {k}: a task outlived its turn");
    assert_eq!(counts::counts().alive, 0, "{scenario:?} {mode:?} {k}: something outlived its turn");
    report
}

async fn run(scenario: Scenario, mode: Mode, k: usize, earlier: &[Report]) -> Report {
    let sources = virtual_sources(7 + earlier.len() as u64);
    let channel = Arc::new(InMemoryControlChannel::new(&sources));
    let store = Arc::new(MemoryStore::new());
    let trace = HookTrace::new();
    let model = scenario.model(earlier.iter().map(|r| r.places.end.model_calls).sum());
    let knife = Arc::new(Knife {
        mode,
        k,
        polls: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        handle: Mutex::new(None),
        channel: channel.clone(),
        sources: sources.clone(),
        trace: trace.clone(),
        model: model.clone(),
        record: Record::default(),
        cut_at: Mutex::new(None),
    });
    let id = SessionId::new("sweep").unwrap();
    let before = earlier.last();
    if let Some(before) = before {
        // The next leg runs in another process: all it has is the store. The snapshot goes through its JSON.
        let snapshot = before.snapshot.as_ref().map(|s| serde_json::to_string(s).unwrap());
        let change = SessionCommit {
            messages: before.messages.clone(),
            snapshot: snapshot.map(|s| serde_json::from_str(&s).unwrap()),
            ..SessionCommit::new(id.clone(), sources.id(), 0)
        };
        store.commit(change).await.unwrap();
    }
    let task = Arc::new(Mutex::new(None));
    let (spawned, cut) = (task.clone(), knife.clone());
    let spawner = Spawner::new(move |leg| {
        // The production shape: a spawned task owns the leg; the harness only wraps it.
        *spawned.lock() = Some(tokio::spawn(CutAt { leg: Some(leg), knife: cut.clone() }));
        Ok(())
    });
    let probe = knife.clone();
    let began = sources.clock.instant();
    let spans = Spans::new();
    let traces = spans.traces(Tier::Full);
    let agent: Agent = scenario
        .agent(&model, &trace)
        .sources(sources.clone())
        .channel(channel.clone())
        .store(store.clone())
        .spawner(spawner)
        .hooks(traces.hooks())
        .instrument(traces.instrument())
        .commit_probe(Arc::new(move || probe.commit()))
        .build()
        .unwrap();
    let watched = Watched::of(&agent);
    let session = agent.open_session(id.clone()).await.unwrap();
    scenario.before_leg(&channel, &sources, &id, earlier.len());
    let handle = match before {
        None => scenario.start(&session),
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
    let ended = sources.clock.instant();
    knife.read_events();
    if let Some(handle) = &mut *knife.handle.lock() {
        assert!(handle.outcome().now_or_never().is_some(), "{scenario:?} {mode:?} {k}: no outcome");
    }
    let leg_trace = trace.calls();
    let earlier_trace = before.map(|r| r.trace.clone()).unwrap_or_default();
    let events = knife.record.events.lock().clone();
    let stored = store.load(&id).await.unwrap().unwrap_or_default().messages.len();
    assert_eq!(traces.open_legs(), 0, "{scenario:?} {mode:?} {k}: the spans of a leg outlived it");
    let before_spans: Vec<_> = earlier.iter().flat_map(|r| r.spans.clone()).collect();
    let report = Report {
        polls: knife.polls.load(SeqCst),
        commits: knife.commits.load(SeqCst),
        kinds: events.iter().map(|e| e.kind.clone()).collect(),
        events,
        messages: session.messages(),
        snapshot: session.snapshot(),
        trace: [earlier_trace, leg_trace.clone()].concat(),
        leg_trace,
        callbacks: watched.callbacks(),
        records: watched.records(),
        spans: spans.ended(),
        spans_checked: spans.check(&before_spans),
        stored,
        busy: session.is_busy(),
        after_cut: knife.cut_at.lock().map(|at| ended - at),
        took: ended - began,
        places: knife.places(),
    };
    // It holds the ledger, which holds the probe, which holds the knife.
    drop(knife.handle.lock().take());
    drop((session, agent));
    report
}
