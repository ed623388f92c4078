//! What the machine asks for, and what it is told.

use serde::{Deserialize, Serialize};
use turnwright_core::ErrorInfo;
use turnwright_hook::{HookPoint, TurnAnswer};

use super::Stop;

/// What the driver does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Fire a point. Answered by [`Fed::Done`]; AFTER_TURN in the work by [`Fed::AttemptEnded`].
    Fire(HookPoint),
    /// Enter the chain of this iteration. Answered by [`Fed::Done`] inside it, or by [`Fed::Skipped`].
    EnterIteration(u32),
    /// Take guidance from the control channel. Answered by [`Fed::Landed`].
    DrainSteer,
    /// Call the model. Answered by [`Fed::Model`].
    CallModel,
    /// Ask the gate about the calls of the batch. Answered by [`Fed::Done`].
    Gate,
    /// Run the calls that may run. Answered by [`Fed::Tools`].
    RunTools,
    /// Save the suspended turn. Answered by [`Fed::Done`].
    Suspend,
    /// Save the drained turn. Answered by [`Fed::Parked`].
    Park,
    /// Leave the chain of the iteration. Answered by [`Fed::Done`].
    LeaveIteration,
    /// Take follow-ups from the control channel. Answered by [`Fed::Landed`].
    DrainFollowUp,
    /// Leave the chain of the turn. Answered by [`Fed::Done`].
    LeaveWork,
    /// Nothing more in this leg.
    LegOver(LegStop),
}

/// How a leg ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LegStop {
    /// The turn is over.
    Terminal,
    /// The turn waits for a decision.
    Suspended,
    /// The turn stopped at a step boundary.
    Drained,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Fed {
    /// It was done.
    Done,
    /// A layer answered in the iteration's place.
    Skipped,
    /// So many messages were committed to history.
    Landed(usize),
    /// How the model call ended.
    Model(ModelEnd),
    /// The batch ran; whether calls wait for a decision.
    Tools {
        /// Whether calls wait.
        pending: bool,
    },
    /// The hooks of AFTER_TURN answered, and the result they left stops so.
    AttemptEnded {
        /// What they want.
        answer: TurnAnswer,
        /// Why the attempt ended.
        stop: Stop,
    },
    /// The drained turn was saved.
    Parked,
}

/// How a model call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEnd {
    /// A final answer.
    Answer,
    /// A final answer, cut by the output limit.
    CutAnswer,
    /// It asks for tools.
    Calls,
    /// It asks for tools, but was cut, so that none of them runs.
    CutCalls,
    /// Neither text nor calls.
    Empty,
    /// It failed.
    Failed(ErrorInfo),
}

/// Where a turn stands, in the seed's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Node {
    /// A leg begins.
    Start,
    /// An attempt begins.
    Before,
    /// An iteration, up to its tools.
    Llm,
    /// The tools of an iteration.
    Tool,
    /// An attempt ends.
    After,
    /// The turn or the leg ends.
    End,
}

/// An answer that does not fit the step. The machine is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the turn machine stands at {step:?} and was fed {fed}")]
pub struct MachineError {
    /// The step.
    pub step: Step,
    /// What was fed.
    pub fed: String,
}
