//! One life of the process: it takes the turn up where it finds it, and goes on until it is over or it is killed.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::StreamExt;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, CallId, Decision, Recovery, SessionId, Sources, Timestamp};
use turnwright_react_runtime::{
    Agent, TurnEventKind,
    gate::AskFor,
    store::{
        Committed, Fence, JournalAppend, RecordedEvent, SessionCommit, SessionQuery, SessionStore,
        SessionSummary, StoreError, StoredEvent, StoredSession,
    },
    tool::{ToolContext, ToolError, tool},
};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel};

/// The directory of the life; without it the test is none.
pub(crate) const LIFE: &str = "TURNWRIGHT_TEST_LIFE";
/// The step at which it is killed.
pub(crate) const KILL_AT: &str = "TURNWRIGHT_TEST_KILL_AT";
/// What a life says whose turn is over.
pub(crate) const DONE: &str = "the turn is over";

pub(crate) struct Paths {
    pub(crate) store: PathBuf,
    pub(crate) effects: PathBuf,
    pub(crate) shown: PathBuf,
    pub(crate) steps: PathBuf,
}

impl Paths {
    pub(crate) fn of(directory: &Path) -> Self {
        let file = |name: &str| directory.join(name);
        Self { store: file("s.db"), effects: file("effects"), shown: file("shown"), steps: file("steps") }
    }
}

/// Counts the steps, and ends the process at the one that was named: no destructor runs, nothing is flushed.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    pub(crate) fn step(&self) {
        let step = self.0.fetch_add(1, SeqCst) + 1;
        let at = std::env::var(KILL_AT).ok().and_then(|at| at.parse().ok());
        if at == Some(step) {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
    }
}

/// A step before each thing that is written, and one after it.
struct Stepping {
    inner: SqliteStore,
    steps: Steps,
}

impl Stepping {
    fn around<'a, T: 'a>(
        &'a self,
        work: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.steps.step();
            let done = work.await;
            self.steps.step();
            done
        })
    }
}

impl SessionStore for Stepping {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.inner.load(session)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        self.around(Box::pin(async move { self.inner.commit(change).await }))
    }
    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        self.around(Box::pin(async move { self.inner.append(records).await }))
    }
    fn renew<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.renew(session, fence, ttl)
    }
    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.around(Box::pin(async move { self.inner.release(session, fence, events).await }))
    }
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(session)
    }
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.inner.list(query)
    }
    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.inner.events(session, after, limit)
    }
    fn watch(&self, session: &SessionId) -> Wakeup {
        self.inner.watch(session)
    }
}

fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Two reads beside each other, a write that is asked about, and a note that is not; each leaves its key in a file.
fn agent(paths: &Paths, steps: &Steps, model: &ScriptedModel, store: Arc<dyn SessionStore>) -> Agent {
    let recovery = match std::env::var("RECOVERY").as_deref() {
        Ok("rerun") => Recovery::Rerun,
        _ => Recovery::Report,
    };
    let acts = |name: &str| {
        let (effects, steps) = (paths.effects.clone(), steps.clone());
        tool(name, "", move |ctx: ToolContext, args: serde_json::Value| {
            let (effects, steps) = (effects.clone(), steps.clone());
            async move {
                steps.step();
                append(&effects, &ctx.idempotency_key());
                steps.step();
                tokio::task::yield_now().await;
                Ok::<_, ToolError>(args.to_string())
            }
        })
    };
    Agent::builder("t", model.handle())
        .store(store)
        .tool(acts("look").parallel().recovery(recovery))
        .tool(acts("write").recovery(recovery))
        .tool(acts("note").recovery(recovery))
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap()
}

/// The answers of the whole turn. The last one comes slowly, so that a kill meets it half shown.
fn script() -> Vec<Reply> {
    let pause = Duration::from_millis(30);
    let slow = (0..12).fold(Reply::new(), |reply, n| reply.wait(pause).text(format!("word{n} ")));
    vec![
        Reply::new().text("one ").call("a", "look", r#"{"n":1}"#).call("b", "look", r#"{"n":2}"#).finish(),
        Reply::new()
            .reasoning("hm")
            .text("two ")
            .call("c", "write", r#"{"n":3}"#)
            .call("d", "note", "")
            .finish(),
        slow.text("done").finish(),
    ]
}

#[test]
fn one_life() {
    let Some(directory) = std::env::var_os(LIFE) else { return };
    let paths = Paths::of(Path::new(&directory));
    for file in [&paths.effects, &paths.shown] {
        OpenOptions::new().create(true).append(true).open(file).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let over = runtime.block_on(live(&paths));
    runtime.shutdown_background();
    if over {
        println!("{DONE}");
    }
}

async fn live(paths: &Paths) -> bool {
    let steps = Steps::default();
    let sqlite = SqliteStore::open(&paths.store).unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(Stepping { inner: sqlite, steps: steps.clone() });
    let id = SessionId::new("s").unwrap();
    let clock = Sources::default().clock;
    loop {
        // A provider answers what it is asked: by the calls that are history.
        let stored = store.load(&id).await.unwrap().unwrap_or_default();
        let answered = stored.messages.iter().filter(|m| m.tool_calls().count() > 0).count();
        let model = ScriptedModel::new(script().into_iter().skip(answered).collect::<Vec<_>>());
        let session = agent(paths, &steps, &model, store.clone()).open_session(id.clone()).await.unwrap();
        if stored.revision > 0 && !session.is_parked() {
            fs::write(&paths.steps, steps.0.load(SeqCst).to_string()).unwrap();
            return true;
        }
        if !session.is_interrupted() && !session.pending().is_empty() {
            let calls: Vec<CallId> = session.pending().iter().map(|r| r.call.id.clone()).collect();
            session.decide(&Decision::allow(calls, "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
        }
        let started = if session.is_parked() { session.resume() } else { session.start("go") };
        let mut handle = started.unwrap();
        // What was shown so long ago that it must survive a kill: written down before anything later is shown.
        let (mut shown, mut text, mut answer) = (Vec::new(), String::new(), 0);
        while let Some(event) = handle.next().await {
            match event.kind {
                TurnEventKind::IterationStarted { .. } => {
                    (shown, text, answer) = (Vec::new(), String::new(), answer + 1);
                }
                TurnEventKind::TextDelta { text: more } => {
                    text.push_str(&more);
                    shown.push((clock.instant(), text.len()));
                    let old = clock.instant() - Duration::from_millis(250);
                    if let Some((_, long)) = shown.iter().rev().find(|(at, _)| *at <= old) {
                        append(&paths.shown, &format!("{answer}\t{}", &text[..*long]));
                    }
                    steps.step();
                }
                _ => {}
            }
        }
    }
}
