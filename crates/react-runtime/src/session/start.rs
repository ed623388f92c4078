//! Starting legs.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_core::{
    Budget, BudgetUsed, CancelCause, CancelToken, ErrorInfo, Message, Part, Role, RunId, Timestamp,
    TokenUsage, TurnContext, TurnId, TurnState,
};
use turnwright_hook::instrument::follow;

use super::{Parent, Running, Session, SessionInner, TurnHandle, next::next_leg};
use crate::{
    driver::{Granted, Keeper, LastWords, LegRt, Spawned, drive},
    event::TurnEventKind,
    ledger::{Ledger, LegParts, RecordsOf},
    machine::TurnMachine,
    queue::EventQueue,
    snapshot::TurnSnapshot,
    typed::AnswerCheck,
};

/// What a user says.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Text and images.
    pub parts: Vec<Part>,
    /// The sender's own id of it: kept with the message.
    pub key: Option<String>,
}

impl Input {
    /// The same, with the sender's own id.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::from(vec![Part::text(text)])
    }
}
impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::from(vec![Part::text(text)])
    }
}
impl From<Vec<Part>> for Input {
    fn from(parts: Vec<Part>) -> Self {
        Self { parts, key: None }
    }
}

/// Whether a user can say this: at least one part, all of them text or images.
pub(crate) fn is_sayable(parts: &[Part]) -> bool {
    !parts.is_empty() && parts.iter().all(|p| matches!(p, Part::Text { .. } | Part::Image(_)))
}

/// Why no leg was started. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A turn of the session runs, or a decision is being recorded. One writes a session at a time.
    #[error("a turn of the session is running")]
    Busy,
    /// A turn of the session is suspended or drained: resume it, or cancel it.
    #[error("a turn of the session is not over: resume it, or end it with `cancel_parked`")]
    Parked,
    /// Nothing waits to be resumed.
    #[error("no turn of the session waits to be resumed")]
    NothingToResume,
    /// The turn waits for decisions, and none was made since.
    #[error("the turn waits for {0} decisions")]
    Undecided(usize),
    /// The message holds nothing, or what a user cannot say.
    #[error("a message needs at least one part, all of them text or images")]
    InvalidInput,
    /// The agent has other tools than the turn was begun with.
    #[error("the turn was begun with another set of tools")]
    ToolsChanged,
    /// The snapshot cannot be read.
    #[error("the snapshot of the turn cannot be read: {0}")]
    Unreadable(ErrorInfo),
    /// The agent shuts down: no turn begins any more.
    #[error("the agent shuts down")]
    ShuttingDown,
    /// The leg could not be spawned.
    #[error("the leg could not be spawned: {0}")]
    Spawn(String),
}

impl Session {
    /// Starts a turn. The handle is known, and can cancel it, before anything ran.
    ///
    /// With a store, the message and a mark are stored before anything runs: when the process goes away in the middle
    /// of the leg, whoever opens the session finds the message and an interrupted turn.
    ///
    /// # Errors
    /// [`StartError`]; the session is as it was.
    pub fn start(&self, input: impl Into<Input>) -> Result<TurnHandle, StartError> {
        self.start_run(&Parent::new(), input.into(), None)
    }

    /// Starts a turn as a part of larger work: when `parent` is cancelled, so is the turn, for the same cause, and what it
    /// uses is used of the parent's budget; see [`Parent`].
    ///
    /// A token that is cancelled already ends the turn before it asks the model; the message is kept.
    ///
    /// # Errors
    /// [`StartError`]; the session is as it was.
    pub fn start_under(
        &self,
        parent: impl Into<Parent>,
        input: impl Into<Input>,
    ) -> Result<TurnHandle, StartError> {
        self.start_run(&parent.into(), input.into(), None)
    }

