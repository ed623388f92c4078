//! What a turn tells whoever watches it.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use turnwright_control::{CommandType, Fate};
use turnwright_core::{
    ApprovalRequest, CallId, CancelCause, CommandId, ContextSize, ErrorInfo, LegOutcome, Outcome, Recovery,
    SessionId, StopReason, Timestamp, TokenUsage, ToolCall, ToolResult, TurnId,
};
use turnwright_hook::HookFailure;

/// One event of a turn. Its JSON form is what the program, servers and replays speak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnEvent {
    /// Counts from 1 within a leg, without a gap.
    pub seq: u64,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// When it happened (a delta that grew unread: when it began).
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: TurnEventKind,
}

/// What happened in a turn. Names and fields are append-only.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnEventKind {
    /// A leg began.
    TurnStarted {
        /// The agent.
        agent: String,
        /// The leg, from 1.
        leg: u32,
    },
    /// An iteration began.
    IterationStarted {
        /// The iteration of the attempt, from 1.
        iteration: u32,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// Text of the answer.
    TextDelta {
        /// The text.
        text: String,
    },
    /// Reasoning of the model.
    ReasoningDelta {
        /// The text.
        text: String,
    },
    /// A tool call that is still arriving. The first event of a call has its name and no fragment. Provisional: only
    /// `tool_call` says what is called. A call that none follows before the next `retry`, `iteration_finished` or the
    /// end of the leg was dropped: its answer broke off.
    ToolArgsDelta {
        /// The call.
        id: CallId,
        /// The tool, in the first event of the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// A piece of the arguments.
        fragment: String,
    },
    /// A call the model asked for.
    ToolCall(#[serde(serialize_with = "call_json")] ToolCall),
    /// A line of progress from a running tool.
    ToolProgress {
        /// The call.
        id: CallId,
        /// The line.
        text: String,
    },
    /// What a call came to. Shown when it is done; history has it in model order.
    ToolResult(#[serde(serialize_with = "result_json")] ToolResult),
    /// Usage of a model call.
    Usage {
        /// The call's usage so far.
        usage: TokenUsage,
        /// What it was made for, when it was made for the turn beside its own model calls: `clean_up`, for one.
        #[serde(skip_serializing_if = "Option::is_none")]
        purpose: Option<String>,
    },
    /// A layer makes another attempt at a model call. Of the one before nothing counts: text and reasoning were not
    /// shown, and calls that were arriving are dropped. The next one may give a call the same id.
    Retry {
        /// The attempt, from 2.
        attempt: u32,
        /// Who is asked now: provider and model.
        model: String,
    },
    /// A call waits for a decision.
    ApprovalRequested(ApprovalRequest),
    /// A decision was applied.
    ApprovalResolved {
        /// The call.
        id: CallId,
        /// Whether it may run.
        allowed: bool,
        /// Who decided.
        actor: String,
    },
    /// A call was started by a process that went away, and nobody knows whether it took effect.
    InDoubt {
        /// The call.
        id: CallId,
        /// What becomes of it.
        recovery: Recovery,
    },
    /// What became of a control command.
    Command {
        /// The command.
        id: CommandId,
        /// Its type.
        command: CommandType,
        /// Its fate.
        #[serde(flatten)]
        fate: Fate,
    },
    /// A hook failed and its policy is not to ignore that.
    HookFailed(HookFailure),
    /// An iteration ended.
    IterationFinished {
        /// The iteration of the attempt, from 1.
        iteration: u32,
    },
    /// The reader fell too far behind and was cut off: what follows is only the leg's last event. The result of the
    /// turn is untouched.
    Lagged {
        /// Events that were dropped, at least.
        dropped: u64,
    },
    /// The leg is over. Always the last event, and only once.
    TurnFinished(Box<TurnFinished>),
}

/// How a leg ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFinished {
    /// How.
    pub outcome: Outcome,
    /// Whether the turn is over, and not only the leg.
    pub terminal: bool,
    /// The final answer, or the visible text so far.
    pub content: String,
    /// What was streamed, where it differs from the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<String>,
    /// Why the turn ended; none when it goes on.
    pub stop_reason: Option<StopReason>,
    /// Tokens of all model calls of the turn so far.
    pub usage: TokenUsage,
    /// Model calls of the turn so far.
    pub iterations: u32,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FinishedError>,
    /// Who cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelCause>,
    /// What is asked, when the turn waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<ApprovalRequest>,
    /// Commands that the end of the turn left without effect: their messages are the senders' again, and their cancels came
    /// too late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<CommandId>,
    /// Commands for the session that still wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<CommandId>,
}

/// An error in a form scripts can read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedError {
    /// Its kind.
    pub kind: String,
    /// In words.
    pub message: String,
    /// Whether another attempt makes sense.
    pub retryable: bool,
    /// By how much a request was too large, where the provider said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSize>,
}

impl From<&ErrorInfo> for FinishedError {
    fn from(e: &ErrorInfo) -> Self {
        Self {
            kind: e.kind.name(),
            message: e.to_string(),
            retryable: e.is_retryable(),
            context: e.context.as_deref().copied(),
        }
    }
}

impl TurnFinished {
    /// The end of a leg that waits for these.
    pub fn suspended(pending: Vec<ApprovalRequest>) -> Self {
        Self::of(&LegOutcome::Suspended { pending }, String::new(), TokenUsage::UNKNOWN, 0)
    }

    pub(crate) fn of(outcome: &LegOutcome, content: String, usage: TokenUsage, iterations: u32) -> Self {
        let mut finished = Self {
            outcome: outcome.outcome(),
            terminal: outcome.outcome().is_terminal(),
            content,
            streamed: None,
            stop_reason: None,
            usage,
            iterations,
            error: None,
            cancelled_by: None,
            pending: Vec::new(),
            returned: Vec::new(),
            queued: Vec::new(),
        };
        match outcome {
            LegOutcome::Finished(result) => {
                finished.content.clone_from(&result.content);
                finished.streamed.clone_from(&result.streamed);
                finished.stop_reason = Some(result.stop_reason);
                finished.error = result.error.as_ref().map(FinishedError::from);
                finished.cancelled_by.clone_from(&result.cancelled_by);
            }
            LegOutcome::Suspended { pending } => finished.pending.clone_from(pending),
            LegOutcome::Drained => {}
        }
        finished
    }
}

fn call_json<S: Serializer>(call: &ToolCall, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json<'a> {
        id: &'a CallId,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<serde_json::Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments_raw: Option<&'a str>,
    }
    let arguments = call.arguments_value().ok();
    let arguments_raw = arguments.is_none().then_some(call.arguments.as_str());
    Json { id: &call.id, name: &call.name, arguments, arguments_raw }.serialize(s)
}

fn result_json<S: Serializer>(result: &ToolResult, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json<'a> {
        id: &'a CallId,
        name: &'a str,
        content: &'a str,
        error: Option<FinishedError>,
        elapsed_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ran_with: Option<&'a str>,
    }
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Json {
        id: result.call_id(),
        name: result.tool(),
        content: &result.content,
        error: result.error.as_ref().map(FinishedError::from),
        elapsed_ms: result.elapsed.map(millis),
        ran_with: result.ran_with.as_deref(),
    }
    .serialize(s)
}
