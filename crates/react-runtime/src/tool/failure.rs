//! What becomes of a batch when one of its calls fails.

use serde::Serialize;

/// What the failure of a call means to the other calls of its answer. Every call has a result either way.
///
/// A call failed when its result, as it leaves the interceptors, is an error: the tool's own, a timeout, a panic, a
/// layer's. A denial and an open question are no failure and touch nobody else; nor is a call that never entered the
/// interceptors: of an unknown tool, with broken arguments, or one the gate could not decide about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnToolFailure {
    /// Nothing: calls that run finish, and those that wait run too. The default.
    #[default]
    LetFinish,
    /// The batch ends at its first failure: calls that run are dropped, as by a cancel but without a grace, and those
    /// that wait for their place or for a person do not run. Each gets a synthetic result that says so.
    CancelSiblings,
}
