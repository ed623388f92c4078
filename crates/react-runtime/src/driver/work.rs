//! The droppable part of a leg: the chains of the agent run, the turn and the iterations, and the steps inside them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering::Relaxed,
};

use turnwright_control::{CommandBody, CommandType, Fate, drain_and_tell, take_messages};
use turnwright_core::{
    AgentResult, ErrorInfo, ErrorKind, IterationEnd, LegOutcome, Origin, Part, StopReason, TurnContext,
    panic::panic_text,
};
use turnwright_hook::{HookPoint, instrument::kind};
use turnwright_interceptor::{CallState, Core, Exit, scope};

use super::{LegRt, failure};
use crate::{
    ledger::Leg,
    machine::{Fed, LegStop, Step},
    session::is_sayable,
    snapshot::TurnSnapshot,
};

/// The whole work of a leg.
pub(super) async fn run(rt: &LegRt) -> Result<LegOutcome, Exit> {
    let input = rt.ledger.with(|leg| {
        let first = leg.messages().get(leg.turn_start());
        first.map(|m| m.parts.clone()).unwrap_or_default()
    });
    rt.agent.interceptors.agent_run.call(&rt.ctx, input, &AgentRunCore(rt), None).await
}

struct AgentRunCore<'a>(&'a LegRt);
struct TurnCore<'a>(&'a LegRt);
struct IterationCore<'a>(&'a LegRt);

impl Core<scope::AgentRun> for AgentRunCore<'_> {
    async fn call(
        &self,
        ctx: &TurnContext,
        input: Vec<Part>,
        _: &CallState<scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        let (rt, instruments) = (self.0, &self.0.agent.instruments);
        let watched = if instruments.is_empty() { Vec::new() } else { input.clone() };
        let work = async {
            if ctx.leg() == 1 {
                rt.ledger.with(|leg| leg.rewrite_input(input)).map_err(Exit::Failed)?;
            }
            rt.agent.interceptors.turn.call(ctx, (), &TurnCore(rt), None).await
        };
        instruments.watch::<kind::AgentRun, _>(ctx, &watched, failure, work).await
    }
}

impl Core<scope::Turn> for TurnCore<'_> {
    async fn call(&self, ctx: &TurnContext, (): (), _: &CallState<scope::Turn>) -> Result<LegOutcome, Exit> {
        let rt = self.0;
        let begun_from = rt.begun_from.lock().take();
        if let Some(begun_from) = begun_from {
            Box::pin(rt.mark_running(begun_from)).await?;
            // What was sent before the leg had the session is for it: a stop is seen before anything begins.
            if let Some(channel) = &rt.agent.channel {
                rt.or_cancel(channel.fetch(ctx.session())).await?;
                drain_and_tell(&**channel, ctx, &mut |command, fate| rt.tell(command, fate))?;
            }
        }
        rt.tell_granted();
        let last_word = rt.last_word.lock().take();
        if let Some(answer) = last_word {
            return Ok(LegOutcome::Finished(Box::new(AgentResult::new(answer, StopReason::Completed))));
        }
        loop {
            match rt.next() {
                Step::LeaveWork => return Ok(rt.leg_outcome()),
                Step::EnterIteration(n) => {
                    let core = IterationCore(rt);
                    Box::pin(rt.agent.interceptors.iteration.call(ctx, n, &core, None)).await?;
                    rt.iteration_returned(n)?;
                }
                // A resumed leg closes the open iteration out here: its chain is not entered again.
                step => rt.step(step).await?,
            }
        }
    }
}

impl Core<scope::Iteration> for IterationCore<'_> {
    async fn call(
        &self,
        _: &TurnContext,
        _: u32,
        _: &CallState<scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        let rt = self.0;
        rt.feed(Fed::Done)?;
        loop {
            match rt.next() {
                Step::LeaveIteration => {
                    rt.feed(Fed::Done)?;
                    let ended = rt.ledger.read(|leg| leg.machine.stop_reason().is_some());
                    return Ok(if ended { IterationEnd::Finished } else { IterationEnd::Continue });
                }
                Step::Suspend | Step::Park => {
                    rt.is_iteration_open.store(true, Relaxed);
                    return Ok(IterationEnd::Open);
                }
                step => rt.step(step).await?,
            }
        }
    }
}

impl LegRt {
    /// What the machine may stand at when the chain of an iteration returned. A layer that dropped the rest half-way
    /// and claims success has left the turn in no legal place.
    fn iteration_returned(&self, n: u32) -> Result<(), Exit> {
        match self.next() {
            Step::EnterIteration(same) if same == n => self.feed(Fed::Skipped),
            Step::Fire(HookPoint::AfterIteration) => Ok(()),
            // Only the core knows that the iteration stays open; a layer cannot say so for it.
            Step::Suspend | Step::Park if self.is_iteration_open.load(Relaxed) => Ok(()),
            step => {
                let message = format!("an interceptor abandoned the iteration at {step:?}");
                Err(Exit::failed(ErrorKind::Interceptor, message))
            }
        }
    }

