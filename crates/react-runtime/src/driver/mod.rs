//! The driver: carries out what the machine asks for.
//!
//! A leg is one future, owned by a spawned task. It has three parts. The *work* (chains, hooks, the model, tools) may be
//! dropped at any await. The *ledger* stands outside it and holds whatever was committed. The *finalizer* runs after the
//! work is gone; nothing races it: it makes the history legal, fires the owed points, saves, and ends in one event.

mod batch;
mod budget;
mod finalize;
mod fire;
mod inner;
mod model;
mod save;
mod tools;
mod work;

pub(crate) use batch::refused;
pub(crate) use save::Keeper;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt, future::OptionFuture};
use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_control::{ControlCommand, ControlError, Fate, drain_and_tell, return_leftovers};
use turnwright_core::{
    AgentResult, ApprovalRequest, CancelCause, CancelKind, CancelToken, Decision, ErrorInfo, ErrorKind,
    LegOutcome, StopReason, TurnContext, clock::Instant, panic::panic_text,
};
use turnwright_hook::instrument::Failure;
use turnwright_interceptor::Exit;
use turnwright_llm_stream::LlmRequest;

use crate::{
    agent::AgentInner,
    event::TurnEventKind,
    ledger::{Ledger, Leg},
    machine::{Fed, Step, Stop},
    session::SessionInner,
    snapshot::TurnSnapshot,
    sync::AtomicU8,
    typed::AnswerCheck,
};

/// How long work may take to let go after a cancel reached it as an error, before it is dropped.
pub const GRACE: Duration = Duration::from_millis(50);
/// How long the owed hooks of a cut turn may take together.
pub const UNWIND_BUDGET: Duration = Duration::from_secs(2);

/// What a person approved of, and the decision.
pub(crate) type Granted = (ApprovalRequest, Decision);

/// Everything one leg runs on.
pub(crate) struct LegRt {
    pub(crate) agent: Arc<AgentInner>,
    pub(crate) session: Arc<SessionInner>,
    pub(crate) ctx: TurnContext,
    pub(crate) ledger: Arc<Ledger>,
    /// Drops the work at once, without a control error: busy input, a dropped handle.
    pub(crate) interrupt: CancelToken,
    pub(crate) outcome: watch::Sender<Option<LegOutcome>>,
    /// The request BEFORE_LLM was shown, and the revision it was built from.
    pub(crate) request: Mutex<Option<(LlmRequest, u64)>>,
    /// What a tool asked for by `or_abort`.
    pub(crate) abort: Mutex<Option<ErrorInfo>>,
    /// The turn at rest, as it was saved when the leg was parked, and the revision of the history that was saved with it.
    pub(crate) parked: Mutex<Option<(TurnSnapshot, u64)>>,
    /// The mark of the leg could not be stored: the session is as before.
    pub(crate) not_begun: Mutex<Option<ErrorInfo>>,
    pub(crate) keeper: Keeper,
    /// What the leg goes on from, marked as running; taken when it was stored, none without a store.
    pub(crate) begun_from: Mutex<Option<TurnSnapshot>>,
    /// Until when its budget was charged for its time; none once it is over.
    pub(crate) time_charged: Mutex<Option<Instant>>,
    /// The budget that a call of the batch was refused for.
    pub(crate) breach: Mutex<Option<ControlError>>,
    /// The chain of the iteration was left with the iteration open, by its core and not by a layer.
    pub(crate) is_iteration_open: AtomicBool,
    /// The form that the turn's answer must have.
    pub(crate) answer: Option<Arc<AnswerCheck>>,
    /// The answer of the turn, given from outside.
    pub(crate) last_word: Mutex<Option<String>>,
    /// What people approved of, of which the gate is told when the leg has begun.
    pub(crate) granted: Mutex<Vec<Granted>>,
    pub(crate) spawned: Spawned,
}

/// Whether the leg's future was accepted by the spawner. Dropped before that, it never was a leg.
#[derive(Default)]
pub(crate) struct Spawned(AtomicU8);

impl Spawned {
    const ACCEPTED: u8 = 1;
    const DROPPED: u8 = 2;

    /// The spawner accepted it. Says whether it was dropped before that.
    fn accept(&self) -> bool {
        self.0.fetch_or(Self::ACCEPTED, SeqCst) & Self::DROPPED != 0
    }

    /// The future was dropped. Says whether it had been accepted.
    fn drop_future(&self) -> bool {
        self.0.fetch_or(Self::DROPPED, SeqCst) & Self::ACCEPTED != 0
    }
}

