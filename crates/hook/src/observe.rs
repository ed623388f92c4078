//! Observers: react after something was recorded.
//!
//! An observer is told of an event when it is recorded, and changes nothing: what it answers, that it fails or panics, is
//! counted and logged, and neither the turn nor another observer feels it. It is called in the turn, between two of its
//! steps, and no lock is held meanwhile; one that takes long delays its own turn. What waits belongs behind a queue:
//! [`Observers::queued`].
//!
//! What is told, and when, is the matter of whoever tells: in this project the runtime, with its records.
//!
//! ```
//! use std::sync::Arc;
//! use turnwright_hook::observe::{Observed, Observers};
//!
//! struct Said(&'static str);
//! impl Observed for Said {
//!     type Name = usize;
//!     fn name(&self) -> usize {
//!         self.0.len()
//!     }
//! }
//!
//! let observers = Observers::<Said>::default();
//! let long = observers.on(8, |said: &Arc<Said>| println!("long: {}", said.0));
//! observers.tell(&Arc::new(Said("farewell")));
//! assert_eq!(long.stats().told, 1);
//! long.remove();
//! ```

mod queued;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use serde::Serialize;
use turnwright_core::{error::with_causes, panic::panic_text, short_name};

pub use queued::{QueueGone, QueueStats, Queued};

use crate::shelf::Shelf;

/// What observers are told of.
pub trait Observed: Send + Sync + 'static {
    /// What kinds of it are called.
    type Name: Copy + Eq + Send + Sync + 'static;

    /// Which kind it is.
    fn name(&self) -> Self::Name;
}

/// What an observer may answer: nothing, or a failure, which is counted and logged.
pub trait Answer {
    /// Why it failed, in words.
    fn failure(self) -> Option<String>;
}

impl Answer for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> Answer for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|e| with_causes(&*e.into()))
    }
}

/// The observers of one source of events. Clones are the same.
pub struct Observers<E: Observed>(Arc<Shelf<Observer<E>>>);

/// What is called.
type Callback<E> = dyn Fn(&Arc<E>) -> Option<String> + Send + Sync;

struct Observer<E: Observed> {
    /// The kind it is told of; all, when none.
    name: Option<E::Name>,
    /// What it is called in plans.
    title: &'static str,
    /// How many events wait for it at most, if it has a queue.
    queue: Option<usize>,
    tally: Arc<Tally>,
    call: Box<Callback<E>>,
}

/// What became of an observer's calls.
#[derive(Default)]
struct Tally {
    removed: AtomicBool,
    told: AtomicU64,
    failed: AtomicU64,
}

/// What became of an observer's calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverStats {
    /// How often it was called.
    pub told: u64,
    /// How often it failed or panicked. Each is logged as a warning.
    pub failed: u64,
}

/// One row of [`Observers::plan`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedObserver<N> {
    /// The kind of events it is told of; all, when none.
    pub of: Option<N>,
    /// The function it was added in, or its own name.
    pub name: &'static str,
    /// How many events wait for it at most. None: it is called in the turn.
    pub queue: Option<usize>,
}

impl<E: Observed> Clone for Observers<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Observed> Default for Observers<E> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<E: Observed> Observers<E> {
    /// Calls this at every event of one kind.
    ///
    /// Of one event the observers of its kind are told first, then those of all kinds, each in the order they were added.
    /// One that is added while an event is told hears the next one.
    pub fn on<A: Answer>(
        &self,
        name: E::Name,
        observer: impl Fn(&Arc<E>) -> A + Send + Sync + 'static,
    ) -> Subscription {
        self.observe(Some(name), observer)
    }

    /// Calls this at every event.
    pub fn on_all<A: Answer>(&self, observer: impl Fn(&Arc<E>) -> A + Send + Sync + 'static) -> Subscription {
        self.observe(None, observer)
    }

