//! When a call is over.

use std::time::Duration;

use turnwright_core::{ErrorKind, clock::Instant};

use crate::Timeouts;

/// When the call is over, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    timeouts: Timeouts,
    /// When the call began, for the whole of it.
    began: Instant,
    /// When the request went out, for the answer.
    sent: Instant,
    /// When the answer last grew.
    grew: Option<Instant>,
    progress: u64,
    /// When the finish reason was seen.
    finished: Option<Instant>,
}

/// Which limit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Failure(ErrorKind, Duration),
    Drained,
}

impl Limits {
    /// The limits of a call that began then and is sent now.
    pub(crate) fn new(timeouts: Timeouts, began: Instant, now: Instant) -> Self {
        Self { timeouts: timeouts.clamped(), began, sent: now, grew: None, progress: 0, finished: None }
    }

    /// The limit that comes first, and when.
    pub(crate) fn next(&self) -> (Instant, Limit) {
        let timeouts = &self.timeouts;
        let quiet = match self.grew {
            None => (
                self.sent + timeouts.first_byte,
                Limit::Failure(ErrorKind::FirstByteTimeout, timeouts.first_byte),
            ),
            Some(at) => (at + timeouts.idle, Limit::Failure(ErrorKind::IdleTimeout, timeouts.idle)),
        };
        let total = (self.began + timeouts.total, Limit::Failure(ErrorKind::TotalTimeout, timeouts.total));
        let drained = self.finished.map(|at| (at + timeouts.drain, Limit::Drained));
        // A finished answer is whole whichever limit comes first.
        match drained {
            Some(drained) => (drained.0.min(total.0), Limit::Drained),
            None if total.0 < quiet.0 => total,
            None => quiet,
        }
    }

    /// Takes down how far the answer is.
    pub(crate) fn note(&mut self, now: Instant, progress: u64, finish_seen: bool) {
        if progress > self.progress {
            self.progress = progress;
            self.grew = Some(now);
        }
        self.finished = finish_seen.then(|| self.finished.unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::clock::{Clock, SystemClock};

    #[test]
    fn limits_without_end_are_in_the_far_future() {
        let max = Duration::MAX;
        let endless = Timeouts { connect: max, first_byte: max, idle: max, total: max, drain: max };
        let now = SystemClock.instant();
        let mut limits = Limits::new(endless, now, now);
        assert!(limits.next().0 > now + Duration::from_secs(1_000_000));
        limits.note(now, 1, false);
        assert!(limits.next().0 > now + Duration::from_secs(1_000_000));
        limits.note(now, 1, true);
        assert_eq!(limits.next().1, Limit::Drained);
    }
}
