//! How far an uncut leg was at each place where others are cut.

use std::sync::atomic::Ordering::SeqCst;

use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use turnwright_core::CancelToken;
use turnwright_react_runtime::TurnEvent;

use super::{
    counts::{Counts, counts},
    cut::{Knife, Mode},
};

/// How far an uncut leg was at a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The poll the place is in, or before.
    pub(super) poll: usize,
    /// Whether the caller had its handle: before that nobody can cut.
    pub(super) has_handle: bool,
    /// Hook calls of this leg so far.
    pub(super) hooks: usize,
    /// Events of this leg so far, as of the start of the poll.
    pub(super) events: usize,
    pub(super) model_calls: usize,
    pub(super) counts: Counts,
    /// The turn's token was cancelled from inside: its deadline passed.
    pub(super) deadline: bool,
}

/// All places of a leg, and its events.
#[derive(Default)]
pub(super) struct Record {
    polls: Mutex<Vec<Place>>,
    commits: Mutex<Vec<Place>>,
    pub(super) events: Mutex<Vec<TurnEvent>>,
}

/// The places of a leg that was not cut.
pub(super) struct Places {
    pub(super) polls: Vec<Place>,
    pub(super) commits: Vec<Place>,
    /// How far it was at its end.
    pub(super) end: Place,
}

impl Knife {
    /// How far the leg is now.
    pub(super) fn place(&self) -> Place {
        let handle = self.handle.lock();
        let cancel = handle.as_ref().map(|h| h.context().cancel());
        Place {
            poll: self.polls.load(SeqCst).saturating_sub(1),
            has_handle: handle.is_some(),
            hooks: self.trace.calls().len(),
            events: self.record.events.lock().len(),
            model_calls: self.model.calls(),
            counts: counts(),
            deadline: cancel.is_some_and(CancelToken::is_cancelled),
        }
    }

    /// The places that were written down; this is the end.
    pub(super) fn places(&self) -> Places {
        let take = |places: &Mutex<Vec<Place>>| std::mem::take(&mut *places.lock());
        Places { polls: take(&self.record.polls), commits: take(&self.record.commits), end: self.place() }
    }

    /// Called before every poll.
    pub(super) fn note_poll(&self) {
        if self.mode == Mode::None {
            self.read_events();
            self.record.polls.lock().push(self.place());
        }
    }

    /// Called at the start of every commit.
    pub(super) fn note_commit(&self) {
        if self.mode == Mode::None {
            self.record.commits.lock().push(self.place());
        }
    }

    /// Takes the events that are there.
    pub(super) fn read_events(&self) {
        if let Some(handle) = &mut *self.handle.lock() {
            while let Some(Some(event)) = handle.next().now_or_never() {
                self.record.events.lock().push(event);
            }
        }
    }
}
