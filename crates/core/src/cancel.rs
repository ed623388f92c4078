//! The cancel token tree: run → turn → tool.
//!
//! A token is level-triggered: whoever asks late still sees it. The first cause wins and never changes. A cause is
//! always stored before its token fires, so that whoever wakes finds it. A caller's own token has no cause to store: the
//! first who asks fixes one that says so.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::sync::OnceLock;

/// What kind of cancel it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CancelKind {
    /// Somebody asked for it.
    Requested,
    /// The deadline passed.
    Deadline,
    /// A new message took the turn's place.
    Superseded,
    /// The handle of the turn was dropped.
    HandleDropped,
    /// The process shuts down.
    Shutdown,
    /// A budget of time is used up.
    Budget,
}

/// Who cancelled, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelCause {
    /// What kind of cancel it was.
    pub kind: CancelKind,
    /// Who asked.
    pub actor: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CancelCause {
    /// Somebody asked for it.
    pub fn requested(actor: impl Into<String>) -> Self {
        Self { kind: CancelKind::Requested, actor: actor.into(), reason: None }
    }

    /// A cause of this kind, raised by the runtime itself.
    pub fn runtime(kind: CancelKind, reason: impl Into<String>) -> Self {
        Self { kind, actor: "runtime".into(), reason: Some(reason.into()) }
    }

    /// The same cause with words.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl fmt::Display for CancelCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            CancelKind::Deadline => f.write_str("the deadline passed")?,
            _ => write!(f, "cancelled by {}", self.actor)?,
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// A node of the tree. Cancelling it cancels its descendants, never its ancestors. Clones are the same node.
#[derive(Clone)]
pub struct CancelToken(Arc<Node>);

struct Node {
    token: CancellationToken,
    cause: OnceLock<CancelCause>,
    parent: Option<CancelToken>,
    /// Whether it hangs under a token that knows no causes.
    adopted: bool,
}

impl CancelToken {
    /// A root.
    pub fn new() -> Self {
        Self::node(CancellationToken::new(), None, false)
    }

    fn node(token: CancellationToken, parent: Option<Self>, adopted: bool) -> Self {
        Self(Arc::new(Node { token, cause: OnceLock::new(), parent, adopted }))
    }

    /// A child: cancelled with this token, and on its own.
    #[must_use]
    pub fn child(&self) -> Self {
        Self::node(self.0.token.child_token(), Some(self.clone()), false)
    }

    /// Cancels. Returns whether this cause is the one that counts.
    pub fn cancel(&self, cause: CancelCause) -> bool {
        let first = !self.is_cancelled() && self.0.cause.set(cause).is_ok();
        self.0.token.cancel();
        first
    }

    /// Whether it is cancelled, by itself or by an ancestor.
    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Who cancelled it: its own cause first, else the nearest ancestor's.
    pub fn cause(&self) -> Option<CancelCause> {
        if self.is_cancelled() { self.latched() } else { None }
    }

    /// An ancestor's cause is fixed here when it is told first: a cancel of this node's own that comes a moment later must
    /// not change what was told.
    fn latched(&self) -> Option<CancelCause> {
        if let Some(cause) = self.0.cause.get() {
            return Some(cause.clone());
        }
        let above = match &self.0.parent {
            _ if self.0.adopted => CancelCause::requested("caller"),
            Some(parent) => parent.latched()?,
            None => return None,
        };
        Some(self.0.cause.get_or_init(|| above).clone())
    }

    /// Waits until it is cancelled.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost when the future is dropped.
    pub async fn cancelled(&self) -> CancelCause {
        self.signal().await;
        self.cause().unwrap_or_else(|| CancelCause::requested("unknown"))
    }

    /// The bare signal, for adapters that poll by hand.
    pub fn signal(&self) -> WaitForCancellationFuture<'_> {
        self.0.token.cancelled()
    }

    /// The signal as an owned future.
    pub fn signal_owned(&self) -> tokio_util::sync::WaitForCancellationFutureOwned {
        self.0.token.clone().cancelled_owned()
    }
}

