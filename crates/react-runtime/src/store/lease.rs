//! Who may write a session.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use turnwright_core::Timestamp;

/// Names one acquisition of the right to write a session. Greater with each one, so that a writer which lost its lease
/// is known by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// By what right a change is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseChange {
    /// By nobody's: for changes beside legs, such as decisions. Refused with [`super::StoreError::Held`] while a lease
    /// lasts.
    None,
    /// A leg begins, and takes the lease for so long. Refused with [`super::StoreError::Held`] while somebody else's lasts;
    /// a lease of the same holder is taken over, with a new fence.
    Acquire {
        /// Who: unique for each agent of each process.
        holder: String,
        /// How long it lasts, unless it is renewed.
        ttl: Duration,
    },
    /// The leg that holds it. Refused with [`super::StoreError::LeaseLost`] for another fence. One that has ended and that
    /// nobody took over is as good as one that lasts.
    Keep(Fence),
}

/// A lease that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Who holds it.
    pub holder: String,
    /// Its fence.
    pub fence: Fence,
    /// When it ends unless it is renewed, by the store's clock.
    pub until: Timestamp,
}
