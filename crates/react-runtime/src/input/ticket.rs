//! Messages that wait.

use std::{sync::Arc, time::Duration};

use turnwright_control::{Fate, Receipt};

use crate::{Input, Session, StartError, TurnHandle};

/// How often a message that waits looks whether the turn is gone that it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A message that waits. It lands by itself; the ticket tells when, and starts a turn with it where the one it waited for
/// ended first. Dropped, a message that comes back is nobody's: hold the ticket.
#[derive(Debug)]
pub struct Ticket {
    session: Session,
    input: Input,
    receipt: Receipt,
    /// The room it takes among those that wait.
    place: Option<Arc<()>>,
}

/// What became of a message that waited.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivered {
    /// It landed in the turn: it is history.
    Landed,
    /// The turn ended before it could land, and the next one began with it.
    Started(TurnHandle),
    /// It came back, and no turn could begin with it: it is the caller's again.
    Returned {
        /// The message.
        input: Input,
        /// Why.
        why: String,
    },
}

impl Ticket {
    pub(super) fn new(session: Session, input: Input, receipt: Receipt, place: Arc<()>) -> Self {
        Self { session, input, receipt, place: Some(place) }
    }

    /// The command it travels as: what a control channel knows it by.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Waits until the message landed, started a turn, or came back. For as long as a turn waits for somebody, so does this.
    ///
    /// # Cancel safety
    /// Safe until it is ready: ask again. A turn that it started is interrupted with its handle, like any other.
    pub async fn delivered(&mut self) -> Delivered {
        loop {
            let fate = tokio::select! {
                biased;
                fate = self.receipt.fate() => fate,
                () = self.stranded() => continue,
            };
            let why = match fate {
                Fate::Applied => return self.done(Delivered::Landed),
                Fate::Returned { reason } | Fate::Rejected { reason } => reason,
                other => format!("{other:?}"),
            };
            match self.session.start(self.input.clone()) {
                Ok(turn) => return self.done(Delivered::Started(turn)),
                // Another message was quicker: this one follows that turn.
                Err(StartError::Busy) => self.after_the_next().await,
                Err(e) => {
                    let input = self.input.clone();
                    // It may come again.
                    if let Some(key) = &input.key {
                        self.session.0.forget_key(key);
                    }
                    return self.done(Delivered::Returned { input, why: format!("{why}; {e}") });
                }
            }
        }
    }

    /// Takes the message back when no turn is there any more for which it waits: it came when the turn had taken its last look, or
    /// the agent shuts down. Its fate is told then. Ends in no other way.
    ///
    /// It does not listen for the session: who listens takes what is sent, and that is for whoever runs the turn.
    async fn stranded(&self) {
        let Some(channel) = &self.session.0.agent.channel else { return std::future::pending().await };
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.session.is_busy() {
                continue;
            }
            // The turn may run, wait or have ended in another process.
            let is_known = self.session.refresh().await.is_ok();
            let (is_busy, is_parked) = (self.session.is_busy(), self.session.is_parked());
            let closes = self.session.0.agent.admits().is_err();
            if is_known
                && !is_busy
                && (!is_parked || closes)
                && let Some(mine) = channel.withdraw(self.session.id(), self.receipt.id()).await
            {
                return mine.settle(Fate::returned("no turn takes it any more"));
            }
        }
    }

    fn done(&mut self, delivered: Delivered) -> Delivered {
        self.place = None;
        delivered
    }

    /// Waits for the end of the turn that runs, to try again then.
    async fn after_the_next(&self) {
        if let Some(running) = self.session.0.running() {
            let mut outcome = running.outcome.clone();
            // A leg that goes away without an outcome is over too.
            let _ = outcome.wait_for(Option::is_some).await;
        }
        tokio::task::yield_now().await;
    }
}
