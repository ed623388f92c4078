//! Prompt caches.

use serde::{Deserialize, Serialize};

/// Asks the provider to remember the request it read, so that the next one that begins with the same words costs less
/// and begins sooner. Worth it for conversations and for long instructions; reading from such a cache is cheap, but
/// where the hint is needed at all (the Messages format) writing to it costs more than reading without.
///
/// A hint: providers that remember by themselves are sent nothing. The `…_body` of a format says what it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheHint {
    /// No hint.
    #[default]
    Off,
    /// For some minutes, the provider's short time (five minutes with Messages), begun anew at each use.
    Minutes,
    /// For an hour, begun anew at each use. Writing costs more than for minutes.
    Hour,
}
