//! Control errors: intentional exits, raised by any layer and obeyed by the runtime.

use std::{error::Error, sync::Arc};

use serde::{Deserialize, Serialize};
use turnwright_core::{
    BudgetExceeded, CancelCause, CancelKind, ErrorInfo, ErrorKind, StopReason, error::causes,
};

/// An intentional exit from a turn. It is no failure of whoever raises it: hooks, interceptors, chains and tools pass
/// it through untouched, and the runtime ends the turn with its [`StopReason`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}")]
pub struct ControlError {
    /// Why the turn is left.
    pub kind: ControlErrorKind,
    /// What the user is told instead of, or after, the answer; none leaves the visible text as it is.
    pub user_content: Option<String>,
}

/// Why a turn is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlErrorKind {
    /// Cancelled from outside.
    #[error("{0}")]
    Cancelled(CancelCause),
    /// Out of time; says what was.
    #[error("out of time: {0}")]
    Timeout(String),
    /// A policy forbids to go on; says which and why.
    #[error("policy violation: {0}")]
    PolicyViolation(String),
    /// The turn repeats itself; says how.
    #[error("loop detected: {0}")]
    LoopDetected(String),
    /// A budget is used up; says whose, and of what.
    #[error("{0}")]
    BudgetExceeded(String),
}

impl ControlError {
    fn new(kind: ControlErrorKind) -> Self {
        Self { kind, user_content: None }
    }

    /// Cancelled from outside.
    pub fn cancelled(cause: CancelCause) -> Self {
        Self::new(ControlErrorKind::Cancelled(cause))
    }

    /// Out of time.
    pub fn timeout(what: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::Timeout(what.into()))
    }

    /// A policy forbids to go on.
    pub fn policy_violation(why: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::PolicyViolation(why.into()))
    }

    /// The turn repeats itself.
    pub fn loop_detected(how: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::LoopDetected(how.into()))
    }

    /// A budget is used up.
    pub fn budget_exceeded(whose: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::BudgetExceeded(whose.into()))
    }

    /// The same error with words for the user.
    #[must_use]
    pub fn user_content(mut self, content: impl Into<String>) -> Self {
        self.user_content = Some(content.into());
        self
    }

    /// The stop reason the turn ends with.
    pub fn stop_reason(&self) -> StopReason {
        match &self.kind {
            ControlErrorKind::Cancelled(_) => StopReason::Cancelled,
            ControlErrorKind::Timeout(_) => StopReason::Timeout,
            ControlErrorKind::PolicyViolation(_) => StopReason::PolicyViolation,
            ControlErrorKind::LoopDetected(_) => StopReason::LoopDetected,
            ControlErrorKind::BudgetExceeded(_) => StopReason::Budget,
        }
    }

    /// The same as error data.
    pub fn info(&self) -> ErrorInfo {
        let kind = self.stop_reason().error_kind().unwrap_or(ErrorKind::Internal);
        ErrorInfo::new(kind, self.to_string())
    }

    /// The control error among an error and its causes, also boxed or shared. An error that stands for another
    /// (`#[error(transparent)]`) shows the causes of that one and not the one itself: return a control error bare.
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        causes(error).find_map(|e| {
            let boxed = || e.downcast_ref::<Box<Self>>().map(|e| &**e);
            let shared = || e.downcast_ref::<Arc<Self>>().map(|e| &**e);
            e.downcast_ref().or_else(boxed).or_else(shared)
        })
    }

    /// Who cancelled, if that is what happened.
    pub fn cause(&self) -> Option<&CancelCause> {
        match &self.kind {
            ControlErrorKind::Cancelled(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<BudgetExceeded> for ControlError {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::budget_exceeded(exceeded.to_string())
    }
}

impl From<CancelCause> for ControlError {
    /// A passed deadline is a timeout, a budget that is used up is one; everything else is a cancel.
    fn from(cause: CancelCause) -> Self {
        match cause.kind {
            CancelKind::Deadline => {
                Self::timeout(cause.reason.unwrap_or_else(|| "the turn's deadline".into()))
            }
            CancelKind::Budget => {
                Self::budget_exceeded(cause.reason.unwrap_or_else(|| "a budget of time is used up".into()))
            }
            _ => Self::cancelled(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_knows_its_stop_reason_and_keeps_the_users_words() {
        let cause = CancelCause::requested("ann").reason("enough");
        assert_eq!(ControlError::from(cause.clone()).stop_reason(), StopReason::Cancelled);
        assert_eq!(ControlError::from(cause).to_string(), "cancelled by ann: enough");
        let deadline = CancelCause::runtime(CancelKind::Deadline, "60 s");
        assert_eq!(ControlError::from(deadline).stop_reason(), StopReason::Timeout);
        let e = ControlError::policy_violation("no shell").user_content("I may not do that.");
        assert_eq!(
            (e.stop_reason(), e.info().kind),
            (StopReason::PolicyViolation, ErrorKind::PolicyViolation)
        );
        assert_eq!(e.user_content.as_deref(), Some("I may not do that."));
        assert_eq!(ControlError::loop_detected("A, B, A, B").stop_reason(), StopReason::LoopDetected);
    }
}
