//! What the layers, tools and hooks of a leg note about it. Each sweep runs on one thread.

use std::cell::Cell;

use turnwright_core::AgentResult;
use turnwright_hook::{HookError, TurnAnswer, point::AfterTurn};

use super::scenario::Scenario;

/// The notes of a leg.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Bodies that are alive: layers and tools that began and did not end.
    pub(super) alive: usize,
    /// Bodies that began.
    begun: usize,
    /// Tool bodies that began.
    pub(super) tools: usize,
    /// The last hook of AFTER_TURN said that the turn may end.
    pub(super) answered: bool,
    /// A control error, raised inside, leaves through the layers.
    pub(super) raised: bool,
    /// The model call that was made last is over: its answer leaves through the layers, or has left.
    pub(super) returned: bool,
    /// The leg is saved at rest and leaves through the layers.
    pub(super) parked: bool,
}

impl Counts {
    /// Whether the work is gone, so that the finalizer comes next: the outermost layer is the first body and the last.
    pub(super) fn work_is_gone(self) -> bool {
        self.begun > 0 && self.alive == 0
    }
}

thread_local! {
    static LEG: Cell<Counts> = Cell::default();
}

pub(super) fn counts() -> Counts {
    LEG.get()
}

pub(super) fn reset() {
    LEG.set(Counts::default());
}

pub(super) fn note(change: impl FnOnce(&mut Counts)) {
    let mut counts = LEG.get();
    change(&mut counts);
    LEG.set(counts);
}

/// A body that is alive until this is dropped.
pub(super) struct Body;

impl Body {
    pub(super) fn begin() -> Self {
        note(|leg| {
            leg.begun += 1;
            leg.alive += 1;
        });
        Self
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        note(|leg| leg.alive -= 1);
    }
}

/// The last hook of AFTER_TURN. It answers in one poll, in which the machine hears of it: so a place knows whether the
/// turn is decided.
#[derive(Clone)]
pub(super) struct LastToAnswer(pub(super) Scenario);

impl AfterTurn for LastToAnswer {
    async fn after_turn(
        &self,
        _: &turnwright_core::TurnContext,
        result: &mut AgentResult,
    ) -> Result<TurnAnswer, HookError> {
        match self.0 {
            Scenario::Continues if result.attempts == 1 => return Ok(TurnAnswer::Continue),
            // The runtime asks for a repair.
            Scenario::Typed if result.attempts == 1 => return Ok(TurnAnswer::Done),
            _ => {}
        }
        note(|leg| leg.answered = true);
        Ok(TurnAnswer::Done)
    }
}
