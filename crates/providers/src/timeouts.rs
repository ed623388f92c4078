//! How long a client waits for what.

use std::time::Duration;

/// The limits of one call. Each has its own error kind. More than a year counts as a year, so that
/// [`Duration::MAX`] means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect, TLS included: [`turnwright_core::ErrorKind::ConnectTimeout`]. 10 s by default.
    pub connect: Duration,
    /// From the sending of the request to the first byte of the answer that is not a comment:
    /// [`turnwright_core::ErrorKind::FirstByteTimeout`]. 120 s by default.
    pub first_byte: Duration,
    /// Between two bytes of the answer that are no comments: [`turnwright_core::ErrorKind::IdleTimeout`]. 60 s by
    /// default.
    pub idle: Duration,
    /// For the whole call, the wait for its turn and for its key included:
    /// [`turnwright_core::ErrorKind::TotalTimeout`]. 600 s by default.
    pub total: Duration,
    /// From the finish reason to the end mark or the end of the body. When it is over the answer counts as whole:
    /// only usage may be missing. 2 s by default.
    pub drain: Duration,
}

/// The longest limit: no call takes so long, and no clock overflows.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Timeouts {
    /// These limits, none of them too long to count with.
    pub(crate) fn clamped(self) -> Self {
        let Self { connect, first_byte, idle, total, drain } = self;
        let [connect, first_byte, idle, total, drain] =
            [connect, first_byte, idle, total, drain].map(|limit| limit.min(LONGEST));
        Self { connect, first_byte, idle, total, drain }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
            drain: Duration::from_secs(2),
        }
    }
}
