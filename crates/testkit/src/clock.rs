//! Virtual time and repeatable ids.

use turnwright_core::{
    Clock, Sources, Timestamp,
    clock::{Instant, SeededRandom, SystemClock},
};

/// A wall clock that starts at a fixed moment and moves with tokio's clock, so that it stands still and jumps with it.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    start: Timestamp,
    origin: Instant,
}

impl VirtualClock {
    /// A clock that stands at 2026-01-01T00:00:00Z now. Make it inside the runtime whose clock it follows.
    pub fn new() -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { start, origin: SystemClock.instant() }
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        // Only a clock that ran for thousands of years overflows.
        self.start.checked_add(self.instant() - self.origin).unwrap_or(self.start)
    }

    fn instant(&self) -> Instant {
        SystemClock.instant()
    }
}

/// Sources that make a run repeatable: virtual time, and ids and randomness that depend on the seed only.
pub fn virtual_sources(seed: u64) -> Sources {
    Sources::new(VirtualClock::new(), SeededRandom::new(seed))
}
