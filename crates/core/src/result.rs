//! How turns, legs and iterations end.

use serde::{Deserialize, Serialize};

use crate::{ApprovalRequest, CancelCause, ErrorInfo, ErrorKind, TokenUsage};

/// Why a turn ended, precisely. [`StopReason::outcome`] says the same in fewer words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model answered.
    Completed,
    /// Something failed; the result's error says what.
    Error,
    /// A policy forbids to go on, or a hook with the abort policy failed.
    PolicyViolation,
    /// Cancelled from outside.
    Cancelled,
    /// The deadline passed.
    Timeout,
    /// The turn repeats itself.
    LoopDetected,
    /// The iteration limit was reached.
    MaxIterations,
    /// A hook asked for one more attempt than the limit allows.
    MaxAttempts,
    /// The answer was cut by the model's output limit.
    MaxTokens,
    /// A budget was used up.
    Budget,
}

impl StopReason {
    /// The terminal outcome this reason stands for.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Completed => Outcome::Completed,
            Self::Error | Self::PolicyViolation => Outcome::Failed,
            Self::Cancelled => Outcome::Cancelled,
            Self::Timeout => Outcome::TimedOut,
            Self::LoopDetected => Outcome::LoopDetected,
            Self::MaxIterations | Self::MaxAttempts | Self::MaxTokens | Self::Budget => Outcome::LimitReached,
        }
    }

    /// The error kind that describes this reason, if it is one.
    pub fn error_kind(self) -> Option<ErrorKind> {
        match self {
            Self::Completed | Self::Error => None,
            Self::PolicyViolation => Some(ErrorKind::PolicyViolation),
            Self::Cancelled => Some(ErrorKind::Cancelled),
            Self::Timeout => Some(ErrorKind::DeadlineExceeded),
            Self::LoopDetected => Some(ErrorKind::LoopDetected),
            Self::MaxIterations | Self::MaxAttempts | Self::Budget => Some(ErrorKind::LimitReached),
            Self::MaxTokens => Some(ErrorKind::LengthLimit),
        }
    }
}

/// How a leg ended. The first six are terminal: they end the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model answered.
    Completed,
    /// Something failed.
    Failed,
    /// Cancelled from outside.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// A limit on iterations, tokens or budget was reached.
    LimitReached,
    /// The turn repeats itself.
    LoopDetected,
    /// Waits for a decision; a further leg goes on.
    Suspended,
    /// Stopped at a step boundary; a further leg goes on.
    Drained,
}

impl Outcome {
    /// Whether the turn is over, and not only the leg.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Suspended | Self::Drained)
    }
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// The final answer, or the visible text so far when there is none.
    pub content: String,
    /// What was streamed, where finalising changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<String>,
    /// Why the turn ended.
    pub stop_reason: StopReason,
    /// What failed, or what describes a limit or a cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Who cancelled, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelCause>,
    /// Tokens of all model calls of the turn.
    pub usage: TokenUsage,
    /// Model calls that were made, continuations included.
    pub iterations: u32,
    /// Attempts that were begun.
    pub attempts: u32,
}

impl AgentResult {
    /// A result with this content and reason, and nothing else known.
    pub fn new(content: impl Into<String>, stop_reason: StopReason) -> Self {
        Self {
            content: content.into(),
            streamed: None,
            stop_reason,
            error: None,
            cancelled_by: None,
            usage: TokenUsage::UNKNOWN,
            iterations: 0,
            attempts: 0,
        }
    }

    /// How the turn ended.
    pub fn outcome(&self) -> Outcome {
        self.stop_reason.outcome()
    }

    /// Changes the content. What had been streamed stands beside it from then on, where it differs.
    pub fn replace_content(&mut self, content: impl Into<String>) {
        let before = std::mem::replace(&mut self.content, content.into());
        if self.content != before && self.streamed.is_none() && !before.is_empty() {
            self.streamed = Some(before);
        }
    }

    /// Rewrites the result into an honest failure, keeping its content.
    pub fn fail(&mut self, error: ErrorInfo) {
        self.stop_reason = StopReason::Error;
        self.error = Some(error);
    }
}

/// What a leg, and so the `Turn` and `AgentRun` scopes, came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "leg", rename_all = "snake_case")]
pub enum LegOutcome {
    /// The turn is over.
    Finished(Box<AgentResult>),
    /// The turn waits for these decisions.
    Suspended {
        /// What is asked.
        pending: Vec<ApprovalRequest>,
    },
    /// The turn stopped at a step boundary and can be resumed.
    Drained,
}

impl LegOutcome {
    /// How the leg ended.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Finished(result) => result.outcome(),
            Self::Suspended { .. } => Outcome::Suspended,
            Self::Drained => Outcome::Drained,
        }
    }

    /// The result, if the turn is over.
    pub fn finished(self) -> Option<AgentResult> {
        match self {
            Self::Finished(result) => Some(*result),
            _ => None,
        }
    }
}

/// What one iteration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationEnd {
    /// Tools ran; the model is asked again.
    Continue,
    /// The model answered, failed, or was cut by a limit.
    Finished,
    /// A layer answered in the iteration's place: it counts as one without calls.
    Skipped,
    /// The leg suspends or drains inside it; a further leg closes it.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_is_a_terminal_outcome() {
        use StopReason::*;
        for r in [
            Completed,
            Error,
            PolicyViolation,
            Cancelled,
            Timeout,
            LoopDetected,
            MaxIterations,
            MaxAttempts,
            MaxTokens,
            Budget,
        ] {
            assert!(r.outcome().is_terminal(), "{r:?}");
        }
        assert!(!Outcome::Suspended.is_terminal() && !Outcome::Drained.is_terminal());
    }
}
