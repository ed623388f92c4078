//! What a turn is a part of.

use turnwright_core::{Budget, CancelToken};

/// What a turn is a part of: it is cancelled with it, for the same cause, and what it uses is used of its budget. Nothing
/// else that happens to the turn reaches it.
///
/// A tool that runs another agent starts it under [`crate::tool::ToolContext::as_parent`]. A cancel token alone is a parent
/// too: a caller's own `CancellationToken`, or [`turnwright_core::TurnContext::run_cancel`].
#[derive(Debug, Clone, Default)]
pub struct Parent {
    cancel: Option<CancelToken>,
    budget: Option<Budget>,
}

impl Parent {
    /// Of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with this budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The cancel token of a run under it.
    pub(crate) fn run_cancel(&self) -> CancelToken {
        self.cancel.as_ref().map_or_else(CancelToken::new, CancelToken::child)
    }

    pub(crate) fn granted(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }
}

impl From<&CancelToken> for Parent {
    fn from(token: &CancelToken) -> Self {
        Self { cancel: Some(token.clone()), budget: None }
    }
}

impl From<CancelToken> for Parent {
    fn from(token: CancelToken) -> Self {
        Self { cancel: Some(token), budget: None }
    }
}

impl From<Budget> for Parent {
    fn from(budget: Budget) -> Self {
        Self { cancel: None, budget: Some(budget) }
    }
}

impl From<&Self> for Parent {
    fn from(parent: &Self) -> Self {
        parent.clone()
    }
}
