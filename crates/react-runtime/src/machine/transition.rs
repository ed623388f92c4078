//! Transitions: where the machine goes from each step.

use turnwright_core::{ErrorInfo, ErrorKind, StopReason};
use turnwright_hook::{HookPoint, TurnAnswer};

use super::{
    At, Fed, LegStop, MAX_CONSECUTIVE_CUTS, MAX_CONSECUTIVE_FAILURES, MachineError, ModelEnd, Stop,
    TurnMachine,
};

impl TurnMachine {
    pub(super) fn transition(&mut self, fed: Fed) -> Result<At, MachineError> {
        Ok(match (self.at, fed) {
            (At::Fire(_) | At::DrainSteer | At::RunTools, Fed::Parked)
                if self.drain && self.is_boundary() =>
            {
                self.park(LegStop::Drained)
            }
            (At::Fire(HookPoint::AfterTurn), Fed::AttemptEnded { answer, stop }) => {
                self.attempt_ended(answer, stop)
            }
            (At::Fire(point), Fed::Done) if point != HookPoint::AfterTurn => self.fired(point),
            (At::EnterIteration, Fed::Done) => At::DrainSteer,
            (At::EnterIteration, Fed::Skipped) => {
                self.more = false;
                At::Fire(HookPoint::AfterIteration)
            }
            (At::DrainSteer, Fed::Landed(_)) => At::Fire(HookPoint::BeforeLlm),
            (At::CallModel, Fed::Model(end)) => {
                self.model_ended(end);
                At::Fire(HookPoint::AfterLlmResponse)
            }
            (At::Gate, Fed::Done) => At::Fire(HookPoint::BeforeToolExecution),
            (At::RunTools, Fed::Tools { pending: false }) => At::Fire(HookPoint::AfterToolExecution),
            (At::RunTools, Fed::Tools { pending: true }) => At::Suspend,
            (At::Suspend, Fed::Done) => {
                self.at = At::RunTools;
                self.park(LegStop::Suspended)
            }
            (At::LeaveIteration, Fed::Done) => At::Fire(HookPoint::AfterIteration),
            (At::DrainFollowUp, Fed::Landed(0)) => At::Fire(HookPoint::AfterTurn),
            (At::DrainFollowUp, Fed::Landed(_)) => {
                self.stop = None;
                self.next_iteration()
            }
            (At::LeaveWork, Fed::Done) if self.leg_stop.is_some() => At::UnwindLeg,
            (At::LeaveWork, Fed::Done) => At::Unwind,
            (At::Unwind | At::UnwindLeg, Fed::Done | Fed::AttemptEnded { .. }) => self.unwound(),
            (_, fed) => return Err(MachineError { step: self.next(), fed: format!("{fed:?}") }),
        })
    }

    pub(super) fn fired(&mut self, point: HookPoint) -> At {
        self.owe(point);
        match point {
            HookPoint::BeforeGraph if self.decided => At::Fire(HookPoint::AfterApproval),
            HookPoint::BeforeGraph | HookPoint::AfterApproval => {
                self.decided = false;
                self.parked.take().unwrap_or(At::Fire(HookPoint::StartNodeTurn))
            }
            HookPoint::StartNodeTurn => self.next_attempt(),
            HookPoint::BeforeTurn => self.next_iteration(),
            HookPoint::BeforeIteration => At::EnterIteration,
            HookPoint::BeforeLlm => At::CallModel,
            HookPoint::AfterLlmResponse => {
                self.pay(point);
                if self.batch { At::Gate } else { At::LeaveIteration }
            }
            HookPoint::BeforeToolExecution => At::RunTools,
            HookPoint::AfterToolExecution => {
                self.pay(point);
                self.batch = false;
                At::LeaveIteration
            }
            HookPoint::AfterIteration => {
                self.pay(point);
                self.iteration_ended()
            }
            // Fired by the unwinding only.
            HookPoint::AfterTurn
            | HookPoint::FinalizeContent
            | HookPoint::EndNodeTurn
            | HookPoint::AfterGraph
            | HookPoint::FinallyGraph => At::Unwind,
        }
    }

    pub(super) fn model_ended(&mut self, end: ModelEnd) {
        (self.more, self.batch) = (false, false);
        if !matches!(end, ModelEnd::Failed(_)) {
            self.failures = 0;
        }
        if !matches!(end, ModelEnd::CutCalls) {
            self.cuts = 0;
        }
        match end {
            ModelEnd::Answer => self.stop = Some(Stop::reason(StopReason::Completed)),
            ModelEnd::CutAnswer => {
                let message = "the answer was cut by the model's output limit";
                self.stop = Some(Stop::limit(StopReason::MaxTokens, message.into()));
            }
            ModelEnd::Calls => (self.more, self.batch) = (true, true),
            ModelEnd::CutCalls => {
                self.batch = true;
                self.cuts += 1;
                self.more = self.cuts < MAX_CONSECUTIVE_CUTS;
                if !self.more {
                    let message =
                        format!("{} answers in a row were cut by the model's output limit", self.cuts);
                    self.stop = Some(Stop::limit(StopReason::MaxTokens, message));
                }
            }
            ModelEnd::Empty => {
                self.empties += 1;
                self.more = self.empties == 1;
                if !self.more {
                    let message = "the model answered with neither text nor tool calls, twice";
                    self.stop = Some(Stop::failed(ErrorInfo::new(ErrorKind::EmptyResponse, message)));
                }
            }
            ModelEnd::Failed(error) => {
                self.failures += 1;
                self.stop = Some(Stop::failed(error));
            }
        }
    }

