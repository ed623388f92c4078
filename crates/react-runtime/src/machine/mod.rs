//! The pure turn machine: when each point fires, what the driver does next, and the one way out.
//!
//! No IO, no clock, no user code. [`TurnMachine::next`] is pure: asked again it gives the same step. The driver carries
//! a step out and tells what came of it with [`TurnMachine::feed`]; [`TurnMachine::begin`] notes that the point being
//! fired has begun, so that its after is owed; [`TurnMachine::stop`] is the way out for every reason there is.
//!
//! The machine is serializable: a turn can be parked anywhere and taken up again by another process.

mod step;
mod transition;

use serde::{Deserialize, Serialize};
use turnwright_control::ControlError;
use turnwright_core::{CancelCause, ErrorInfo, ErrorKind, StopReason};
use turnwright_hook::HookPoint;

pub use step::{Fed, LegStop, MachineError, ModelEnd, Node, Step};

/// Limits of one turn. All are at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model calls an attempt. 10 by default.
    pub iterations: u32,
    /// Attempts a turn. 3 by default.
    pub attempts: u32,
    /// How often hooks may raise the attempt limit by one. 10 by default.
    pub renewals: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { iterations: 10, attempts: 3, renewals: 10 }
    }
}

/// Consecutive failed model calls that end a turn, whatever hooks ask for.
pub const MAX_CONSECUTIVE_FAILURES: u32 = 3;
/// Consecutive answers whose calls were cut by the output limit that end a turn.
pub const MAX_CONSECUTIVE_CUTS: u32 = 3;

/// Why a turn ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// The error, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Who cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelCause>,
    /// What the user is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_content: Option<String>,
}

impl Stop {
    /// An end for this reason alone.
    pub fn reason(reason: StopReason) -> Self {
        Self { reason, error: None, cancelled_by: None, user_content: None }
    }

    /// A failure.
    pub fn failed(error: ErrorInfo) -> Self {
        Self { error: Some(error), ..Self::reason(StopReason::Error) }
    }

    fn limit(reason: StopReason, message: String) -> Self {
        let kind = reason.error_kind().unwrap_or(ErrorKind::LimitReached);
        Self { error: Some(ErrorInfo::new(kind, message)), ..Self::reason(reason) }
    }
}

