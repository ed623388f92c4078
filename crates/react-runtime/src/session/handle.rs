//! The handle of a running leg.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;
use tokio::sync::watch;
use turnwright_core::{
    AgentResult, CancelCause, CancelKind, CancelToken, ErrorInfo, ErrorKind, LegOutcome, SessionId,
    StopReason, TurnContext, TurnId,
};

use crate::{event::TurnEvent, queue::EventQueue};

/// What dropping the handle of a turn means to the turn: what a client that disconnects means, where the handle goes with
/// the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// The turn's work is dropped at once, and the turn ends as cancelled; what was shown is kept.
    #[default]
    Interrupt,
    /// The turn goes on to its end. A command of the control channel still reaches it.
    Detach,
    /// The turn stops at its next step boundary, saved and resumable.
    Drain,
}

/// A leg that runs: a stream of its events, its result, and its control.
///
/// Reading is optional. The turn never waits for its reader; one that falls too far behind is cut off with
/// [`crate::TurnEventKind::Lagged`], and the result is untouched.
///
/// Dropping the handle interrupts the turn; [`TurnHandle::detach`] lets it run on.
#[must_use = "dropping the handle interrupts the turn"]
pub struct TurnHandle {
    pub(crate) ctx: TurnContext,
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) interrupt: CancelToken,
    pub(crate) outcome: watch::Receiver<Option<LegOutcome>>,
    pub(crate) on_drop: OnDrop,
}

impl TurnHandle {
    /// The same handle, with another meaning of its dropping than the agent's ([`crate::AgentBuilder::on_drop`]).
    pub fn on_drop(mut self, what: OnDrop) -> Self {
        self.on_drop = what;
        self
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        self.ctx.session()
    }

    /// The turn: known before anything ran.
    pub fn turn(&self) -> TurnId {
        self.ctx.turn()
    }

    /// Waits until the leg is over. Needs nobody to read the events.
    ///
    /// # Cancel safety
    /// Safe: ask again.
    pub async fn outcome(&mut self) -> LegOutcome {
        let ended = self.outcome.wait_for(Option::is_some).await;
        match ended.ok().and_then(|o| o.clone()) {
            Some(outcome) => outcome,
            // The leg cannot go away without an outcome; if it does, that is said.
            None => {
                let mut lost = AgentResult::new("", StopReason::Error);
                lost.error = Some(ErrorInfo::new(ErrorKind::Internal, "the leg ended without an outcome"));
                LegOutcome::Finished(Box::new(lost))
            }
        }
    }

    /// Waits for the result of the turn; none when it was suspended or drained.
    ///
    /// # Cancel safety
    /// Safe: ask again.
    pub async fn result(&mut self) -> Option<AgentResult> {
        self.outcome().await.finished()
    }

    /// Cancels the turn: raised as a control error at every await the runtime owns, where hooks and interceptors can
    /// see it; what has not let go after 50 ms is dropped. Returns whether this was the first cause.
    ///
    /// Once the owed hooks run nothing changes any more: a leg that is ending as suspended stays so, as its outcome
    /// says, and [`crate::Session::cancel_parked`] ends it.
    pub fn cancel(&self, cause: CancelCause) -> bool {
        self.ctx.cancel().cancel(cause)
    }

    /// Drops the turn's work at once, unseen by interceptors. The history is sealed and the owed hooks fire all the
    /// same. Returns whether this was the first interrupt.
    pub fn interrupt(&self, cause: CancelCause) -> bool {
        self.interrupt.cancel(cause)
    }

    /// Asks the turn to stop at its next step boundary, saved and resumable. Returns whether it was not asked before.
    pub fn drain(&self) -> bool {
        self.ctx.request_drain()
    }

    /// The turn's context.
    pub fn context(&self) -> &TurnContext {
        &self.ctx
    }

    /// Lets the turn run on when the handle is gone.
    pub fn detach(mut self) {
        self.on_drop = OnDrop::Detach;
    }
}

impl Stream for TurnHandle {
    type Item = TurnEvent;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        self.queue.poll_next(cx)
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        self.queue.detach();
        if self.on_drop == OnDrop::Drain {
            self.ctx.request_drain();
        }
        if self.on_drop == OnDrop::Interrupt {
            // Often it is dropped because of a cancel that reached the turn as well: then that one is told.
            let cause = self.ctx.cancel().cause().unwrap_or_else(|| {
                CancelCause::runtime(CancelKind::HandleDropped, "the turn's handle was dropped")
            });
            self.interrupt.cancel(cause);
        }
    }
}

impl std::fmt::Debug for TurnHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TurnHandle").field(&self.ctx).finish()
    }
}
