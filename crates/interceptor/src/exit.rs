//! What a layer returns instead of an output.

use std::{error::Error, fmt};

use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind};

/// Why a call has no output. Not itself an `Error`, so that `?` takes every error; a [`ControlError`] or an
/// [`ErrorInfo`] among them stays what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// An intentional exit from the turn: passes through every layer.
    Control(ControlError),
    /// A failure of the wrapped call, or of a layer.
    Failed(ErrorInfo),
}

impl Exit {
    /// A failure.
    pub fn failed(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(ErrorInfo::new(kind, message))
    }

    /// The same as error data.
    pub fn info(&self) -> ErrorInfo {
        match self {
            Self::Control(control) => control.info(),
            Self::Failed(error) => error.clone(),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Exit {
    fn from(e: E) -> Self {
        let boxed: Box<dyn Error + Send + Sync> = Box::new(e);
        match boxed.downcast::<ControlError>() {
            Ok(control) => Self::Control(*control),
            Err(other) => match other.downcast::<ErrorInfo>() {
                Ok(info) => Self::Failed(*info),
                Err(other) => Self::failed(ErrorKind::Interceptor, other.to_string()),
            },
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control(e) => e.fmt(f),
            Self::Failed(e) => e.fmt(f),
        }
    }
}
