//! Many at once: what an idle session keeps in memory, and ten thousand turns in the midst of their answers. Prints
//! figures for `cargo xtask bench`; nothing here depends on how busy the machine is but the CPU time a turn takes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark stops at the first surprise, and prints what it found"
)]

mod stored;

use std::{future::Future, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use rustix::time::{ClockId, clock_gettime};
use tokio::{runtime::Runtime, sync::watch};
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, Outcome, SessionId, TurnContext};
use turnwright_llm_stream::{FinishReason, LlmClient, LlmEvent, LlmRequest, ModelHandle, StreamItem};
use turnwright_react_runtime::{
    Agent, Session, TurnEventKind,
    store::{
        Committed, Fence, JournalAppend, RecordedEvent, SessionCommit, SessionQuery, SessionStore,
        SessionSummary, StoreError, StoredEvent, StoredSession,
    },
};

const WORDS: &str = "some words of an answer ";
const DELTAS: usize = 20;

fn main() {
    // What is made once is not counted.
    idle(10);
    for sessions in [1_000, 10_000, 100_000] {
        println!("figure idle_bytes/{sessions} {:.0}", idle(sessions));
    }
    let (wakeup, commit) = stored::latencies();
    println!("figure sqlite_wakeup_micros {wakeup:.0}");
    println!("figure sqlite_commit_micros {commit:.0}");
    concurrent(10);
    for turns in [1, 100, 10_000] {
        let (bytes, micros) = concurrent(turns);
        println!("figure running_bytes/{turns} {bytes:.0}");
        println!("figure running_micros/{turns} {micros:.1}");
    }
}

/// The bytes that each of so many open sessions keeps once its turn is over.
fn idle(sessions: usize) -> f64 {
    let runtime = runtime();
    let (agent, release) = agent();
    release.send_replace(true);
    let mut open: Vec<Session> = Vec::with_capacity(sessions);
    let kept = measure(&runtime, async {
        for _ in 0..sessions {
            let session = agent.new_session();
            turn(&session, || {}).await;
            open.push(session);
        }
    });
    assert_eq!(agent.open_sessions(), sessions);
    drop(open);
    assert_eq!(agent.open_sessions(), 0, "nothing is kept for a session that is closed");
    kept.now as f64 / sessions as f64
}

/// The bytes at the peak and the CPU microseconds that each of so many turns takes. All are in the midst of their
/// answers before the first one may end.
fn concurrent(turns: usize) -> (f64, f64) {
    let runtime = runtime();
    let (agent, release) = agent();
    let begun = cpu();
    let kept = measure(&runtime, async {
        let started = std::cell::Cell::new(0);
        let note = || {
            started.set(started.get() + 1);
            if started.get() == turns {
                release.send_replace(true);
            }
        };
        let sessions: Vec<_> = (0..turns).map(|_| agent.new_session()).collect();
        sessions
            .iter()
            .map(|session| turn(session, note))
            .collect::<stream::FuturesUnordered<_>>()
            .count()
            .await
    });
    let took = cpu() - begun;
    (kept.most as f64 / turns as f64, took.as_secs_f64() * 1e6 / turns as f64)
}

/// One turn, read to its end. Says when its answer began.
async fn turn(session: &Session, began: impl Fn()) {
    let mut turn = session.start("A question of a usual length, as people ask them.").unwrap();
    let mut text = 0;
    while let Some(event) = turn.next().await {
        match event.kind {
            TurnEventKind::TextDelta { text: delta } => {
                if text == 0 {
                    began();
                }
                text += delta.len();
            }
            TurnEventKind::TurnFinished(end) => {
                assert_eq!(end.outcome, Outcome::Completed, "{:?}", end.error);
            }
            _ => {}
        }
    }
    assert_eq!(text, DELTAS * WORDS.len());
}

/// An agent whose model says something, waits until it is released, and says the rest.
fn agent() -> (Agent, watch::Sender<bool>) {
    let (release, released) = watch::channel(false);
    let model = ModelHandle::new(Waits(released), "m");
    (Agent::builder("bench", model).store(Arc::new(Elsewhere)).build().unwrap(), release)
}

struct Waits(watch::Receiver<bool>);
impl LlmClient for Waits {
    fn provider(&self) -> &str {
        "bench"
    }
    fn stream(&self, _: &TurnContext, _: &LlmRequest) -> impl Stream<Item = StreamItem> + Send + 'static {
        let mut released = self.0.clone();
        let rest = async move {
            // The sender lives as long as the benchmark.
            let _ = released.wait_for(|released| *released).await;
            let end = [LlmEvent::finish(FinishReason::Stop).into()];
            stream::iter((1..DELTAS).map(|_| LlmEvent::text(WORDS).into()).chain(end))
        };
        stream::iter([LlmEvent::text(WORDS).into()]).chain(stream::once(rest).flatten())
    }
}

/// A store that is somewhere else: it takes every change, and keeps nothing here.
struct Elsewhere;
impl SessionStore for Elsewhere {
    fn load<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let committed = Committed { revision: change.base + 1, fence: Some(Fence(1)) };
        Box::pin(async move { Ok(committed) })
    }
    fn append(&self, _: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
    fn renew<'a>(&'a self, _: &'a SessionId, _: Fence, _: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
    fn release<'a>(
        &'a self,
        _: &'a SessionId,
        _: Fence,
        _: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
    fn delete<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
    fn list(&self, _: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn events<'a>(
        &'a self,
        _: &'a SessionId,
        _: u64,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn watch(&self, _: &SessionId) -> Wakeup {
        Wakeup::new(&tokio::sync::watch::Sender::new(0))
    }
}

/// Bytes that were allocated and not freed: in the end, and at most.
struct Kept {
    now: i64,
    most: u64,
}

/// Everything runs in this thread, so that every allocation is counted.
fn measure<T>(runtime: &Runtime, work: impl Future<Output = T>) -> Kept {
    let counted = allocation_counter::measure(|| {
        runtime.block_on(work);
    });
    Kept { now: counted.bytes_current, most: counted.bytes_max }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
