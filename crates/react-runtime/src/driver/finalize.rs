//! The finalizer: runs when the work is gone; nothing races it.

use turnwright_control::{ControlError, return_leftovers};
use turnwright_core::{AgentResult, ErrorInfo, ErrorKind, LegOutcome, StopReason};
use turnwright_hook::Dispatch;
use turnwright_interceptor::Exit;

use super::{LegRt, UNWIND_BUDGET};
use crate::{
    ledger::Leg,
    machine::{Fed, LegStop, Step, Stop},
    store::StoreError,
};

pub(super) async fn run(rt: &LegRt, worked: Result<LegOutcome, Exit>) {
    let until = rt.ledger.with(|leg| {
        settle(leg, worked);
        // A cancel that came while the turn was being parked wins: nobody was told of the parking yet.
        if leg.machine.leg_stop() != LegStop::Terminal
            && let Some(cause) = rt.interrupt.cause().or(rt.ctx.cancel().cause())
        {
            leg.machine.cancel_parking(ControlError::from(cause).into());
        }
        if leg.machine.leg_stop() == LegStop::Terminal {
            leg.seal();
        }
        leg.machine.was_cut().then(|| rt.ctx.sources().clock.instant() + UNWIND_BUDGET)
    });
    // What was shown is stored before anybody is told that the leg is over; the points hear of it when that fails.
    let mut crashed: Option<ErrorInfo> = rt.save(rt.is_parked()).await.err().map(Into::into);
    let saved = rt.ledger.with(|leg| leg.revision());
    while let Step::Fire(point) = rt.ledger.with(|leg| leg.next()) {
        let dispatch = Dispatch::new().log(&*rt.ledger).unwinding(until);
        rt.fire_owed(point, dispatch, crashed.as_ref()).await;
        if let Err(exit) = rt.feed(Fed::Done) {
            crashed.get_or_insert(exit.info());
            break;
        }
    }
    if crashed.is_none() && rt.ledger.with(|leg| leg.revision()) != saved {
        crashed = rt.save(rt.is_parked()).await.err().map(Into::into);
    }
    let parked = rt.is_parked() && crashed.is_none();
    let outcome = outcome(rt, crashed);
    if outcome.outcome().is_terminal()
        && let Some(channel) = &rt.agent.channel
    {
        return_leftovers(&**channel, &rt.ctx, &mut |command, fate| rt.tell(command, fate));
    }
    let snapshot = if parked { rt.snapshot().ok() } else { None };
    rt.end(&outcome, snapshot);
}

/// Tells the machine how the work ended.
fn settle(leg: &mut Leg, worked: Result<LegOutcome, Exit>) {
    let left = leg.next() == Step::LeaveWork;
    match worked {
        Ok(LegOutcome::Finished(result)) if left && leg.machine.leg_stop() == LegStop::Terminal => {
            leg.result = Some(with_streamed(*result, leg.result.take()));
            leave(leg);
        }
        Ok(_) if left => leave(leg),
        // A layer answered in the place of the turn.
        Ok(LegOutcome::Finished(result)) => {
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
        // A cancel that comes after the answer was complete changes nothing.
        Err(Exit::Control(control))
            if matches!(control.stop_reason(), StopReason::Cancelled | StopReason::Timeout) =>
        {
            leg.machine.stop(control.into());
        }
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
    fn is_parked(&self) -> bool {
        self.ledger.with(|leg| leg.machine.leg_stop() != LegStop::Terminal)
    }

    /// Commits what is new to the store, with the turn at rest beside it or none.
    pub(super) async fn save(&self, parked: bool) -> Result<(), StoreError> {
        let snapshot = match parked {
            true => Some(self.snapshot().map_err(|e| StoreError::Backend(e.to_string()))?),
            false => None,
        };
        let messages = self.ledger.with(|leg| leg.messages().to_vec());
        self.session.save(messages, snapshot).await
    }
}
