//! Injected time, ids and randomness: the only place that reads the machine's own.
//!
//! Virtual time is tokio's paused clock. [`SystemClock::instant`] follows it; its wall clock does not, so tests
//! that print times use a clock of their own (`turnwright_testkit::VirtualClock`).

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

pub use jiff::Timestamp;
use rand::{
    Rng as _, SeedableRng as _,
    rand_core::UnwrapErr,
    rngs::{StdRng, SysRng},
};
pub use tokio::time::Instant;
use uuid::Uuid;

use crate::{Id, SessionId};

/// Tells the time. Both readings come from here, so that a run can be replayed.
///
/// As the other two sources it may be asked while a short internal lock is held: it must neither block nor call back
/// into the runtime.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, for what people and stores read.
    fn now(&self) -> Timestamp;

    /// The monotonic clock, for deadlines and durations. Follows tokio's paused clock.
    fn instant(&self) -> Instant;
}

/// Draws random numbers.
pub trait RandomSource: Send + Sync + 'static {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Draws ids.
pub trait IdSource: Send + Sync + 'static {
    /// A fresh id: unique within everything that shares this source.
    fn uuid(&self) -> Uuid;
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// Random numbers of a generator that the operating system seeds, one a thread: fit for ids that nobody may guess, and
/// no system call a number. A process that forks and does not exec repeats its parent's numbers in that thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

thread_local!(static GENERATOR: RefCell<StdRng> = RefCell::new(StdRng::from_rng(&mut UnwrapErr(SysRng))));

impl RandomSource for SystemRandom {
    fn next_u64(&self) -> u64 {
        // No `rand::rng()`: it panics in a thread that ends, and a turn that is dropped there draws ids all the same.
        let drawn = GENERATOR.try_with(|generator| generator.borrow_mut().next_u64());
        drawn.unwrap_or_else(|_| UnwrapErr(SysRng).next_u64())
    }
}

/// A repeatable sequence (SplitMix64) for replays and tests. Not for secrets.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// A sequence that depends on the seed only.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl RandomSource for SeededRandom {
    fn next_u64(&self) -> u64 {
        let step = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(step, Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// UUID v7 from a clock and a random source: time-ordered to the millisecond.
#[derive(Clone)]
pub struct V7Ids {
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
}

impl V7Ids {
    /// Ids that take their time and their randomness from these sources.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        Self { clock, random }
    }
}

impl IdSource for V7Ids {
    fn uuid(&self) -> Uuid {
        // Before 1970 the time part is zero: still a valid and unique id.
        let millis = u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0);
        let (a, b) = (self.random.next_u64().to_be_bytes(), self.random.next_u64().to_be_bytes());
        let bytes = [a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], b[0], b[1]];
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }
}

/// The three sources a run draws from, handed down with the [`crate::TurnContext`].
#[derive(Clone)]
pub struct Sources {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn IdSource>,
    /// Randomness, for example for backoff jitter.
    pub random: Arc<dyn RandomSource>,
}

impl Sources {
    /// Sources whose ids are made from the given clock and randomness.
    pub fn new(clock: impl Clock, random: impl RandomSource) -> Self {
        let (clock, random): (Arc<dyn Clock>, Arc<dyn RandomSource>) = (Arc::new(clock), Arc::new(random));
        Self { ids: Arc::new(V7Ids::new(clock.clone(), random.clone())), clock, random }
    }

    /// A fresh id of any kind.
    pub fn id<K>(&self) -> Id<K> {
        Id::from_uuid(self.ids.uuid())
    }

    /// A fresh session id.
    pub fn session_id(&self) -> SessionId {
        self.ids.uuid().into()
    }
}

impl Default for Sources {
    /// The machine's own clock and randomness.
    fn default() -> Self {
        Self::new(SystemClock, SystemRandom)
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TurnId;

    struct Fixed;
    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp::from_millisecond(1_700_000_000_000).unwrap()
        }
        fn instant(&self) -> Instant {
            SystemClock.instant()
        }
    }

    #[test]
    fn ids_are_v7_and_repeat_with_their_sources() {
        let draw = || {
            let s = Sources::new(Fixed, SeededRandom::new(7));
            (s.id::<crate::id::kind::Turn>(), s.id::<crate::id::kind::Turn>())
        };
        let (a, b): (TurnId, TurnId) = draw();
        assert_eq!(draw(), (a, b));
        assert_ne!(a, b);
        assert_eq!(a.uuid().get_version_num(), 7);
        assert!(a.to_string().starts_with("018bcfe5-6800-7"), "{a}");
    }

    #[test]
    fn a_thread_that_ends_still_has_random_numbers() {
        struct Late(std::sync::mpsc::Sender<u64>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(SystemRandom.next_u64()).unwrap();
            }
        }
        thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });
        let (tx, rx) = std::sync::mpsc::channel();
        let early = std::thread::spawn(move || {
            LATE.with(|late| *late.borrow_mut() = Some(Late(tx)));
            SystemRandom.next_u64()
        });
        assert_ne!(early.join().unwrap(), rx.recv().unwrap());
    }
}
