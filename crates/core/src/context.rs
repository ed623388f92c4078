//! The context of a turn: what hooks, layers, tools and clients may ask the runtime for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use crate::{
    Budget, CallId, CancelToken, History, MemoryHistory, RunId, SessionId, Sources, Timestamp, TokenUsage,
    TurnId, TurnState, clock::Instant,
};

/// The call that a turn is a part of: one of another agent's turn, which started this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentCall {
    /// The session of that turn.
    pub session: SessionId,
    /// Its run.
    pub run: RunId,
    /// That turn.
    pub turn: TurnId,
    /// The call.
    pub call: CallId,
}

/// Where usage of model calls is counted that were made for a turn beside its loop.
pub trait CountUsage: Send + Sync {
    /// Adds it to the turn's total. The turn's budget is not charged.
    fn count_usage(&self, usage: TokenUsage, purpose: &str);
}

/// A cheap, shared handle to one leg of one turn. Clones are the same context.
#[derive(Clone)]
pub struct TurnContext(Arc<Inner>);

struct Inner {
    session: SessionId,
    run: RunId,
    turn: TurnId,
    leg: u32,
    agent: Arc<str>,
    run_cancel: CancelToken,
    cancel: CancelToken,
    started_at: Timestamp,
    deadline: Option<Instant>,
    budget: Option<Budget>,
    parent: Option<ParentCall>,
    sources: Sources,
    state: TurnState,
    history: Arc<dyn History>,
    usage: Option<Arc<dyn CountUsage>>,
    drain: AtomicBool,
    attempt: AtomicU32,
    iteration: AtomicU32,
}

impl TurnContext {
    /// Starts a context by hand: for chains, hooks and clients that run without the loop, and for tests. What is not
    /// set is fresh.
    pub fn builder(session: SessionId) -> TurnContextBuilder {
        TurnContextBuilder {
            session,
            run: None,
            turn: None,
            leg: 1,
            agent: "agent".into(),
            run_cancel: CancelToken::new(),
            started_at: None,
            deadline: None,
            budget: None,
            parent: None,
            sources: Sources::default(),
            state: TurnState::new(),
            history: None,
            usage: None,
        }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }

    /// The agent run this turn belongs to.
    pub fn run(&self) -> RunId {
        self.0.run
    }

    /// The turn.
    pub fn turn(&self) -> TurnId {
        self.0.turn
    }

    /// Which leg of the turn this is, from 1.
    pub fn leg(&self) -> u32 {
        self.0.leg
    }

    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.0.agent
    }

    /// The turn's cancel token. Its first cause is the turn's latch: a cancel taken from a channel is kept here, and
    /// whoever comes second sees it.
    pub fn cancel(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// The cancel token of the whole agent run: the turn's, and those of the agents it started, hang under it.
    pub fn run_cancel(&self) -> &CancelToken {
        &self.0.run_cancel
    }

    /// When the turn (not this leg of it) began. A command that names no turn and is older is stale.
    pub fn started_at(&self) -> Timestamp {
        self.0.started_at
    }

    /// When the turn must be over.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// What the turn may use, if that is limited: for tools that start other agents, and to look at.
    pub fn budget(&self) -> Option<&Budget> {
        self.0.budget.as_ref()
    }

    /// The call that started this leg, if one did: for traces, and for whoever must know whether the turn is a subagent's.
    /// It is the leg's: one that nobody's call resumed has none.
    pub fn parent(&self) -> Option<&ParentCall> {
        self.0.parent.as_ref()
    }

    /// Time, ids and randomness.
    pub fn sources(&self) -> &Sources {
        &self.0.sources
    }

    /// Typed state of the turn; travels with its snapshot.
    pub fn state(&self) -> &TurnState {
        &self.0.state
    }

    /// The session's history, this turn's messages included.
    pub fn history(&self) -> &dyn History {
        &*self.0.history
    }

    /// Adds usage to the total of the turn, which is told of it: for hooks and tools that ask a model on the turn's behalf. They
    /// charge its [`budget`](Self::budget) themselves, or have the agent that they start charge it. The purpose, in a word, tells it
    /// from what the turn's own model calls use. Once the turn's result stands nothing is added any more.
    pub fn count_usage(&self, usage: TokenUsage, purpose: &str) {
        if let Some(total) = &self.0.usage {
            total.count_usage(usage, purpose);
        }
    }

    /// Asks the turn to stop at its next step boundary. Returns whether this was the first to ask.
    pub fn request_drain(&self) -> bool {
        !self.0.drain.swap(true, Relaxed)
    }

    /// Whether the turn was asked to stop at its next step boundary.
    pub fn is_drain_requested(&self) -> bool {
        self.0.drain.load(Relaxed)
    }

    /// The attempt that runs, from 1; 0 before the first.
    pub fn attempt(&self) -> u32 {
        self.0.attempt.load(Relaxed)
    }

    /// The iteration of the attempt that runs, from 1; 0 before the first.
    pub fn iteration(&self) -> u32 {
        self.0.iteration.load(Relaxed)
    }

    /// For drivers: says where the turn stands.
    pub fn set_position(&self, attempt: u32, iteration: u32) {
        self.0.attempt.store(attempt, Relaxed);
        self.0.iteration.store(iteration, Relaxed);
    }
}