impl From<ControlError> for Stop {
    fn from(error: ControlError) -> Self {
        Self {
            reason: error.stop_reason(),
            error: Some(error.info()),
            cancelled_by: error.cause().cloned(),
            user_content: error.user_content,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum At {
    Fire(HookPoint),
    EnterIteration,
    DrainSteer,
    CallModel,
    Gate,
    RunTools,
    Suspend,
    LeaveIteration,
    DrainFollowUp,
    LeaveWork,
    Unwind,
    UnwindLeg,
    Over,
}

/// The state of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnMachine {
    schema: u32,
    limits: Limits,
    at: At,
    /// The point that is being fired has begun.
    begun: bool,
    /// Afters owed by this leg, innermost last.
    owed_leg: Vec<HookPoint>,
    /// Afters owed by the turn, innermost last; they survive a suspension.
    owed: Vec<HookPoint>,
    leg: u32,
    attempt: u32,
    iteration: u32,
    iterations: u32,
    renewals: u32,
    failures: u32,
    cuts: u32,
    empties: u32,
    /// Another model call follows this iteration.
    more: bool,
    /// The answer that was read asks for tools.
    batch: bool,
    stop: Option<Stop>,
    cut: bool,
    drain: bool,
    /// How this leg ends without ending the turn.
    leg_stop: Option<LegStop>,
    /// Where the next leg goes on.
    parked: Option<At>,
    /// A decision was applied before the leg that runs.
    decided: bool,
}

impl TurnMachine {
    /// The version of the serialized form.
    pub const SCHEMA: u32 = 1;

    /// A fresh turn.
    pub fn new(limits: Limits) -> Self {
        Self {
            schema: Self::SCHEMA,
            limits,
            at: At::Fire(HookPoint::BeforeGraph),
            begun: false,
            owed_leg: vec![HookPoint::FinallyGraph],
            owed: Vec::new(),
            leg: 1,
            attempt: 0,
            iteration: 0,
            iterations: 0,
            renewals: 0,
            failures: 0,
            cuts: 0,
            empties: 0,
            more: false,
            batch: false,
            stop: None,
            cut: false,
            drain: false,
            leg_stop: None,
            parked: None,
            decided: false,
        }
    }

    /// What the driver does now.
    pub fn next(&self) -> Step {
        if self.drain && self.is_boundary() {
            return Step::Park;
        }
        match self.at {
            At::Fire(point) => Step::Fire(point),
            At::EnterIteration => Step::EnterIteration(self.iteration),
            At::DrainSteer => Step::DrainSteer,
            At::CallModel => Step::CallModel,
            At::Gate => Step::Gate,
            At::RunTools => Step::RunTools,
            At::Suspend => Step::Suspend,
            At::LeaveIteration => Step::LeaveIteration,
            At::DrainFollowUp => Step::DrainFollowUp,
            At::LeaveWork => Step::LeaveWork,
            At::Unwind | At::UnwindLeg => match self.owing() {
                Some(point) => Step::Fire(point),
                None => Step::LegOver(self.leg_stop()),
            },
            At::Over => Step::LegOver(self.leg_stop()),
        }
    }

    /// The first hook of the point that is being fired was polled: from here on its after is owed. Idempotent.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// What came of the step.
    ///
    /// # Errors
    /// [`MachineError`] when it does not answer the step; nothing was changed.
    pub fn feed(&mut self, fed: Fed) -> Result<(), MachineError> {
        let next = self.transition(fed)?;
        self.at = next;
        self.begun = false;
        Ok(())
    }

    /// The one way out, whatever the reason: a control error, a failed layer, dropped work. The first one counts; while
    /// unwinding nothing does. A cancel that comes while a leg is being parked wins over the parking.
    pub fn stop(&mut self, stop: Stop) {
        match self.at {
            At::Unwind | At::UnwindLeg | At::Over => return,
            At::LeaveWork if self.leg_stop.is_none() => {
                // The answer was complete before: the work is only left.
                self.at = At::Unwind;
                return;
            }
            At::Fire(point) if self.begun => self.owe(point),
            _ => {}
        }
        self.leg_stop = None;
        self.parked = None;
        self.stop = Some(stop);
        self.cut = true;
        self.begun = false;
        self.at = At::Unwind;
    }

    /// A layer round the finished work failed, or left for a reason of its own: that is how the turn ends, although the
    /// answer was complete.
    pub fn overrule(&mut self, stop: Stop) {
        if self.at == At::LeaveWork {
            self.leg_stop = None;
            self.parked = None;
            self.stop = Some(stop);
            self.cut = true;
            self.at = At::Unwind;
        } else {
            self.stop(stop);
        }
    }

    /// A cancel that comes when a leg is parked, and before anybody was told: it ends the turn instead.
    pub fn cancel_parking(&mut self, stop: Stop) {
        if self.at == At::UnwindLeg {
            self.at = At::LeaveWork;
        }
        self.stop(stop);
    }

    /// How this leg ends, as far as it is known.
    pub fn leg_stop(&self) -> LegStop {
        self.leg_stop.unwrap_or(LegStop::Terminal)
    }

    /// Takes a layer's answer for the whole turn, without calling it a cut: the layer never ran the rest.
    pub fn short_circuit(&mut self, stop: Stop) {
        let was_cut = self.cut;
        self.stop(stop);
        self.cut = was_cut;
    }

    /// Asks the turn to stop at its next step boundary.
    pub fn request_drain(&mut self) {
        self.drain = true;
    }

    /// Starts a further leg of a suspended or drained turn. `decided` says that decisions were applied since.
    ///
    /// # Errors
    /// [`MachineError`] when the turn is over or still runs.
    pub fn resume(&mut self, decided: bool) -> Result<(), MachineError> {
        if self.schema != Self::SCHEMA || self.at != At::Over || self.parked.is_none() {
            return Err(MachineError { step: self.next(), fed: "resume".into() });
        }
        self.leg += 1;
        self.leg_stop = None;
        self.drain = false;
        self.decided = decided;
        self.owed_leg = vec![HookPoint::FinallyGraph];
        self.at = At::Fire(HookPoint::BeforeGraph);
        self.begun = false;
        Ok(())
    }

    /// The machine as it will be when the leg that is being parked is over: what a snapshot holds.
    #[must_use]
    pub fn at_rest(&self) -> Self {
        let mut rest = self.clone();
        if rest.leg_stop.is_none() && rest.next() == Step::Park {
            rest.at = rest.park(LegStop::Drained);
        } else if rest.at == At::Suspend {
            rest.at = At::RunTools;
            rest.at = rest.park(LegStop::Suspended);
        }
        rest.owed_leg.clear();
        rest.begun = false;
        rest.drain = false;
        rest.at = At::Over;
        rest
    }

    /// The machine as another process would take it up from here, should this one go away; none where the turn stands at no
    /// step boundary. As after a drain, but the leg goes on.
    #[must_use]
    pub fn at_checkpoint(&self) -> Option<Self> {
        if self.leg_stop.is_some() || !self.is_boundary() {
            return None;
        }
        let mut rest = self.clone();
        rest.park(LegStop::Drained);
        rest.owed_leg.clear();
        (rest.begun, rest.drain) = (false, false);
        rest.at = At::Over;
        Some(rest)
    }

    /// A fresh turn as a snapshot holds it: at rest before its first step.
    #[must_use]
    pub fn at_its_start(&self) -> Self {
        let mut rest = self.clone();
        rest.parked = Some(At::Fire(HookPoint::StartNodeTurn));
        rest.owed_leg.clear();
        rest.at = At::Over;
        rest
    }

    /// Whether a further leg can go on.
    pub fn is_parked(&self) -> bool {
        self.at == At::Over && self.parked.is_some()
    }

    /// Whether the turn is being unwound, or is over.
    pub fn is_unwinding(&self) -> bool {
        matches!(self.at, At::Unwind | At::UnwindLeg | At::Over)
    }

    /// Whether the turn was cut: cancelled, or left by a control error or a failed layer.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// Why the turn ends, once that is known.
    pub fn stop_reason(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The leg, from 1.
    pub fn leg(&self) -> u32 {
        self.leg
    }

    /// The attempt, from 1; 0 before the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The iteration of the attempt, from 1; 0 before the first.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Iterations of the whole turn.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Whether AFTER_TURN could get a further attempt now without a renewal.
    pub fn has_attempt_left(&self) -> bool {
        self.failures < MAX_CONSECUTIVE_FAILURES && self.attempt < self.limits.attempts + self.renewals
    }

    /// Where the turn stands, in the seed's words.
    pub fn node(&self) -> Node {
        match self.at {
            At::Fire(HookPoint::BeforeGraph | HookPoint::AfterApproval | HookPoint::StartNodeTurn) => {
                Node::Start
            }
            At::Fire(HookPoint::BeforeTurn) => Node::Before,
            At::Gate | At::RunTools | At::Suspend => Node::Tool,
            At::Fire(HookPoint::BeforeToolExecution | HookPoint::AfterToolExecution) => Node::Tool,
            At::DrainFollowUp | At::Fire(HookPoint::AfterTurn) => Node::After,
            At::LeaveWork | At::Unwind | At::UnwindLeg | At::Over => Node::End,
            _ => Node::Llm,
        }
    }
}

#[cfg(test)]
mod tests;
