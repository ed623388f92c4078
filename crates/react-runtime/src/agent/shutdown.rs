//! Ending an agent without losing a turn.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use futures::future::join_all;
use turnwright_core::{CancelCause, CancelKind, ErrorInfo, LegOutcome, Outcome};

use super::{Agent, AgentInner};
use crate::session::{Running, StartError};

/// How long legs that were interrupted may take to end.
const LAST: Duration = Duration::from_secs(5);

/// What became of the turns that ran when an agent was shut down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// They stopped at a step boundary, or waited for somebody, and can be resumed.
    pub parked: usize,
    /// They came to their end meanwhile.
    pub finished: usize,
    /// They did not stop in time, and were interrupted; what was shown is kept.
    pub interrupted: usize,
    /// They did not even end then: a body that blocks holds them.
    pub stuck: usize,
    /// Errors of those that failed.
    pub errors: Vec<ErrorInfo>,
}

impl AgentInner {
    pub(crate) fn admits(&self) -> Result<(), StartError> {
        match self.closed.load(SeqCst) {
            true => Err(StartError::ShuttingDown),
            false => Ok(()),
        }
    }
}

impl Agent {
    /// Shuts the agent down: no turn begins any more ([`StartError::ShuttingDown`]), and those that run are asked to stop at
    /// their next step boundary, saved and resumable. What has not stopped after `patience` is interrupted, and has five
    /// more seconds to end. Those that wait for somebody stay as they are; [`crate::Session::cancel_parked`] still works.
    ///
    /// # Cancel safety
    /// Dropped, the agent stays closed and its turns were asked; shut it down again to wait for them.
    pub async fn shutdown(&self, patience: Duration) -> ShutdownReport {
        self.0.closed.store(true, SeqCst);
        let running = self.0.sessions.running();
        for leg in &running {
            leg.ctx.request_drain();
        }
        let mut report = ShutdownReport::default();
        let mut left = Vec::new();
        let ends = join_all(running.iter().map(|leg| tokio::time::timeout(patience, ended(leg)))).await;
        for (leg, end) in running.iter().zip(ends) {
            match end {
                Ok(end) => report.count(end),
                Err(_) => left.push(leg),
            }
        }
        for leg in &left {
            leg.interrupt.cancel(CancelCause::runtime(CancelKind::Shutdown, "the process shuts down"));
        }
        for end in join_all(left.iter().map(|leg| tokio::time::timeout(LAST, ended(leg)))).await {
            match end {
                Ok(Some(end)) if end.outcome() == Outcome::Cancelled => report.interrupted += 1,
                Ok(end) => report.count(end),
                Err(_) => report.stuck += 1,
            }
        }
        report
    }
}

async fn ended(leg: &Running) -> Option<LegOutcome> {
    let mut outcome = leg.outcome.clone();
    outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
}

impl ShutdownReport {
    fn count(&mut self, end: Option<LegOutcome>) {
        match end {
            Some(LegOutcome::Finished(result)) => {
                self.finished += 1;
                self.errors.extend(result.error.filter(|_| result.stop_reason.outcome() == Outcome::Failed));
            }
            Some(_) => self.parked += 1,
            None => self.stuck += 1,
        }
    }
}
