//! A summarizer: earlier messages of long conversations become a summary, between two turns.

mod text;
mod work;

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use turnwright_core::CancelToken;
use turnwright_hook::observe::SubscriptionGuard;
use turnwright_react_runtime::{Agent, Record, RecordKind, RecordName, Session, TurnEventKind};

use work::Desk;

/// Summarises the earlier messages of an agent's sessions, by an agent of its own, so that a conversation fits into a model's
/// window. It is made of observers alone.
///
/// At the end of a turn whose last model call read at least so many tokens, as its provider says, a task begins to summarise all
/// but the last messages. At the start of the next turn that finds it done, models read the summary in the place of those
/// messages: one step, [`Session::summarise`]. The messages themselves stay. A call and its result are never divided. What the
/// summarising agent used is counted with that turn, whatever came of it; where no further turn comes, it is counted nowhere
/// but in the summarising agent's own budget.
///
/// A summary that fails, is cancelled or empty changes nothing, and the next turn that is large enough tries again. Each
/// session has one task at most. It ends with the session, and with [`Summarizing`].
#[derive(Debug, Clone)]
#[must_use = "attach it to an agent"]
pub struct Summarizer {
    by: Agent,
    limits: Limits,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    budget: u64,
    keep: usize,
    target: usize,
    input: usize,
}

impl Summarizer {
    /// The tokens of a model call from which on the session is summarised, unless [`Self::budget`] says otherwise.
    pub const DEFAULT_BUDGET: u64 = 100_000;
    /// How many messages are kept as they are, unless [`Self::keep`] says otherwise.
    pub const DEFAULT_KEEP: usize = 10;
    /// How many characters a summary is to have, unless [`Self::target`] says otherwise.
    pub const DEFAULT_TARGET: usize = 1_000;
    /// How many characters are given to the summarising agent, unless [`Self::input`] says otherwise: about 70,000 tokens of
    /// English.
    pub const DEFAULT_INPUT: usize = 280_000;

    /// A summarizer that asks this agent. It should have instructions of its own, a model of its own if wanted, and no tools.
    pub fn new(by: Agent) -> Self {
        let limits = Limits {
            budget: Self::DEFAULT_BUDGET,
            keep: Self::DEFAULT_KEEP,
            target: Self::DEFAULT_TARGET,
            input: Self::DEFAULT_INPUT,
        };
        Self { by, limits }
    }

    /// The tokens that a turn's last model call must have read, by its provider's count, for the session to be summarised.
    pub fn budget(mut self, tokens: u64) -> Self {
        self.limits.budget = tokens;
        self
    }

    /// How many of the last messages stay as they are. A few more, where the border would divide a call from its result.
    pub fn keep(mut self, messages: usize) -> Self {
        self.limits.keep = messages;
        self
    }

    /// How many characters the summary is to have. One of more than four times as many is cut.
    pub fn target(mut self, chars: usize) -> Self {
        self.limits.target = chars;
        self
    }

    /// How many characters of the conversation are given to the summarising agent: 70 % of its model's window at most. Of a
    /// longer one the oldest are left out, and it is told so.
    pub fn input(mut self, chars: usize) -> Self {
        self.limits.input = chars;
        self
    }

    /// Summarises the sessions of this agent from now on. One summarizer an agent: sessions have one task at most, whoever
    /// began it.
    pub fn attach(self, agent: &Agent) -> Summarizing {
        let shared = Arc::new(Shared {
            agent: agent.clone(),
            by: self.by,
            limits: self.limits,
            alive: CancelToken::new(),
            counts: Counts::default(),
        });
        let observe = |name, react: fn(&Arc<Shared>, &Session, &Arc<Desk>, &Record)| {
            // The agent holds its observers: they must not hold the agent.
            let shared: Weak<Shared> = Arc::downgrade(&shared);
            let react = move |record: &Arc<Record>| {
                let Some(shared) = shared.upgrade() else { return };
                if let Some(session) = shared.agent.find_session(&record.session) {
                    react(&shared, &session, &session.own::<Desk>(), record);
                }
            };
            agent.observers().on(name, react).into_guard()
        };
        let observers = [
            observe(RecordName::TurnStarted, |shared, session, desk, record| {
                // A turn that goes on is not at its start.
                if record.leg == 1 {
                    desk.hand_over(&shared.counts, session);
                }
            }),
            observe(RecordName::ModelCallStarted, |_, _, desk, _| desk.model_is_asked()),
            observe(RecordName::Usage, |_, _, desk, record| {
                if let RecordKind::Event(TurnEventKind::Usage { usage, purpose: None }) = &record.kind {
                    desk.model_has_read(usage.input_tokens);
                }
            }),
            observe(RecordName::TurnFinished, |shared, session, desk, record| {
                if let RecordKind::Event(TurnEventKind::TurnFinished(finished)) = &record.kind
                    && finished.terminal
                    && desk.take_read() >= shared.limits.budget
                {
                    desk.begin(shared, session);
                }
            }),
        ];
        Summarizing { shared, observers }
    }
}

/// What the observers and the tasks share.
struct Shared {
    agent: Agent,
    by: Agent,
    limits: Limits,
    /// Cancelled when it is over.
    alive: CancelToken,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    collapsed: AtomicU64,
    failed: AtomicU64,
}

/// A summarizer at work. Dropping it ends it and its tasks; what they have summarised by then and did not hand over is lost.
#[must_use = "the summarizer ends when this is dropped"]
pub struct Summarizing {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "held for their destructors")]
    observers: [SubscriptionGuard; 4],
}

/// What a summarizer did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummarizerStats {
    /// Tasks that were begun.
    pub begun: u64,
    /// Summaries that models read now.
    pub collapsed: u64,
    /// Summaries that came to nothing. Each is logged as a warning.
    pub failed: u64,
}

impl Summarizing {
    /// What it did so far.
    pub fn stats(&self) -> SummarizerStats {
        let counts = &self.shared.counts;
        SummarizerStats {
            begun: counts.begun.load(Relaxed),
            collapsed: counts.collapsed.load(SeqCst),
            failed: counts.failed.load(SeqCst),
        }
    }
}

impl Drop for Summarizing {
    fn drop(&mut self) {
        let over = turnwright_core::CancelCause::runtime(
            turnwright_core::CancelKind::Superseded,
            "the summarizer is over",
        );
        self.shared.alive.cancel(over);
    }
}

impl fmt::Debug for Summarizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