/// Ends a leg whose future is dropped: synchronous, no hooks, still a legal history and one last event. An argument of
/// [`drive`] and no local, since a future that was never polled has no locals.
pub(crate) struct LastWords(Option<Arc<LegRt>>);

impl LastWords {
    pub(crate) fn of(rt: &Arc<LegRt>) -> Self {
        Self(Some(rt.clone()))
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        if let Some(rt) = self.0.take()
            && rt.spawned.drop_future()
        {
            rt.say_last_words();
        }
    }
}

/// One leg, from its first poll to its last event.
pub(crate) async fn drive(rt: Arc<LegRt>, mut last: LastWords) {
    rt.ledger.tell();
    let mut work = Box::pin(AssertUnwindSafe(work::run(&rt)).catch_unwind());
    let worked = {
        let watch = pin!(AssertUnwindSafe(rt.watch_control()).catch_unwind());
        let is_kept = rt.is_kept();
        let kept = OptionFuture::from(is_kept.then(|| Box::pin(rt.keep())));
        let mut kept = pin!(kept);
        tokio::select! {
            biased;
            cause = rt.interrupt.cancelled() => Err(Exit::Control(ControlError::from(cause))),
            cause = rt.cancelled_and_grace() => Err(Exit::Control(ControlError::from(cause))),
            // Another writer has the session: what this one does is no use any more.
            Some(lost) = &mut kept, if is_kept => Err(Exit::Failed(lost.into())),
            // It ends by a panic of the channel only.
            panic = watch => Err(panicked("the control channel", panic.err().as_deref())),
            out = &mut work => out.unwrap_or_else(|panic| Err(panicked("the turn", Some(&*panic)))),
        }
    };
    // The work, and everything it borrowed, goes here. A destructor of the user's that panics changes nothing.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
        tracing::warn!("a destructor panicked while a turn was ended: {}", panic_text(&*panic));
    }
    finalize::run(&rt, worked).await;
    last.0 = None;
}

fn panicked(who: &str, payload: Option<&(dyn Any + Send)>) -> Exit {
    let words = payload.map_or("no message", |p| panic_text(p));
    Exit::failed(ErrorKind::Panic, format!("{who} panicked: {words}"))
}

/// What an exit is to whoever watches a call.
pub(crate) fn failure(exit: &Exit) -> Failure<'_> {
    match exit {
        Exit::Failed(error) => Failure::Failed(error),
        Exit::Control(control) => Failure::Control(control),
    }
}

impl LegRt {
    pub(crate) fn next(&self) -> Step {
        if self.ctx.is_drain_requested() {
            self.ledger.with(|leg| leg.machine.request_drain());
        }
        self.ledger.read(Leg::next)
    }

    pub(crate) fn feed(&self, fed: Fed) -> Result<(), Exit> {
        let fed = self.ledger.with(|leg| {
            let out = leg.feed(fed);
            self.ctx.set_position(leg.machine.attempt(), leg.machine.iteration());
            out
        });
        fed.map_err(|e| Exit::failed(ErrorKind::Internal, e.to_string()))
    }

    /// An await the runtime owns: a cancel is raised here as an error, where hooks and layers can see it.
    pub(crate) async fn or_cancel<T>(&self, work: impl Future<Output = T>) -> Result<T, ControlError> {
        tokio::select! {
            biased;
            cause = self.ctx.cancel().cancelled() => Err(cause.into()),
            out = work => Ok(out),
        }
    }

    async fn cancelled_and_grace(&self) -> CancelCause {
        let cause = self.ctx.cancel().cancelled().await;
        tokio::time::sleep(GRACE).await;
        cause
    }