    pub(crate) fn start_run(
        &self,
        parent: &Parent,
        input: Input,
        answer: Option<Arc<AnswerCheck>>,
    ) -> Result<TurnHandle, StartError> {
        let Input { parts, key } = input;
        if !is_sayable(&parts) {
            return Err(StartError::InvalidInput);
        }
        let agent = &self.0.agent;
        agent.spawn.check()?;
        agent.admits()?;
        let mut state = self.0.state.lock();
        if state.busy {
            return Err(StartError::Busy);
        }
        if state.snapshot.is_some() {
            return Err(StartError::Parked);
        }
        state.busy = true;
        let mut messages = state.messages.clone();
        drop(state);
        let starting = Starting(Some(self.0.clone()));
        let turn_start = messages.len();
        // The prompt is there whatever happens next, also when the turn is cancelled before it did anything.
        let mut message = Message::new(agent.sources.id(), Role::User, parts);
        message.key = key;
        messages.push(Arc::new(message));
        let (turn, run) = (agent.sources.id(), agent.sources.id());
        let started_at = agent.sources.clock.now();
        let machine = TurnMachine::new(agent.limits);
        let leg = NewLeg {
            turn,
            run,
            leg: 1,
            started_at,
            state: TurnState::new(),
            parent: parent.clone(),
            budget: agent.budget_of(parent, BudgetUsed::default()),
            answer,
            last_word: None,
            cancelled: None,
            resolved: Vec::new(),
            granted: Vec::new(),
            begun_from: TurnSnapshot {
                schema: TurnSnapshot::SCHEMA,
                session: self.0.id.clone(),
                run,
                turn,
                agent: agent.name.to_string(),
                started_at,
                tools: agent.fingerprint.clone(),
                running: true,
                machine: machine.at_its_start(),
                turn_start,
                batch: None,
                deferred: Vec::new(),
                usage: TokenUsage::UNKNOWN,
                budget_used: BudgetUsed::default(),
                transaction: None,
                state: BTreeMap::new(),
            },
            parts: LegParts {
                machine,
                messages,
                turn_start,
                batch: None,
                deferred: Vec::new(),
                usage: TokenUsage::UNKNOWN,
                transaction: None,
            },
        };
        self.spawn(leg, starting)
    }

    /// Starts the next leg of the suspended or drained turn. A suspended one needs at least one decision since.
    ///
    /// A turn whose process went away in the middle of a leg goes on from its last checkpoint: what had been shown is kept
    /// as an interrupted answer, calls with a journalled result are not run again, and of calls in doubt the tool's
    /// [`Recovery`](turnwright_core::Recovery) decides. Where the process still runs, the leg ends as failed with the kind
    /// `session_held`, and nothing is changed.
    ///
    /// With a store, a mark is stored before anything runs, as by [`Session::start`], so that no approved call runs twice.
    /// When it cannot be stored, the leg ends as failed and the turn waits as before: resume it again.
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn resume(&self) -> Result<TurnHandle, StartError> {
        self.next_leg(&Parent::new(), None, None)
    }

    /// As [`Session::resume`], as a part of larger work: see [`Session::start_under`].
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn resume_under(&self, parent: impl Into<Parent>) -> Result<TurnHandle, StartError> {
        self.next_leg(&parent.into(), None, None)
    }

    /// Ends the suspended or drained turn as cancelled. That is a leg of its own: the history is made legal, the owed
    /// points fire, and it ends in one event.
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn cancel_parked(&self, cause: CancelCause) -> Result<TurnHandle, StartError> {
        self.next_leg(&Parent::new(), Some(cause), None)
    }

    /// Ends the suspended, drained or interrupted turn with this answer: no model is asked, and calls that wait are answered
    /// as not run. That is a leg of its own, with the points that are owed, and the turn completes.
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn finish_parked(&self, answer: impl Into<String>) -> Result<TurnHandle, StartError> {
        self.leg_of(&Parent::new(), None, None, Some(answer.into()))
    }

    pub(crate) fn next_leg(
        &self,
        parent: &Parent,
        cancelled: Option<CancelCause>,
        answer: Option<Arc<AnswerCheck>>,
    ) -> Result<TurnHandle, StartError> {
        self.leg_of(parent, cancelled, answer, None)
    }

    fn leg_of(
        &self,
        parent: &Parent,
        cancelled: Option<CancelCause>,
        answer: Option<Arc<AnswerCheck>>,
        last_word: Option<String>,
    ) -> Result<TurnHandle, StartError> {
        let agent = &self.0.agent;
        agent.spawn.check()?;
        if cancelled.is_none() {
            agent.admits()?;
        }
        let now = agent.sources.clock.now();
        let Ok(turnstile) = self.0.turnstile.try_lock() else { return Err(StartError::Busy) };
        let mut state = self.0.state.lock();
        if state.busy {
            return Err(StartError::Busy);
        }
        let snapshot = state.snapshot.clone().ok_or(StartError::NothingToResume)?;
        let (messages, journal) = (state.messages.clone(), state.journal.clone());
        state.busy = true;
        drop(state);
        let starting = Starting(Some(self.0.clone()));
        // No lock is held: ids and the tools' names are the embedder's.
        let is_answered = last_word.is_some();
        let leg = next_leg(snapshot, (messages, &journal), agent, (cancelled, is_answered), now)?;
        let budget = agent.budget_of(parent, leg.begun_from.budget_used);
        let leg = NewLeg { parent: parent.clone(), budget, answer, last_word, ..leg };
        drop(turnstile);
        self.spawn(leg, starting)
    }

