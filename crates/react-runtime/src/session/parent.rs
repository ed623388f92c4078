//! What a turn is a part of.

use turnwright_core::{Budget, CancelToken, ParentCall, clock::Instant};

/// What a turn is a part of: it is cancelled with it, for the same cause, must be over when it must, and what it uses is
/// used of its budget. Nothing else that happens to the turn reaches it.
///
/// A tool that runs another agent starts it under [`crate::tool::ToolContext::as_parent`]. A cancel token alone is a parent
/// too: a caller's own `CancellationToken`, or [`turnwright_core::TurnContext::run_cancel`].
#[derive(Debug, Clone, Default)]
pub struct Parent {
    cancel: Option<CancelToken>,
    budget: Option<Budget>,
    deadline: Option<Instant>,
    call: Option<ParentCall>,
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

    /// The same, with a time by which the leg must be over; the agent's own limit counts when it ends earlier. None is no
    /// limit.
    #[must_use]
    pub fn deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same, as a part of this call ([`turnwright_core::TurnContext::parent`]).
    #[must_use]
    pub fn call(mut self, call: ParentCall) -> Self {
        self.call = Some(call);
        self
    }

    /// The same for work that goes on when the call and its turn are over: it is cancelled with this token in place of the
    /// call, and has its own agent's time only.
    #[must_use]
    pub fn detached(mut self, until: &CancelToken) -> Self {
        (self.cancel, self.deadline) = (Some(until.clone()), None);
        self
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn started_by(&self) -> Option<ParentCall> {
        self.call.clone()
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
        Self { cancel: Some(token.clone()), ..Self::default() }
    }
}

impl From<CancelToken> for Parent {
    fn from(token: CancelToken) -> Self {
        Self { cancel: Some(token), ..Self::default() }
    }
}

impl From<Budget> for Parent {
    fn from(budget: Budget) -> Self {
        Self { budget: Some(budget), ..Self::default() }
    }
}

impl From<&Self> for Parent {
    fn from(parent: &Self) -> Self {
        parent.clone()
    }
}
