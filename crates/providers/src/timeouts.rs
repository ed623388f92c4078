//! How long a client waits for what.

use std::time::Duration;

/// The limits of one call. Each has its own error kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect, TLS included: [`turnwright_core::ErrorKind::ConnectTimeout`]. 10 s by default.
    pub connect: Duration,
    /// From the start of the call to the first byte of the answer that is not a comment:
    /// [`turnwright_core::ErrorKind::FirstByteTimeout`]. 120 s by default.
    pub first_byte: Duration,
    /// Between two bytes of the answer that are no comments: [`turnwright_core::ErrorKind::IdleTimeout`]. 60 s by
    /// default.
    pub idle: Duration,
    /// For the whole call: [`turnwright_core::ErrorKind::TotalTimeout`]. 600 s by default.
    pub total: Duration,
    /// From the finish reason to the end mark or the end of the body. When it is over the answer counts as whole:
    /// only usage may be missing. 2 s by default.
    pub drain: Duration,
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
