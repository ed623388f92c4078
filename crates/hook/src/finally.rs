//! FINALLY_GRAPH made safe: what a leg's end means, and the hook that sees only the turn's end.

use turnwright_core::{AgentResult, ErrorInfo, TurnContext};

use crate::{HookError, point::FinallyGraph};

/// How a leg ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LegEnd<'a> {
    /// The turn is over.
    Terminal(&'a AgentResult),
    /// The turn waits for a decision and will resume.
    Suspended,
    /// The turn stopped at a step boundary and will resume.
    Drained,
    /// The runtime or its store failed; the outcome is `failed`.
    Crashed(&'a ErrorInfo),
}

impl<'a> LegEnd<'a> {
    /// The result, if the turn is over.
    pub fn result(self) -> Option<&'a AgentResult> {
        match self {
            Self::Terminal(result) => Some(result),
            _ => None,
        }
    }

    /// The fault, if the leg crashed.
    pub fn error(self) -> Option<&'a ErrorInfo> {
        match self {
            Self::Crashed(error) => Some(error),
            _ => None,
        }
    }
}

/// The one authority on what "no result" means: true when the turn is not over but will go on, that is when there is
/// neither a result nor an error. So for suspended and drained legs, and never for a crash.
pub fn is_suspend_leg(result: Option<&AgentResult>, error: Option<&ErrorInfo>) -> bool {
    result.is_none() && error.is_none()
}

/// A FINALLY_GRAPH hook that cannot mistake a suspension for an end: it never sees one. Implement this instead of
/// [`FinallyGraph`], which it implements for you.
///
/// A crashed leg is an end too: it arrives as a failed result made from the fault.
///
/// # Cancel safety
/// As of the hook points: see [`crate::point`].
pub trait OutcomeFinallyHook: Send + Sync + 'static {
    /// Called once a turn, when it is over.
    fn on_outcome(
        &self,
        ctx: &TurnContext,
        result: &AgentResult,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

impl<T: OutcomeFinallyHook> FinallyGraph for T {
    async fn finally_graph(&self, ctx: &TurnContext, end: LegEnd<'_>) -> Result<(), HookError> {
        if is_suspend_leg(end.result(), end.error()) {
            return Ok(());
        }
        match end {
            LegEnd::Terminal(result) => self.on_outcome(ctx, result).await,
            LegEnd::Crashed(error) => {
                let mut result = AgentResult::new("", turnwright_core::StopReason::Error);
                result.error = Some(error.clone());
                self.on_outcome(ctx, &result).await
            }
            LegEnd::Suspended | LegEnd::Drained => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::{ErrorKind, StopReason};

    #[test]
    fn only_the_absence_of_both_is_a_suspension() {
        let result = AgentResult::new("", StopReason::Completed);
        let error = ErrorInfo::new(ErrorKind::Store, "gone");
        assert!(is_suspend_leg(None, None));
        assert!(!is_suspend_leg(None, Some(&error)));
        assert!(!is_suspend_leg(Some(&result), None));
        assert!(!is_suspend_leg(Some(&result), Some(&error)));
        assert!(is_suspend_leg(LegEnd::Drained.result(), LegEnd::Drained.error()));
    }
}
