//! The rest of a chain, and the state of one call through it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU32, Ordering::*},
};

use turnwright_control::ControlError;
use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, TurnContext};

use crate::{
    Exit, Scope,
    chain::{DynAround, DynCore},
};

/// The state of one call through a chain; shared by its layers and its core.
pub struct CallState<S: Scope> {
    key: S::Key,
    control: OnceLock<ControlError>,
    visible: AtomicBool,
    no_replay: Option<&'static str>,
    attempts: AtomicU32,
}

impl<S: Scope> CallState<S> {
    pub(crate) fn new(key: S::Key, no_replay: Option<&'static str>) -> Self {
        let no_replay =
            if S::REPLAYABLE { no_replay } else { Some("this scope drives the turn and runs once") };
        Self {
            key,
            control: OnceLock::new(),
            visible: AtomicBool::new(false),
            no_replay,
            attempts: AtomicU32::new(0),
        }
    }

    /// For cores: output of this call became visible, so it must not be repeated.
    pub fn mark_visible(&self) {
        self.visible.store(true, Release);
    }

    /// How often the core was entered.
    pub fn attempt(&self) -> u32 {
        self.attempts.load(Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.attempts.fetch_add(1, Relaxed);
    }

    /// What leaves a layer. Once a control error passed, nothing but it comes out.
    pub(crate) fn settle(&self, out: Result<S::Out, Exit>) -> Result<S::Out, Exit> {
        if let Some(control) = self.control.get() {
            return Err(Exit::Control(control.clone()));
        }
        let failed = match out {
            Err(Exit::Control(control)) => {
                let first = self.control.get_or_init(|| control);
                return Err(Exit::Control(first.clone()));
            }
            Ok(out) => match S::check(&self.key, &out) {
                Ok(()) => return Ok(out),
                Err(wrong) => wrong,
            },
            Err(Exit::Failed(error)) => error,
        };
        S::settle(&self.key, failed).map_err(Exit::Failed)
    }

    fn refusal(&self) -> Option<&'static str> {
        if self.control.get().is_some() {
            Some("a control error passed")
        } else if self.visible.load(Acquire) {
            Some("output is visible already")
        } else {
            self.no_replay
        }
    }
}

/// The rest of the chain. Consumed by value: one call, or none.
#[must_use = "dropping `Next` without running it answers in the call's place"]
pub struct Next<'a, S: Scope> {
    pub(crate) rest: &'a [Arc<dyn DynAround<S>>],
    pub(crate) core: &'a dyn DynCore<S>,
    pub(crate) ctx: &'a TurnContext,
    pub(crate) call: &'a CallState<S>,
}

impl<'a, S: Scope> Next<'a, S> {
    /// Runs the rest of the chain and the call itself.
    ///
    /// # Cancel safety
    /// Dropping the future drops the call; what that loses is the call's matter.
    pub fn run(self, input: S::In) -> BoxFuture<'a, Result<S::Out, Exit>> {
        step(self.rest, self.core, self.ctx, self.call, input)
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
    /// Runs an attempt. Every attempt after the first is refused (as a failure of kind
    /// [`ErrorKind::ReplayRefused`]) once output is visible or a control error passed.
    pub fn run(&mut self, input: S::In) -> BoxFuture<'_, Result<S::Out, Exit>> {
        let again = std::mem::replace(&mut self.used, true);
        let Next { rest, core, ctx, call } = self.next;
        match call.refusal() {
            Some(why) if again => {
                let refused = call.settle(Err(Exit::failed(ErrorKind::ReplayRefused, why)));
                Box::pin(std::future::ready(refused))
            }
            _ => step(rest, core, ctx, call, input),
        }
    }

    /// Why a further attempt would be refused, if it would.
    pub fn refusal(&self) -> Option<&'static str> {
        self.next.call.refusal()
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

impl<S: Scope> std::fmt::Debug for Refused<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Refused").field(&self.why).finish()
    }
}

pub(crate) fn step<'a, S: Scope>(
    rest: &'a [Arc<dyn DynAround<S>>],
    core: &'a dyn DynCore<S>,
    ctx: &'a TurnContext,
    call: &'a CallState<S>,
    input: S::In,
) -> BoxFuture<'a, Result<S::Out, Exit>> {
    match rest.split_first() {
        Some((layer, rest)) => layer.dyn_around(ctx, input, Next { rest, core, ctx, call }),
        None => core.dyn_call(ctx, input, call),
    }
}
