//! What a hook may return, and the record of a hook that failed.

use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use turnwright_control::ControlError;

use crate::HookPoint;

/// Why a hook did not succeed. Not itself an `Error`, so that `?` takes every error; a [`ControlError`] among them
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
        let boxed: Box<dyn Error + Send + Sync> = Box::new(e);
        match boxed.downcast::<ControlError>() {
            Ok(control) => Self(Kind::Control(*control)),
            Err(other) => Self(Kind::Failed(other)),
        }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Control(e) => e.fmt(f),
            Kind::Failed(e) => e.fmt(f),
        }
    }
}

/// How a hook failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// The record of one failed hook call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