    fn observe<A: Answer, F: Fn(&Arc<E>) -> A + Send + Sync + 'static>(
        &self,
        name: Option<E::Name>,
        observer: F,
    ) -> Subscription {
        self.add(name, (short_name::<F>(), None), move |event| observer(event).failure())
    }

    fn add(
        &self,
        name: Option<E::Name>,
        (title, queue): (&'static str, Option<usize>),
        call: impl Fn(&Arc<E>) -> Option<String> + Send + Sync + 'static,
    ) -> Subscription {
        let tally = Arc::new(Tally::default());
        let call = Box::new(call);
        let observer = Arc::new(Observer { name, title, queue, tally: tally.clone(), call });
        self.0.push(observer.clone());
        let (shelf, observer) = (Arc::downgrade(&self.0), Arc::downgrade(&observer));
        let take_off = move || {
            if let (Some(shelf), Some(observer)) = (Weak::upgrade(&shelf), observer.upgrade()) {
                shelf.take_off(&observer);
            }
        };
        Subscription { tally, take_off: Arc::new(take_off) }
    }

    /// Who is told, in the order in which those of one event are.
    pub fn plan(&self) -> Vec<PlannedObserver<E::Name>> {
        let row = |observer: &Arc<Observer<E>>| PlannedObserver {
            of: observer.name,
            name: observer.title,
            queue: observer.queue,
        };
        let mut rows: Vec<_> = self.0.list().iter().map(row).collect();
        rows.sort_by_key(|row| row.of.is_none());
        rows
    }

    /// Whether there is anybody to tell.
    #[inline]
    pub fn is_heard(&self) -> bool {
        !self.0.is_empty()
    }

    /// Tells of an event: for sources of events. Hold no lock.
    pub fn tell(&self, event: &Arc<E>) {
        if !self.is_heard() {
            return;
        }
        let (observers, name) = (self.0.list(), event.name());
        let of_kind = observers.iter().filter(|observer| observer.name == Some(name));
        let of_all = observers.iter().filter(|observer| observer.name.is_none());
        for observer in of_kind.chain(of_all) {
            observer.tell(event);
        }
    }
}

impl<E: Observed> Observer<E> {
    fn tell(&self, event: &Arc<E>) {
        // Once it was removed no call of it begins, also where this event's list still has it.
        if self.tally.removed.load(SeqCst) {
            return;
        }
        self.tally.told.fetch_add(1, Relaxed);
        let failure = catch_unwind(AssertUnwindSafe(|| (self.call)(event)))
            .unwrap_or_else(|panic| Some(format!("it panicked: {}", panic_text(&*panic))));
        if let Some(why) = failure {
            self.tally.failed.fetch_add(1, Relaxed);
            tracing::warn!("an observer failed: {why}");
        }
    }
}

impl<E: Observed> fmt::Debug for Observers<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.list().len())
    }
}

/// An observer that was added. Dropping this leaves it where it is; clones are the same.
#[derive(Clone)]
pub struct Subscription {
    tally: Arc<Tally>,
    take_off: Arc<dyn Fn() + Send + Sync>,
}

impl Subscription {
    /// Removes the observer, and no other: no call of it begins any more. A second time does nothing. An observer may
    /// remove itself, or others, while it is told of something.
    pub fn remove(&self) {
        if !self.tally.removed.swap(true, SeqCst) {
            (self.take_off)();
        }
    }

    /// What became of its calls.
    pub fn stats(&self) -> ObserverStats {
        let (told, failed) = (self.tally.told.load(Relaxed), self.tally.failed.load(Relaxed));
        ObserverStats { told, failed }
    }

    /// Removes the observer when dropped.
    pub fn into_guard(self) -> SubscriptionGuard {
        SubscriptionGuard(self)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// Removes an observer when dropped, also on panic.
#[derive(Debug)]
#[must_use = "the observer is removed when this is dropped"]
pub struct SubscriptionGuard(Subscription);

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests;