impl std::fmt::Debug for TurnContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnContext")
            .field("session", &self.0.session)
            .field("turn", &self.0.turn)
            .field("leg", &self.0.leg)
            .finish_non_exhaustive()
    }
}

/// Builds a [`TurnContext`].
#[must_use]
pub struct TurnContextBuilder {
    session: SessionId,
    run: Option<RunId>,
    turn: Option<TurnId>,
    leg: u32,
    agent: Arc<str>,
    run_cancel: CancelToken,
    started_at: Option<Timestamp>,
    deadline: Option<Instant>,
    budget: Option<Budget>,
    parent: Option<ParentCall>,
    sources: Sources,
    state: TurnState,
    history: Option<Arc<dyn History>>,
    usage: Option<Arc<dyn CountUsage>>,
}

impl TurnContextBuilder {
    /// The agent run.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The turn, and which leg of it.
    pub fn turn(mut self, turn: TurnId, leg: u32) -> Self {
        self.turn = Some(turn);
        self.leg = leg;
        self
    }

    /// The agent's name.
    pub fn agent(mut self, agent: impl Into<Arc<str>>) -> Self {
        self.agent = agent.into();
        self
    }

    /// The cancel token of the agent run; the turn's becomes its child.
    pub fn run_cancel(mut self, token: CancelToken) -> Self {
        self.run_cancel = token;
        self
    }

    /// When the turn began; now, when not set.
    pub fn started_at(mut self, at: Timestamp) -> Self {
        self.started_at = Some(at);
        self
    }

    /// What the turn may use.
    pub fn budget(mut self, budget: Option<Budget>) -> Self {
        self.budget = budget;
        self
    }

    /// The call that started it.
    pub fn parent(mut self, parent: Option<ParentCall>) -> Self {
        self.parent = parent;
        self
    }

    /// When the turn must be over.
    pub fn deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Time, ids and randomness.
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }

    /// State to go on with.
    pub fn state(mut self, state: TurnState) -> Self {
        self.state = state;
        self
    }

    /// The history.
    pub fn history(mut self, history: Arc<dyn History>) -> Self {
        self.history = Some(history);
        self
    }

    /// Where usage is counted; nowhere, when not set.
    pub fn usage(mut self, usage: Arc<dyn CountUsage>) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The context.
    pub fn build(self) -> TurnContext {
        TurnContext(Arc::new(Inner {
            session: self.session,
            run: self.run.unwrap_or_else(|| self.sources.id()),
            turn: self.turn.unwrap_or_else(|| self.sources.id()),
            leg: self.leg,
            agent: self.agent,
            cancel: self.run_cancel.child(),
            run_cancel: self.run_cancel,
            started_at: self.started_at.unwrap_or_else(|| self.sources.clock.now()),
            deadline: self.deadline,
            budget: self.budget,
            parent: self.parent,
            sources: self.sources,
            state: self.state,
            history: self.history.unwrap_or_else(|| Arc::new(MemoryHistory::default())),
            usage: self.usage,
            drain: AtomicBool::new(false),
            attempt: AtomicU32::new(0),
            iteration: AtomicU32::new(0),
        }))
    }
}
