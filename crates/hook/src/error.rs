//! What a hook may return, and the record of a hook that failed.

use std::{error::Error, fmt, time::Duration};

use serde::{Serialize, Serializer};
use turnwright_control::ControlError;
use turnwright_core::error::with_causes;

use crate::HookPoint;

/// Why a hook did not succeed. Not itself an `Error`, so that `?` takes every error; a [`ControlError`] among its causes
/// stays one.
#[derive(Debug)]
pub struct HookError(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Control(ControlError),
    Failed(Box<dyn Error + Send + Sync>),
}

impl HookError {
    /// A failure with these words.
    pub fn msg(message: impl Into<String>) -> Self {
        Self(Kind::Failed(message.into().into()))
    }

    /// The control error, if it is one.
    pub fn control(&self) -> Option<&ControlError> {
        match &self.0 {
            Kind::Control(e) => Some(e),
            Kind::Failed(_) => None,
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HookError {
    fn from(e: E) -> Self {
        match ControlError::find_in(&e) {
            Some(control) => Self(Kind::Control(control.clone())),
            None => Self(Kind::Failed(Box::new(e))),
        }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Control(e) => e.fmt(f),
            Kind::Failed(e) => f.write_str(&with_causes(&**e)),
        }
    }
}

/// How a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookFailureKind {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
    /// It did not finish within this time.
    Timeout(Duration),
    /// It raised a control error while the turn was unwinding, where none is obeyed.
    ControlWhileUnwinding,
}

impl HookFailureKind {
    /// The name in events, for example `timeout`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout(_) => "timeout",
            Self::ControlWhileUnwinding => "control_while_unwinding",
        }
    }
}

impl Serialize for HookFailureKind {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

/// The record of one failed hook call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookFailure {
    /// The hook's name.
    pub hook: String,
    /// Where it failed.
    pub point: HookPoint,
    /// How.
    pub kind: HookFailureKind,
    /// In words.
    pub message: String,
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hook, point, kind, message } = self;
        match kind {
            HookFailureKind::Error => write!(f, "hook {hook:?} failed at {point}: {message}"),
            HookFailureKind::Panic => write!(f, "hook {hook:?} panicked at {point}: {message}"),
            HookFailureKind::Timeout(limit) => {
                write!(f, "hook {hook:?} timed out at {point} after {limit:?}")
            }
            HookFailureKind::ControlWhileUnwinding => {
                write!(f, "hook {hook:?} raised a control error at {point} of an unwinding turn: {message}")
            }
        }
    }
}