/// A token under one of the caller's own: cancelled with it, by the actor `caller`, and never cancelling it.
impl From<&CancellationToken> for CancelToken {
    fn from(token: &CancellationToken) -> Self {
        Self::node(token.child_token(), None, true)
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelToken").field(&self.cause()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_wins_and_reaches_descendants_only() {
        let run = CancelToken::new();
        let turn = run.child();
        let (a, b) = (turn.child(), turn.child());
        assert!(a.cancel(CancelCause::requested("a")));
        assert!(!turn.is_cancelled() && !b.is_cancelled());
        assert!(run.cancel(CancelCause::requested("first")));
        assert!(!run.cancel(CancelCause::requested("second")));
        assert!(!b.cancel(CancelCause::requested("third")), "an ancestor came first");
        assert_eq!(a.cause().unwrap().actor, "a");
        assert_eq!(b.cause().unwrap().actor, "first");
        assert_eq!(run.cause().unwrap().actor, "first");
    }

    #[test]
    fn fault_r3_49_a_callers_own_token_reaches_down_and_is_not_reached() {
        let callers = CancellationToken::new();
        let (run, other) = (CancelToken::from(&callers), CancelToken::from(&callers));
        let turn = run.child();
        assert_eq!((turn.is_cancelled(), turn.cause()), (false, None));
        assert!(other.cancel(CancelCause::requested("me")));
        assert!(!callers.is_cancelled() && !turn.is_cancelled());
        callers.cancel();
        assert!(!turn.cancel(CancelCause::requested("late")), "the caller came first");
        assert_eq!(turn.cause(), Some(CancelCause::requested("caller")));
        assert_eq!(other.cause(), Some(CancelCause::requested("me")), "the first cause never changes");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn fault_a18_a_late_listener_still_sees_the_cancel() {
        let token = CancelToken::new();
        token.cancel(CancelCause::requested("me").reason("enough"));
        assert_eq!(token.child().cancelled().await.to_string(), "cancelled by me: enough");
    }
}

/// Every interleaving of a few threads; run by `cargo xtask model`.
#[cfg(all(test, turnwright_model))]
mod model {
    use shuttle::{check_dfs, future::block_on, thread};

    use super::*;

    #[test]
    fn whoever_wakes_finds_the_one_cause_that_counts() {
        check_dfs(
            || {
                let token = CancelToken::new();
                let waits = token.child();
                let waiter = thread::spawn(move || block_on(waits.cancelled()));
                let cancel = |actor: &'static str| {
                    let token = token.clone();
                    thread::spawn(move || token.cancel(CancelCause::requested(actor)))
                };
                let (a, b) = (cancel("a"), cancel("b"));
                let seen = waiter.join().unwrap();
                let (a, b) = (a.join().unwrap(), b.join().unwrap());
                assert!(a != b, "one of them counts: {a} {b}");
                let counts = if a { "a" } else { "b" };
                assert_eq!((seen.actor.as_str(), token.cause().unwrap().actor.as_str()), (counts, counts));
            },
            None,
        );
    }

    #[test]
    fn a_cause_that_was_told_never_changes() {
        check_dfs(
            || {
                let turn = CancelToken::new();
                let tool = turn.child();
                let cancel = |token: &CancelToken, actor: &'static str| {
                    let token = token.clone();
                    thread::spawn(move || token.cancel(CancelCause::requested(actor)))
                };
                let (of_turn, of_tool) = (cancel(&turn, "turn"), cancel(&tool, "tool"));
                // In a thread of its own: one that spawned another goes on at once, and would look before it began.
                let asks = tool.clone();
                let told = thread::spawn(move || asks.cause()).join().unwrap();
                of_turn.join().unwrap();
                of_tool.join().unwrap();
                let then = tool.cause();
                assert!(told.is_none() || told == then, "told {told:?}, and then {then:?}");
            },
            None,
        );
    }
}