    /// Takes commands as they arrive, also while the provider is silent, and watches the deadline. Never ends.
    async fn watch_control(&self) {
        let deadline = async {
            match self.ctx.deadline() {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let commands = async {
            let Some(channel) = &self.agent.channel else { return std::future::pending().await };
            // A leg that is not in the store yet may find that another process runs the turn: what is sent is for that one.
            if self.is_kept() {
                self.has_stored().await;
            }
            let mut wakeup = channel.wakeup(self.ctx.session());
            loop {
                // The latch is in the context: whoever awaits next sees it.
                let _ = drain_and_tell(&**channel, &self.ctx, &mut |command, fate| self.tell(command, fate));
                wakeup.arrived().await;
            }
        };
        tokio::select! {
            biased;
            () = self.watch_time(), if self.ctx.budget().is_some() => {}
            () = deadline => {
                let cause = CancelCause::runtime(CancelKind::Deadline, "the turn's deadline passed");
                self.ctx.cancel().cancel(cause);
            }
            () = commands => {}
        }
        std::future::pending::<()>().await;
    }

    /// The spawner accepted the leg. If it dropped it all the same, these are its last words.
    pub(crate) fn spawned(&self) {
        if self.spawned.accept() {
            self.say_last_words();
        }
    }

    fn say_last_words(&self) {
        let why = match std::thread::panicking() {
            true => "the runtime panicked while the turn ran",
            false => "the async runtime was shut down while the turn ran",
        };
        let not_begun = self.not_begun.lock().clone();
        if let Some(error) = not_begun {
            return self.end_not_begun(error);
        }
        // A leg that was parked and saved stays so: only its last hooks are lost.
        let snapshot = match self.is_parked() {
            true => self.parked.lock().clone().map(|(snapshot, _)| snapshot),
            false => None,
        };
        if !self.is_parked() {
            self.ledger.with(|leg| {
                leg.machine.stop(Stop::failed(ErrorInfo::new(ErrorKind::Internal, why)));
                leg.seal();
                let result = leg.attempt_result();
                leg.result.get_or_insert(result);
            });
        }
        let outcome = self.leg_outcome();
        self.return_leftovers(&outcome);
        self.end(&outcome, snapshot);
    }

    /// Commands that a turn which is over did not use. A channel that panics has failed at that, and at nothing else.
    pub(crate) fn return_leftovers(&self, outcome: &LegOutcome) {
        let Some(channel) = &self.agent.channel else { return };
        let returned = catch_unwind(AssertUnwindSafe(|| {
            let mut returned = Vec::new();
            if outcome.outcome().is_terminal() {
                return_leftovers(&**channel, &self.ctx, &mut |command, fate| {
                    returned.push(command.id);
                    self.tell(command, fate);
                });
            }
            let queued = channel.queued(self.ctx.session());
            self.ledger.with(|leg| (leg.returned, leg.queued) = (returned, queued));
        }));
        if let Err(panic) = returned {
            tracing::warn!("the control channel panicked: {}", panic_text(&*panic));
        }
    }

    /// Shows what became of a control command.
    pub(crate) fn tell(&self, command: &ControlCommand, fate: &Fate) {
        let (id, command, fate) = (command.id, command.command_type(), fate.clone());
        self.ledger.with(|leg| leg.emit(TurnEventKind::Command { id, command, fate }));
    }

    /// Gives the session back, tells the reader, and answers whoever waits. In this order, so that a caller who saw the
    /// last event can start the next turn.
    pub(crate) fn end(&self, outcome: &LegOutcome, snapshot: Option<TurnSnapshot>) {
        self.charge_time();
        let messages = self.ledger.with(Leg::close);
        // Before the next turn can start.
        self.agent.instruments.leg_over(&self.ctx, Some(outcome));
        self.ledger.with(|leg| leg.record_end(outcome));
        self.session.leg_ended(messages, snapshot);
        self.say_end(outcome);
    }

    /// A leg that never began.
    pub(crate) fn end_not_begun(&self, error: ErrorInfo) {
        let mut result = AgentResult::new("", StopReason::Error);
        let message = self.ledger.with(|leg| {
            leg.close();
            leg.fill(&mut result);
            leg.messages().get(leg.turn_start()).cloned()
        });
        result.fail(error);
        let outcome = LegOutcome::Finished(Box::new(result));
        self.agent.instruments.leg_over(&self.ctx, Some(&outcome));
        self.ledger.with(|leg| leg.record_end(&outcome));
        // The message of a first leg is the caller's again, and may come again.
        if self.ctx.leg() == 1
            && let Some(key) = message.as_ref().and_then(|message| message.key.as_deref())
        {
            self.session.forget_key(key);
        }
        self.session.not_started();
        self.say_end(&outcome);
    }

    fn say_end(&self, outcome: &LegOutcome) {
        self.ledger.with(|leg| leg.finish(outcome));
        self.outcome.send_replace(Some(outcome.clone()));
    }
}

/// Every interleaving of a few threads; run by `cargo xtask model`.
#[cfg(all(test, turnwright_model))]
mod spawned_model {
    use std::sync::Arc;

    use shuttle::{check_dfs, thread};

    use super::Spawned;

    #[test]
    fn a_leg_that_is_dropped_while_it_is_accepted_has_its_last_words_once() {
        check_dfs(
            || {
                let spawned = Arc::new(Spawned::default());
                let dropped = {
                    let spawned = spawned.clone();
                    thread::spawn(move || spawned.drop_future())
                };
                let told_by_who_started = spawned.accept();
                let told_by_the_future = dropped.join().unwrap();
                assert!(told_by_who_started != told_by_the_future);
            },
            None,
        );
    }
}