    /// How the leg stands when its work is left.
    pub(super) fn leg_outcome(&self) -> LegOutcome {
        self.ledger.with(|leg| match leg.machine.leg_stop() {
            LegStop::Terminal => {
                let result = leg.result.clone().unwrap_or_else(|| leg.attempt_result());
                LegOutcome::Finished(Box::new(result))
            }
            LegStop::Suspended => {
                let pending = leg.transaction.iter().flat_map(|t| t.pending().cloned()).collect();
                LegOutcome::Suspended { pending }
            }
            LegStop::Drained => LegOutcome::Drained,
        })
    }

    /// The large steps are boxed: the future of an idle leg would else hold room for all of them, twice.
    async fn step(&self, step: Step) -> Result<(), Exit> {
        match step {
            Step::Fire(point) => Box::pin(self.fire_in_work(point)).await,
            Step::DrainSteer if self.is_kept() => Box::pin(self.drain_steer()).await,
            Step::DrainSteer => {
                let landed = self.drain_messages(CommandType::InjectSteer)?;
                self.feed(Fed::Landed(landed))
            }
            Step::DrainFollowUp => {
                let landed = self.drain_messages(CommandType::InjectUserMessage)?;
                self.feed(Fed::Landed(landed))
            }
            Step::CallModel => Box::pin(self.call_model()).await,
            Step::Gate => Box::pin(self.gate_batch()).await,
            Step::RunTools => {
                if self.is_kept() {
                    Box::pin(self.checkpoint()).await?;
                }
                Box::pin(self.run_batch()).await
            }
            Step::Suspend => {
                self.open_transaction();
                Box::pin(self.park()).await?;
                self.feed(Fed::Done)
            }
            Step::Park => {
                Box::pin(self.park()).await?;
                self.feed(Fed::Parked)
            }
            Step::LeaveIteration => self.feed(Fed::Done),
            step @ (Step::EnterIteration(_) | Step::LeaveWork | Step::LegOver(_)) => {
                Err(Exit::failed(ErrorKind::Internal, format!("{step:?} is no step of the work")))
            }
        }
    }

    /// Before a leg does anything, the store is told: should the process go away now, whoever opens the session finds the
    /// message and an interrupted turn. From here on the session is this leg's to write.
    async fn mark_running(&self, begun_from: TurnSnapshot) -> Result<(), Exit> {
        let marked = self.or_cancel(self.commit(Some(begun_from))).await?;
        marked.map_err(|e| {
            // Of a fresh turn the message is kept where the store failed; where another writer has the session, it is that
            // one's history, and the message is the caller's again.
            let is_as_before = self.ctx.leg() > 1 || e.is_lost();
            let error = ErrorInfo::from(e);
            if is_as_before {
                *self.not_begun.lock() = Some(error.clone());
            }
            Exit::Failed(error)
        })
    }

    /// Tells the gate what people approved of. What it makes of it is its own affair.
    fn tell_granted(&self) {
        for (request, decision) in std::mem::take(&mut *self.granted.lock()) {
            let tell = || self.agent.gate.dyn_granted(self.ctx.session(), &request, &decision);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(tell)) {
                tracing::warn!("the gate panicked when it was told of an approval: {}", panic_text(&*panic));
            }
        }
    }

    /// Saves the turn at rest, so that another process can take it up from the store alone.
    async fn park(&self) -> Result<(), Exit> {
        let snapshot = self.snapshot()?;
        let revision = self.ledger.read(Leg::revision);
        let saved = self.or_cancel(self.commit(Some(snapshot.clone()))).await?;
        saved.map_err(|e| Exit::Failed(e.into()))?;
        *self.parked.lock() = Some((snapshot, revision));
        Ok(())
    }

    /// Guidance lands, and the turn is stored before the model is asked.
    async fn drain_steer(&self) -> Result<(), Exit> {
        let landed = self.drain_messages(CommandType::InjectSteer)?;
        self.checkpoint_if_changed().await?;
        self.feed(Fed::Landed(landed))
    }

    /// Commits messages of the control channel to history; each is applied once it is there and stored, and not before.
    fn drain_messages(&self, command_type: CommandType) -> Result<usize, Exit> {
        let Some(channel) = &self.agent.channel else { return Ok(0) };
        drain_and_tell(&**channel, &self.ctx, &mut |command, fate| self.tell(command, fate))?;
        let taken = take_messages(&**channel, &self.ctx, command_type);
        let mut landed = 0;
        for delivery in taken {
            let (command, ack) = delivery.into_parts();
            let (parts, origin) = match &command.body {
                CommandBody::InjectSteer { parts } => (parts, Origin::Steer),
                CommandBody::InjectUserMessage { parts } => (parts, Origin::FollowUp),
                _ => continue,
            };
            // Channels check this when they accept; one that does not must not spoil the history.
            if !is_sayable(parts) {
                let fate = Fate::Rejected { reason: "it is nothing a user can say".into() };
                self.tell(&command, &fate);
                ack.settle(fate);
                continue;
            }
            landed += 1;
            let parts = parts.clone();
            let key = command.idempotency_key.clone();
            self.ledger.with(|leg| leg.land(parts, origin, key));
            self.landed(command, ack);
        }
        Ok(landed)
    }
}