    fn spawn(&self, new: NewLeg, mut starting: Starting) -> Result<TurnHandle, StartError> {
        let agent = self.0.agent.clone();
        self.0.allow(&new.granted);
        let queue = Arc::new(EventQueue::new(self.0.id.clone(), new.turn));
        let whose = RecordsOf {
            observers: agent.observers.clone(),
            session: self.0.id.clone(),
            turn: new.turn,
            leg: new.leg,
        };
        let ledger = Ledger::new(new.parts, whose, queue.clone(), agent.sources.clone());
        let ledger = if agent.store.is_some() { ledger.stored(new.turn) } else { ledger };
        let ledger = if new.budget.is_some() { ledger.charged() } else { ledger };
        #[cfg(feature = "commit-probe")]
        let ledger = ledger.probed(agent.commit_probe.clone());
        let ledger = Arc::new(ledger);
        // A deadline beyond the end of time is none.
        let own = agent.deadline.and_then(|d| agent.sources.clock.instant().checked_add(d));
        let deadline = own.into_iter().chain(new.parent.until()).min();
        let ctx = TurnContext::builder(self.0.id.clone())
            .run(new.run)
            .turn(new.turn, new.leg)
            .agent(agent.name.clone())
            .run_cancel(new.parent.run_cancel())
            .parent(new.parent.started_by())
            .started_at(new.started_at)
            .deadline(deadline)
            .budget(new.budget)
            .sources(agent.sources.clone())
            .state(new.state)
            .history(ledger.clone())
            .usage(ledger.clone())
            .build();
        if let Some(cause) = new.cancelled {
            ctx.cancel().cancel(cause);
        }
        let (outcome, outcome_rx) = watch::channel(None);
        let handle = TurnHandle {
            ctx: ctx.clone(),
            queue,
            interrupt: CancelToken::new(),
            outcome: outcome_rx,
            on_drop: agent.on_drop,
        };
        // Observers are told when the leg runs.
        ledger.with_quietly(|leg| {
            leg.emit(TurnEventKind::TurnStarted { agent: agent.name.to_string(), leg: leg.machine.leg() });
            for resolved in new.resolved {
                leg.emit(resolved);
            }
        });
        let rt = Arc::new(LegRt {
            session: self.0.clone(),
            ctx,
            ledger,
            interrupt: handle.interrupt.clone(),
            outcome,
            request: Mutex::default(),
            abort: Mutex::default(),
            parked: Mutex::default(),
            not_begun: Mutex::default(),
            keeper: Keeper::with(self.0.take_landed()),
            begun_from: Mutex::new(agent.store.is_some().then_some(new.begun_from)),
            time_charged: Mutex::new(Some(agent.sources.clock.instant())),
            breach: Mutex::default(),
            is_iteration_open: AtomicBool::new(false),
            answer: new.answer,
            last_word: Mutex::new(new.last_word),
            granted: Mutex::new(new.granted),
            spawned: Spawned::default(),
            agent: agent.clone(),
        });
        self.0.runs(Running {
            ctx: rt.ctx.clone(),
            ledger: rt.ledger.clone(),
            interrupt: handle.interrupt.clone(),
            outcome: handle.outcome.clone(),
        });
        // Whoever shuts the agent down either finds this leg, or is found by it.
        if agent.admits().is_err() {
            rt.ctx.request_drain();
        }
        let last = LastWords::of(&rt);
        agent.instruments.leg_begins(&rt.ctx);
        // A turn that is started in a call is a part of it. Refused, or panicked: the future is gone and never ran, so nothing
        // happened.
        let spawned = agent.spawn.spawn(Box::pin(follow(drive(rt.clone(), last))));
        if spawned.is_err() {
            rt.keep_landed(false);
            agent.instruments.leg_over(&rt.ctx, None);
        }
        spawned?;
        starting.disarm();
        rt.spawned();
        Ok(handle)
    }
}

/// Frees the session again when its leg does not come to run.
struct Starting(Option<Arc<SessionInner>>);

impl Starting {
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.not_started();
        }
    }
}

pub(super) struct NewLeg {
    pub(super) turn: TurnId,
    pub(super) run: RunId,
    pub(super) leg: u32,
    pub(super) started_at: Timestamp,
    pub(super) state: TurnState,
    pub(super) parent: Parent,
    pub(super) budget: Option<Budget>,
    pub(super) answer: Option<Arc<AnswerCheck>>,
    /// The answer of the turn, given from outside.
    pub(super) last_word: Option<String>,
    pub(super) cancelled: Option<CancelCause>,
    pub(super) resolved: Vec<TurnEventKind>,
    /// What people approved of since the last leg.
    pub(super) granted: Vec<Granted>,
    /// What the leg goes on from, marked as running.
    pub(super) begun_from: TurnSnapshot,
    pub(super) parts: LegParts,
}
