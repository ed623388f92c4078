//! The state of one call through a chain.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::*},
    },
};

use turnwright_control::ControlError;
use turnwright_core::ErrorInfo;

use crate::{Exit, Scope};

/// The state of one call through a chain; shared by its layers and its core.
pub struct CallState<S: Scope> {
    key: S::Key,
    control: OnceLock<ControlError>,
    visible: AtomicBool,
    no_replay: Option<&'static str>,
    attempts: AtomicU32,
    gating: bool,
}

impl<S: Scope> CallState<S> {
    pub(crate) fn new(key: S::Key, no_replay: Option<&'static str>, gating: bool) -> Self {
        let no_replay =
            if S::REPLAYABLE { no_replay } else { Some("this scope drives the turn and runs once") };
        Self {
            key,
            control: OnceLock::new(),
            visible: AtomicBool::new(false),
            no_replay,
            attempts: AtomicU32::new(0),
            gating,
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

    /// For cores: whether a layer of this call may change a finished answer, so that what is streamed must be withheld
    /// until the chain returns. Of the very layers this call runs with, whatever is registered meanwhile.
    pub fn is_gating(&self) -> bool {
        self.gating
    }

    pub(crate) fn enter(&self) {
        self.attempts.fetch_add(1, Relaxed);
    }

    /// The control error that passed, if one did.
    pub(crate) fn latched(&self) -> Option<Exit> {
        self.control.get().cloned().map(Exit::Control)
    }

    /// What a layer gets that hands on an input of another call: settled as any failure.
    pub(crate) fn refuse_input(&self, who: &str, input: &S::In) -> Option<Result<S::Out, Exit>> {
        let wrong = S::check_input(&self.key, input).err()?;
        Some(self.settle(who, Err(Exit::Failed(blame(who, wrong)))))
    }

    /// What leaves a layer. Once a control error passed, nothing but it comes out.
    #[inline]
    pub(crate) fn settle(&self, who: &str, out: Result<S::Out, Exit>) -> Result<S::Out, Exit> {
        if let Some(control) = self.latched() {
            return Err(control);
        }
        let failed = match out {
            Err(Exit::Control(control)) => {
                let first = self.control.get_or_init(|| control);
                return Err(Exit::Control(first.clone()));
            }
            Ok(out) => match S::check(&self.key, &out) {
                Ok(()) => return Ok(out),
                Err(wrong) => blame(who, wrong),
            },
            Err(Exit::Failed(error)) => error,
        };
        S::settle(&self.key, failed).map_err(Exit::Failed)
    }

    pub(crate) fn refusal(&self) -> Option<&'static str> {
        if self.control.get().is_some() {
            Some("a control error passed")
        } else if self.visible.load(Acquire) {
            Some("output is visible already")
        } else {
            self.no_replay
        }
    }
}

impl<S: Scope> fmt::Debug for CallState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallState")
            .field("scope", &S::NAME)
            .field("attempt", &self.attempt())
            .field("gating", &self.gating)
            .field("refusal", &self.refusal())
            .finish_non_exhaustive()
    }
}

/// A broken contract, with the name of who broke it.
fn blame(who: &str, mut error: ErrorInfo) -> ErrorInfo {
    error.message = format!("{who}: {}", error.message);
    error
}
