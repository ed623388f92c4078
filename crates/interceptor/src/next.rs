//! The rest of a chain.

use std::{fmt, future::ready};

use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, TurnContext};

use crate::{
    CallState, Exit, Scope,
    erased::{DynAround, DynCore},
    registry::Entry,
};

/// The rest of the chain. Consumed by value: one call, or none.
#[must_use = "dropping `Next` without running it answers in the call's place"]
pub struct Next<'a, S: Scope> {
    pub(crate) rest: &'a [Entry<dyn DynAround<S>>],
    pub(crate) core: &'a dyn DynCore<S>,
    pub(crate) ctx: &'a TurnContext,
    pub(crate) call: &'a CallState<S>,
    /// The name of the layer this was given to.
    pub(crate) who: &'a str,
}

impl<'a, S: Scope> Next<'a, S> {
    /// Runs the rest of the chain and the call itself. An input that is not for this call (see
    /// [`Scope::check_input`]) is a failure, and nothing runs.
    ///
    /// # Cancel safety
    /// Dropping the future drops the call; what that loses is the call's matter.
    pub fn run(self, input: S::In) -> BoxFuture<'a, Result<S::Out, Exit>> {
        match self.call.refuse_input(self.who, &input) {
            None => step(self.rest, self.core, self.ctx, self.call, input),
            Some(refused) => Box::pin(ready(refused)),
        }
    }

    /// Trades the right to call once for the right to call again.
    ///
    /// # Errors
    /// [`Refused`] where a call must not be repeated; it hands `Next` back, so that the layer can still call once.
    pub fn replayable(self) -> Result<Replay<'a, S>, Refused<'a, S>> {
        match self.call.refusal() {
            None => Ok(Replay { next: self, used: false }),
            Some(why) => Err(Refused { why, next: self }),
        }
    }

    /// How often the call itself was entered so far.
    pub fn attempt(&self) -> u32 {
        self.call.attempt()
    }
}

/// The right to call the rest of the chain more than once, one attempt at a time.
pub struct Replay<'a, S: Scope> {
    next: Next<'a, S>,
    used: bool,
}

impl<S: Scope> Replay<'_, S> {
    /// Runs an attempt. Every attempt after the first is refused once output is visible or a control error passed. An
    /// input that is not for this call is a failure as in [`Next::run`], and no attempt.
    ///
    /// # Errors
    /// A refusal is a failure of kind [`ErrorKind::ReplayRefused`], in the tool scope too, so that whoever repeats can
    /// tell it from what the tool answered; or the control error that passed.
    ///
    /// # Cancel safety
    /// Dropping the future drops the attempt; a further one may follow.
    pub fn run(&mut self, input: S::In) -> BoxFuture<'_, Result<S::Out, Exit>> {
        let Next { rest, core, ctx, call, who } = self.next;
        if self.used
            && let Some(why) = call.refusal()
        {
            let refused = call.latched().unwrap_or_else(|| Exit::failed(ErrorKind::ReplayRefused, why));
            return Box::pin(ready(Err(refused)));
        }
        if let Some(refused) = call.refuse_input(who, &input) {
            return Box::pin(ready(refused));
        }
        self.used = true;
        step(rest, core, ctx, call, input)
    }

    /// How often the call itself was entered so far.
    pub fn attempt(&self) -> u32 {
        self.next.attempt()
    }

    /// Why a further attempt would be refused, if it would.
    pub fn refusal(&self) -> Option<&'static str> {
        self.next.call.refusal()
    }
}

impl<S: Scope> fmt::Debug for Next<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("of", &self.who).field("call", self.call).finish_non_exhaustive()
    }
}

impl<S: Scope> fmt::Debug for Replay<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("next", &self.next).field("used", &self.used).finish()
    }
}

/// A refusal to repeat.
pub struct Refused<'a, S: Scope> {
    why: &'static str,
    next: Next<'a, S>,
}

impl<'a, S: Scope> Refused<'a, S> {
    /// Why.
    pub fn why(&self) -> &'static str {
        self.why
    }

    /// The right to call once.
    pub fn into_next(self) -> Next<'a, S> {
        self.next
    }

    /// The refusal as an error.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(ErrorKind::ReplayRefused, self.why)
    }
}

impl<S: Scope> fmt::Debug for Refused<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.why).finish()
    }
}

pub(crate) fn step<'a, S: Scope>(
    layers: &'a [Entry<dyn DynAround<S>>],
    core: &'a dyn DynCore<S>,
    ctx: &'a TurnContext,
    call: &'a CallState<S>,
    input: S::In,
) -> BoxFuture<'a, Result<S::Out, Exit>> {
    match layers.split_first() {
        Some((first, rest)) => {
            first.layer.dyn_around(ctx, input, Next { rest, core, ctx, call, who: &first.name })
        }
        None => core.dyn_call(ctx, input, call),
    }
}
