//! What a layer returns instead of an output.

use std::{error::Error, fmt};

use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind, error::with_causes};

/// Why a call has no output. Not itself an `Error`, so that `?` takes every error: a [`ControlError`] anywhere among
/// its causes is what comes out, an [`ErrorInfo`] stays what it is, and any other error is a failure of the layer whose
/// message ends with its causes.
///
/// A cause is what [`Error::source`] shows. An error that stands for another (`#[error(transparent)]`) shows the causes
/// of that one and not the one itself: return a control error in such a wrapper as [`Exit::Control`].
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
        if let Some(control) = ControlError::find_in(&e) {
            return Self::Control(control.clone());
        }
        match (&e as &(dyn Error + 'static)).downcast_ref::<ErrorInfo>() {
            Some(info) => Self::Failed(info.clone()),
            None => Self::failed(ErrorKind::Interceptor, with_causes(&e)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::RetryAdvice;

    fn by_question_mark<E: Error + Send + Sync + 'static>(e: E) -> Exit {
        let fails = || -> Result<(), Exit> { Err(e)? };
        fails().unwrap_err()
    }

    #[test]
    fn a_control_error_stays_a_control_error() {
        let control = ControlError::policy_violation("no shell").user_content("I may not.");
        let exit = by_question_mark(control.clone());
        assert_eq!(exit, Exit::Control(control.clone()));
        assert_eq!((exit.info(), exit.to_string()), (control.info(), control.to_string()));
    }

    #[test]
    fn error_data_keeps_its_kind_and_retry_advice() {
        let info = ErrorInfo::new(ErrorKind::Server, "down").retry(RetryAdvice::Never).provider("p");
        let exit = by_question_mark(info.clone());
        assert_eq!(exit, Exit::Failed(info.clone()));
        assert_eq!((exit.info(), exit.to_string()), (info, "p: down".into()));
    }

    #[test]
    fn any_other_error_is_a_failure_of_the_layer_that_is_not_retried() {
        let exit = by_question_mark("x".parse::<u8>().unwrap_err());
        assert_eq!(exit, Exit::failed(ErrorKind::Interceptor, "invalid digit found in string"));
        assert!(!exit.info().is_retryable());
    }

    #[test]
    fn an_exit_passes_through_the_question_mark_unchanged() {
        let exit = Exit::failed(ErrorKind::Denied, "no");
        let fails = || -> Result<(), Exit> { Err(exit.clone())? };
        assert_eq!(fails().unwrap_err(), exit);
    }
}