    pub(super) fn iteration_ended(&mut self) -> At {
        match &self.stop {
            None if self.more => self.next_iteration(),
            None => {
                self.stop = Some(Stop::reason(StopReason::Completed));
                At::DrainFollowUp
            }
            Some(stop) if stop.reason == StopReason::Completed => At::DrainFollowUp,
            Some(_) => At::Fire(HookPoint::AfterTurn),
        }
    }

    pub(super) fn next_attempt(&mut self) -> At {
        self.attempt += 1;
        self.iteration = 0;
        At::Fire(HookPoint::BeforeTurn)
    }

    pub(super) fn next_iteration(&mut self) -> At {
        if self.iteration >= self.limits.iterations {
            let message = format!("the limit of {} iterations was reached", self.limits.iterations);
            self.stop = Some(Stop::limit(StopReason::MaxIterations, message));
            return At::Fire(HookPoint::AfterTurn);
        }
        self.iteration += 1;
        self.iterations += 1;
        At::Fire(HookPoint::BeforeIteration)
    }

    pub(super) fn attempt_ended(&mut self, answer: TurnAnswer, stop: Stop) -> At {
        self.pay(HookPoint::AfterTurn);
        self.stop = Some(stop);
        let allowed = match answer {
            TurnAnswer::Done => false,
            _ if self.failures >= MAX_CONSECUTIVE_FAILURES => false,
            _ if self.has_attempt_left() => true,
            TurnAnswer::Continue => false,
            TurnAnswer::ContinueAndRenew => {
                let renewed = self.renewals < self.limits.renewals;
                self.renewals += u32::from(renewed);
                renewed
            }
        };
        if !allowed {
            // A hook was not satisfied, and no attempt is left: that is no success.
            if answer != TurnAnswer::Done
                && let Some(stop) = &mut self.stop
                && stop.reason == StopReason::Completed
            {
                let message = format!("the limit of {} attempts was reached", self.attempt);
                *stop = Stop::limit(StopReason::MaxAttempts, message);
            }
            return At::LeaveWork;
        }
        self.stop = None;
        self.empties = 0;
        self.next_attempt()
    }

    /// Stops the leg here; the next one goes on at this very place.
    pub(super) fn park(&mut self, how: LegStop) -> At {
        self.parked = Some(self.at);
        self.leg_stop = Some(how);
        self.drain = false;
        At::LeaveWork
    }

    pub(super) fn is_boundary(&self) -> bool {
        match self.at {
            At::Fire(HookPoint::BeforeIteration) => !self.begun,
            At::DrainSteer | At::RunTools => true,
            _ => false,
        }
    }

    pub(super) fn owing(&self) -> Option<HookPoint> {
        match self.at {
            At::UnwindLeg => self.owed_leg.first().copied(),
            _ => self.owed.last().or(self.owed_leg.last()).copied(),
        }
    }

    pub(super) fn unwound(&mut self) -> At {
        if self.at == At::UnwindLeg {
            self.owed_leg.clear();
            return At::Over;
        }
        if self.owed.pop().is_none() {
            self.owed_leg.pop();
        }
        if self.owed.is_empty() && self.owed_leg.is_empty() { At::Over } else { At::Unwind }
    }

    pub(super) fn owe(&mut self, point: HookPoint) {
        match point {
            HookPoint::BeforeGraph => self.owed_leg.push(HookPoint::AfterGraph),
            // The content is finalised after the last attempt and before the turn's end.
            HookPoint::StartNodeTurn => {
                self.owed.extend([HookPoint::EndNodeTurn, HookPoint::FinalizeContent]);
            }
            HookPoint::BeforeTurn => self.owed.push(HookPoint::AfterTurn),
            HookPoint::BeforeIteration => self.owed.push(HookPoint::AfterIteration),
            HookPoint::BeforeLlm => self.owed.push(HookPoint::AfterLlmResponse),
            HookPoint::BeforeToolExecution => self.owed.push(HookPoint::AfterToolExecution),
            _ => {}
        }
    }

    pub(super) fn pay(&mut self, point: HookPoint) {
        let paid = self.owed.pop();
        debug_assert_eq!(paid, Some(point), "afters are paid innermost first");
    }
}
