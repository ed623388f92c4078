//! The finalizer: runs when the work is gone; nothing races it.

use turnwright_control::{ControlError, drain_and_tell};
use turnwright_core::{AgentResult, ErrorInfo, ErrorKind, LegOutcome};
use turnwright_hook::{Dispatch, HookPoint};
use turnwright_interceptor::Exit;

use super::{LegRt, UNWIND_BUDGET};
use crate::{
    ledger::Leg,
    machine::{Fed, LegStop, Step, Stop},
    snapshot::TurnSnapshot,
    store::StoreError,
};

pub(super) async fn run(rt: &LegRt, worked: Result<LegOutcome, Exit>) {
    let not_begun = rt.not_begun.lock().clone();
    if let Some(error) = not_begun {
        return end_not_begun(rt, error).await;
    }
    let mut latched = rt.interrupt.cause().or(rt.ctx.cancel().cause()).map(ControlError::from);
    if latched.is_none() {
        match Box::pin(rt.own_at_last()).await {
            Ok(sent) => latched = sent,
            Err(error) => return end_not_begun(rt, error).await,
        }
    }
    rt.ledger.with(|leg| {
        settle(leg, worked, latched.as_ref());
        // A cancel that came while the turn was being parked wins: nobody was told of the parking yet.
        if leg.machine.leg_stop() != LegStop::Terminal
            && let Some(control) =
                latched.or_else(|| rt.interrupt.cause().or(rt.ctx.cancel().cause()).map(Into::into))
        {
            leg.machine.cancel_parking(control.into());
        }
        if leg.machine.leg_stop() == LegStop::Terminal {
            leg.seal();
        }
    });
    // A call that was cut used something too; whom a layer had named is not known any more.
    rt.charge(&rt.agent.model);
    // What was shown is stored before anybody is told that the leg is over; the points hear of it when that fails. A
    // parked leg was saved when it was parked.
    let saved = rt.ledger.read(Leg::revision);
    let (mut crashed, mut is_lost) = (None, false);
    if !rt.is_parked()
        && let Err(e) = Box::pin(rt.save_terminal()).await
    {
        let never_had_it = rt.never_had_it(&e);
        is_lost = e.is_lost();
        let error = ErrorInfo::from(e);
        // A turn that was cancelled at rest, and runs elsewhere by now, is that one's to end.
        if never_had_it {
            *rt.not_begun.lock() = Some(error.clone());
            return end_not_begun(rt, error).await;
        }
        crashed = Some(error);
    }
    let was_cut = rt.ledger.read(|leg| leg.machine.was_cut());
    let until = was_cut.then(|| rt.ctx.sources().clock.instant() + UNWIND_BUDGET);
    while let Step::Fire(point) = rt.ledger.read(Leg::next) {
        let dispatch = Dispatch::new().log(&*rt.ledger).unwinding(until);
        rt.fire_owed(point, dispatch, crashed.as_ref()).await;
        if let Err(exit) = rt.feed(Fed::Done) {
            crashed.get_or_insert(exit.info());
            break;
        }
    }
    let snapshot = if rt.is_parked() { Box::pin(rt.save_parked_again()).await } else { None };
    if snapshot.is_none() && crashed.is_none() && rt.ledger.read(Leg::revision) != saved {
        let again = Box::pin(rt.save_terminal()).await.err();
        is_lost |= again.as_ref().is_some_and(StoreError::is_lost);
        crashed = again.map(ErrorInfo::from);
    }
    let outcome = outcome(rt, crashed);
    rt.keep_landed(is_lost);
    if rt.is_kept() {
        Box::pin(rt.release(&outcome, is_lost)).await;
    }
    rt.return_leftovers(&outcome);
    rt.end(&outcome, snapshot);
}

/// The session is as it was before the leg: only the leg's end is told.
async fn end_not_begun(rt: &LegRt, error: ErrorInfo) {
    rt.keep_landed(false);
    let dispatch = Dispatch::new().log(&*rt.ledger).unwinding(None);
    rt.fire_owed(HookPoint::FinallyGraph, dispatch, Some(&error)).await;
    rt.end_not_begun(error);
}

/// Tells the machine how the work ended.
fn settle(leg: &mut Leg, worked: Result<LegOutcome, Exit>, latched: Option<&ControlError>) {
    let left = leg.next() == Step::LeaveWork;
    match worked {
        Ok(LegOutcome::Finished(result)) if left && leg.machine.leg_stop() == LegStop::Terminal => {
            leg.result = Some(with_streamed(*result, leg.result.take()));
            leave(leg);
        }
        Ok(_) if left => leave(leg),
        // A layer answered in the place of the turn. A cancel that came before counts: nothing had been shown yet.
        Ok(LegOutcome::Finished(result)) => {
            if let Some(control) = latched {
                return leg.machine.stop(control.clone().into());
            }
            let stop = Stop {
                reason: result.stop_reason,
                error: result.error.clone(),
                cancelled_by: result.cancelled_by.clone(),
                user_content: None,
            };
            leg.machine.short_circuit(stop);
            leg.seal();
            leg.adopt(*result);
        }
        Ok(outcome) => {
            let message = format!("an interceptor says the leg is {:?}, which it is not", outcome.outcome());
            leg.machine.stop(Stop::failed(ErrorInfo::new(ErrorKind::Interceptor, message)));
        }
        // A cancel from outside that comes after the answer was complete changes nothing.
        Err(Exit::Control(control)) if Some(&control) == latched => leg.machine.stop(control.into()),
        Err(exit) => {
            leg.result = None;
            leg.machine.overrule(match exit {
                Exit::Control(control) => control.into(),
                Exit::Failed(error) => Stop::failed(error),
            });
        }
    }
}

