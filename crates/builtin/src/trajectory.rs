//! Trajectories: what an agent's sessions did, step by step, in files that tools for evaluation and training read.

mod document;
mod open;

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use turnwright_core::{CallId, Part, SessionId, TurnId};
use turnwright_hook::{
    instrument::{Call, InstrumentGuard, Instrumentation},
    observe::{Observed, QueueGone, QueueStats, SubscriptionGuard},
};
use turnwright_llm_stream::LlmRequest;
use turnwright_react_runtime::{Agent, Record, RecordName};

use crate::{
    files::{io_blocking, replace},
    overflow::name_of,
};
use document::Document;
use open::{Asked, At, Child, Images, Open};

/// Entries that wait for the worker.
const QUEUE: usize = 10_000;

/// Writes what agents' sessions do as trajectories in the format ATIF 1.7, a file a session: `SESSION.json` below a folder. For
/// evaluation, training, and looking back: the standard form that the tools of others read.
///
/// A step is a message of the user, an answer with its calls, their results, its usage and its model, a summary, or that a turn
/// did not complete. What the format has no place for stands in `extra`: why a call failed, who approved it, with what it ran,
/// that an answer was cut. A subagent's session has a file of its own, to which the result of its call points, when it is
/// attached too. Images of data URLs are written below `images/`.
///
/// It holds **all content**: what people and models said, arguments and results. It sees history as it is kept, so what an
/// interceptor took out ([`Redact`](turnwright_interceptor::builtin::Redact)) is not in it. Files are for their user only.
///
/// It is made of an observer and of instrumentation, which put what they are told of into a queue of 10,000; no turn waits for a
/// disk. [`Self::below`] gives the worker too, and whoever spawns it owns it. It rewrites a session's file as a whole after what
/// came in meanwhile, beside it first, so that a file is valid at every moment and a crash leaves the last one. A session that
/// goes on, in this process or in another, goes on in its file; two processes that run turns of one session at once, which leases
/// keep them from, would overwrite each other's. A file that is not ours is left alone, and counted as failed.
#[derive(Debug, Clone)]
pub struct Trajectories {
    feed: Feed,
    handled: watch::Receiver<u64>,
}

/// An agent whose sessions are written down: until this is dropped.
#[derive(Debug)]
#[must_use = "nothing more is written once this is dropped"]
pub struct Recording {
    _observer: SubscriptionGuard,
    _instrument: InstrumentGuard,
}

#[derive(Debug, Clone)]
struct Feed {
    queue: mpsc::Sender<Entry>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    queued: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
enum Entry {
    Record(Arc<Record>),
    Asked(SessionId, At, Asked),
    /// A call of this session started a turn of that one.
    Child(SessionId, CallId, SessionId),
}

impl Feed {
    fn put(&self, entry: Entry) {
        let count = match self.queue.try_send(entry) {
            Ok(()) => &self.counts.queued,
            Err(_) => &self.counts.dropped,
        };
        count.fetch_add(1, SeqCst);
    }
}

impl Trajectories {
    /// Writes them below this folder, which is made when it is needed. The version is that of the agents, for whoever compares.
    ///
    /// The second value is the worker. It ends when this, its clones and its [`Recording`]s are gone and all is written. Dropped
    /// before that, it leaves each file as it was last written.
    pub fn below(folder: &Path, version: &str) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (done, handled) = watch::channel(0);
        let counts = Arc::new(Counts::default());
        let (folder, version) = (folder.into(), version.into());
        let writer = Writer { folder, version, counts: counts.clone(), dropped: 0, open: HashMap::new() };
        (Self { feed: Feed { queue, counts }, handled }, writer.work(waiting, done))
    }

    /// Writes down the sessions of this agent from now on.
    pub fn attach(&self, agent: &Agent) -> Recording {
        let feed = self.feed.clone();
        let observer =
            agent.observers().on_all(move |record: &Arc<Record>| feed.put(Entry::Record(record.clone())));
        let instrument = agent.instruments().register(Requests(self.feed.clone()));
        Recording { _observer: observer.into_guard(), _instrument: instrument.into_guard() }
    }

    /// What became of what it was told of. A failure is a file that could not be read or written; each is logged as a warning.
    pub fn stats(&self) -> QueueStats {
        let Counts { queued, dropped, failed } = &*self.feed.counts;
        QueueStats {
            queued: queued.load(SeqCst),
            handled: *self.handled.borrow(),
            failed: failed.load(Relaxed),
            dropped: dropped.load(SeqCst),
        }
    }

    /// Waits until all that was told before is written.
    ///
    /// # Errors
    /// [`QueueGone`] when the worker is gone before.
    ///
    /// # Cancel safety
    /// Safe: ask again.
    pub async fn flush(&self) -> Result<(), QueueGone> {
        let (queued, mut handled) = (self.feed.counts.queued.load(SeqCst), self.handled.clone());
        let flushed = handled.wait_for(|handled| *handled >= queued).await.is_ok();
        let left = queued.saturating_sub(*self.handled.borrow());
        if flushed || left == 0 { Ok(()) } else { Err(QueueGone { left }) }
    }
}

/// Sees what no record has: the system prompt and the tools of a request, that a model was asked at all, and whose subagent a
/// turn is.
struct Requests(Feed);

impl Instrumentation for Requests {
    type Context = ();

    fn before_agent_run(&self, call: &Call<'_>, _: &[Part]) -> Option<()> {
        if let Some(parent) = call.ctx.parent() {
            let (session, call_id) = (parent.session.clone(), parent.call.clone());
            self.0.put(Entry::Child(session, call_id, call.ctx.session().clone()));
        }
        None
    }

