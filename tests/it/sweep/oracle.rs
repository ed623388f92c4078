//! What a cut must come to, told from how far the uncut leg was at that place.
//!
//! Up to the cut both legs are the same, so the uncut one says what a cut finds. The turn is decided when the last hook
//! of AFTER_TURN has answered: a later cut changes nothing. A leg that is parked is decided when the finalizer took
//! note. Everything cut before that ends as cancelled, whatever it would have come to.

use turnwright_hook::HookPoint;
use turnwright_react_runtime::TurnEventKind;

use super::{
    cut::Mode,
    leg::Report,
    place::Place,
    scenario::{HOOKS, Scenario},
};

/// A place in a leg, and how the leg is cut there.
pub(super) struct Cut<'a> {
    pub(super) scenario: Scenario,
    pub(super) mode: Mode,
    pub(super) k: usize,
    /// The legs before this one.
    pub(super) earlier: &'a [Report],
    /// The same leg, not cut.
    pub(super) dry: &'a Report,
}

/// How the leg must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Just as the uncut one.
    Own,
    /// Cut.
    Cut,
}

impl Cut<'_> {
    /// Where the cut acts.
    pub(super) fn here(&self) -> Place {
        let places = &self.dry.places;
        let list = if self.mode.is_at_commit() { &places.commits } else { &places.polls };
        list.get(self.k).copied().unwrap_or(places.end)
    }

    /// The first place at which the leg looks whether it is cut, at the latest: a poll looks before it does anything
    /// else, and what acts in mid-poll may not be seen before the next one.
    pub(super) fn seen(&self) -> Place {
        let here = self.here();
        if !self.mode.is_at_commit() {
            return here;
        }
        self.after_poll(here)
    }

    /// The place after the poll that this place is in, or before.
    fn after_poll(&self, place: Place) -> Place {
        self.dry.places.polls.get(place.poll + 1).copied().unwrap_or(self.dry.places.end)
    }

    /// How the leg must end.
    pub(super) fn end(&self) -> End {
        let (here, seen) = (self.here(), self.seen());
        if self.mode == Mode::None || !here.has_handle {
            return End::Own;
        }
        if self.dry.is_parked() {
            return if self.is_parking_settled() { End::Own } else { End::Cut };
        }
        // Work that is gone has said how it ended.
        if seen.counts.answered || seen.counts.work_is_gone() {
            return End::Own;
        }
        if self.mode.is_raised() {
            // The first control error counts: the turn's own is on its way out through the layers, which see both. An
            // interrupt drops those layers.
            if seen.counts.raised || seen.deadline {
                return End::Own;
            }
            // The command comes just before the poll that the deadline wakes: who looks for commands looks at the
            // clock first. One that comes in mid-poll wakes the leg itself, long before.
            if self.mode == Mode::Channel && self.after_poll(seen).deadline {
                return End::Own;
            }
        }
        End::Cut
    }

    /// Whether the parking can no longer be undone.
    fn is_parking_settled(&self) -> bool {
        let (here, seen) = (self.here(), self.seen());
        match self.mode {
            // Nothing looks any more; what was saved when the leg was parked stands.
            Mode::RuntimeDrop => here.counts.parked,
            // The finalizer asks the tokens itself, in its first commit: that is the last moment, and not the poll.
            Mode::TokenAtCommit | Mode::InterruptAtCommit => {
                let commits = &self.dry.places.commits;
                let first = commits.iter().position(|place| place.counts.work_is_gone());
                first.is_some_and(|first| self.k > first)
            }
            // A command is only found by a drain, and the finalizer makes none: it waits for the next leg.
            _ => seen.counts.work_is_gone(),
        }
    }

    /// How many model calls and tool bodies may have begun. A tool is entered, and a model is called, in the same step
    /// that asks the token.
    pub(super) fn may_have_begun(&self) -> (usize, usize) {
        let end = self.dry.places.end;
        let (here, seen) = (self.here(), self.seen());
        if self.end() != End::Cut {
            return (end.model_calls, end.counts.tools);
        }
        match self.mode {
            // An interrupt, and a command that nobody drains in between, are seen by the next poll.
            Mode::InterruptAtCommit | Mode::ChannelAtCommit => (seen.model_calls, seen.counts.tools),
            _ => (here.model_calls, here.counts.tools),
        }
    }

    /// Whether a part of an answer had been shown that was not history yet. The answer becomes history in the poll in
    /// which AFTER_LLM_RESPONSE begins.
    pub(super) fn cuts_an_answer(&self) -> bool {
        let seen = self.seen();
        // A whole answer that leaves through the layers arrives within the grace.
        if self.mode.is_raised() && seen.counts.returned {
            return false;
        }
        let last = self.dry.leg_trace[..seen.hooks].last();
        let events = &self.dry.kinds[..seen.events];
        let is_started = |kind: &TurnEventKind| matches!(kind, TurnEventKind::IterationStarted { .. });
        let from = events.iter().rposition(is_started).unwrap_or(0);
        last == Some(&(HookPoint::BeforeLlm, HOOKS - 1))
            && events[from..].iter().any(|kind| {
                matches!(kind, TurnEventKind::TextDelta { .. } | TurnEventKind::ReasoningDelta { .. })
            })
    }
}