fn leave(leg: &mut Leg) {
    if let Err(e) = leg.feed(Fed::Done) {
        leg.machine.stop(Stop::failed(ErrorInfo::new(ErrorKind::Internal, e.to_string())));
    }
}

/// A layer may have changed the content: what had been streamed stands beside it.
fn with_streamed(mut result: AgentResult, before: Option<AgentResult>) -> AgentResult {
    if let Some(before) = before
        && before.content != result.content
        && result.streamed.is_none()
    {
        result.streamed = before.streamed.or(Some(before.content));
    }
    result
}

fn outcome(rt: &LegRt, crashed: Option<ErrorInfo>) -> LegOutcome {
    let outcome = rt.leg_outcome();
    match (outcome, crashed) {
        (LegOutcome::Finished(mut result), None) => {
            rt.ledger.with(|leg| leg.fill(&mut result));
            LegOutcome::Finished(result)
        }
        (parked, None) => parked,
        (_, Some(error)) => {
            let mut result = rt.ledger.with(|leg| {
                let mut result = leg.result.clone().unwrap_or_else(|| leg.attempt_result());
                leg.fill(&mut result);
                result
            });
            result.fail(error);
            LegOutcome::Finished(Box::new(result))
        }
    }
}

impl LegRt {
    /// A layer answered in the place of the whole turn, before it was in the store. It is taken for this leg's own now, so that a
    /// command which came before the answer is seen: until then it might have been for whoever runs the turn elsewhere. Gives the
    /// stop that was sent, if one was. What comes while that is stored is too late: the answer is complete.
    async fn own_at_last(&self) -> Result<Option<ControlError>, ErrorInfo> {
        let begun_from = self.begun_from.lock().take();
        let Some(begun_from) = begun_from else { return Ok(None) };
        let waiting =
            self.agent.channel.as_ref().filter(|channel| !channel.queued(self.ctx.session()).is_empty());
        match self.commit(Some(begun_from)).await {
            Ok(()) => {
                let is_late = self.ctx.cancel().cause().is_some();
                let Some(channel) = waiting.filter(|_| !is_late) else { return Ok(None) };
                Ok(drain_and_tell(&**channel, &self.ctx, &mut |command, fate| self.tell(command, fate)).err())
            }
            Err(e) if self.never_had_it(&e) => {
                let error = ErrorInfo::from(e);
                *self.not_begun.lock() = Some(error.clone());
                Err(error)
            }
            // The end is stored next, or that fails too.
            Err(_) => Ok(None),
        }
    }

    pub(super) fn is_parked(&self) -> bool {
        self.ledger.read(|leg| leg.machine.leg_stop() != LegStop::Terminal)
    }

    /// What ends the turn is stored with the event that says so: whoever reads the record finds one end, also when the
    /// process goes away before it told anybody. What FINALIZE_CONTENT makes of the answer comes later, and is not in it.
    async fn save_terminal(&self) -> Result<(), StoreError> {
        let outcome = outcome(self, None);
        self.ledger.with(|leg| leg.note_end(&outcome));
        self.commit(None).await
    }

    /// Layers and the last hooks of a parked leg may have said or remembered something since it was saved. When that
    /// cannot be stored, what was stored then stands.
    async fn save_parked_again(&self) -> Option<TurnSnapshot> {
        // It stays where it is: should the runtime go away during the save, it is what the leg ends with.
        let (parked, saved) = self.parked.lock().clone()?;
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(e) => {
                tracing::warn!("what a parked turn remembered last is lost: {e}");
                return Some(parked);
            }
        };
        let revision = self.ledger.read(Leg::revision);
        let is_same =
            |a: &TurnSnapshot, b: &TurnSnapshot| match (serde_json::to_string(a), serde_json::to_string(b)) {
                (Ok(a), Ok(b)) => a == b,
                _ => false,
            };
        if revision == saved && is_same(&parked, &snapshot) {
            return Some(parked);
        }
        *self.parked.lock() = Some((snapshot.clone(), revision));
        if let Err(e) = self.commit(Some(snapshot.clone())).await {
            tracing::warn!("what a parked turn said last is not stored: {e}");
        }
        Some(snapshot)
    }
}