    fn before_model_call(&self, call: &Call<'_>, request: &LlmRequest) -> Option<()> {
        let ctx = call.ctx;
        let at: (TurnId, u32, u32) = (ctx.turn(), ctx.attempt(), ctx.iteration());
        let (system, tools) = (request.system.clone(), request.tools.clone());
        self.0.put(Entry::Asked(ctx.session().clone(), at, Asked { scope: call.scope.id, system, tools }));
        None
    }
}

/// The worker.
struct Writer {
    folder: PathBuf,
    version: String,
    counts: Arc<Counts>,
    /// What was dropped when it was last looked.
    dropped: u64,
    /// Sessions whose legs run. None: their file is not ours.
    open: HashMap<SessionId, Option<Open>>,
}

impl Writer {
    async fn work(mut self, mut waiting: mpsc::Receiver<Entry>, done: watch::Sender<u64>) {
        let mut entries = Vec::new();
        loop {
            let count = waiting.recv_many(&mut entries, QUEUE).await;
            if count == 0 {
                return;
            }
            let mut images = Images::default();
            for entry in entries.drain(..) {
                self.take(entry, &mut images).await;
            }
            self.write(images).await;
            done.send_modify(|handled| *handled += count as u64);
        }
    }

    async fn take(&mut self, entry: Entry, images: &mut Images) {
        match entry {
            Entry::Record(record) => {
                self.keep_children(&record);
                match self.open(&record.session).await {
                    Some(open) => open.record(&record, images),
                    // The next leg looks again.
                    None if record.name() == RecordName::TurnFinished => {
                        drop(self.open.remove(&record.session));
                    }
                    None => {}
                }
            }
            Entry::Asked(session, at, asked) => {
                if let Some(open) = self.open(&session).await {
                    open.asked(at, asked);
                }
            }
            // Of a parent that is over nothing more is written.
            Entry::Child(parent, call, session) => {
                if let Some(Some(open)) = self.open.get_mut(&parent) {
                    let file = file_of(&session);
                    open.child(Child { call, session, file });
                }
            }
        }
    }

    /// What points to a subagent's file must find it, and an agent may have others that are not attached.
    fn keep_children(&mut self, record: &Record) {
        let parent = self.open.get_mut(&record.session).and_then(Option::as_mut);
        let Some(open) = parent.filter(|open| record.name() == RecordName::Message && open.has_children())
        else {
            return;
        };
        let children = open.take_children();
        let is_written =
            |child: &Child| self.open.contains_key(&child.session) || self.folder.join(&child.file).exists();
        let kept: Vec<_> = children.into_iter().filter(is_written).collect();
        if let Some(Some(open)) = self.open.get_mut(&record.session) {
            kept.into_iter().for_each(|child| open.child(child));
        }
    }

    /// The session, read from its file if it has one.
    async fn open(&mut self, session: &SessionId) -> Option<&mut Open> {
        if !self.open.contains_key(session) {
            let path = self.folder.join(file_of(session));
            let read = io_blocking(move || read(&path)).await;
            let open = match read {
                Ok(Some(document)) => Some(Open::new(document)),
                Ok(None) => Some(Open::new(Document::new(session.as_str(), &self.version))),
                Err(e) => {
                    self.failed(session, &e);
                    None
                }
            };
            self.open.insert(session.clone(), open);
        }
        self.open.get_mut(session)?.as_mut()
    }

    async fn write(&mut self, images: Images) {
        let dropped = self.counts.dropped.load(SeqCst);
        if dropped != std::mem::replace(&mut self.dropped, dropped) {
            self.open.values_mut().flatten().for_each(|open| open.is_incomplete(dropped));
        }
        let mut written: Vec<(PathBuf, Vec<u8>)> =
            images.0.into_iter().map(|(name, bytes)| (self.folder.join(name), bytes)).collect();
        let mut failed = Vec::new();
        for (session, open) in &mut self.open {
            let Some(open) = open.as_mut().filter(|open| open.is_changed && !open.document.steps.is_empty())
            else {
                continue;
            };
            match open.document.written() {
                Ok(text) => written.push((self.folder.join(file_of(session)), text.into_bytes())),
                Err(e) => failed.push((session.clone(), io::Error::other(e))),
            }
            open.is_changed = false;
        }
        self.open.retain(|_, open| open.as_ref().is_none_or(|open| !open.is_over));
        failed.iter().for_each(|(session, e)| self.failed(session, e));
        let results =
            io_blocking(move || Ok(written.iter().map(|(path, text)| put(path, text)).collect::<Vec<_>>()))
                .await;
        for e in results.unwrap_or_else(|e| vec![Err(e)]).into_iter().filter_map(Result::err) {
            self.counts.failed.fetch_add(1, Relaxed);
            tracing::warn!("a trajectory was not written: {e}");
        }
    }

    fn failed(&self, session: &SessionId, e: &io::Error) {
        self.counts.failed.fetch_add(1, Relaxed);
        tracing::warn!("session {session} has no trajectory: {e}");
    }
}

/// The file of a session, below the folder.
fn file_of(session: &SessionId) -> String {
    format!("{}.json", name_of(session.as_str()))
}

fn read(path: &Path) -> io::Result<Option<Document>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| {
            let why = format!("{} is no trajectory of ours, and is left alone: {e}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

/// The format and the bytes of an image in a data URL.
fn data_url(uri: &str) -> Option<(String, Vec<u8>)> {
    let (media, data) = uri.strip_prefix("data:")?.split_once(";base64,")?;
    Some((media.to_owned(), STANDARD.decode(data).ok()?))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
