//! How a call ended.

use turnwright_control::ControlError;
use turnwright_core::{CancelCause, ErrorInfo};

/// How a call ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended<'a, T> {
    /// It returned this. A result that says of itself that it is an error is one all the same.
    Done(&'a T),
    /// It failed.
    Failed(&'a ErrorInfo),
    /// It left with a control error that is no cancel: a policy, a budget, a loop, a time limit.
    Left(&'a ControlError),
    /// It was cancelled, or dropped by whoever waited for it: a time limit around it, an interrupt, a sibling that failed. The
    /// cause, where the turn was cancelled.
    Cancelled(Option<CancelCause>),
    /// It panicked.
    Panicked,
}

impl<T> Clone for Ended<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Done(value) => Self::Done(value),
            Self::Failed(error) => Self::Failed(error),
            Self::Left(control) => Self::Left(control),
            Self::Cancelled(cause) => Self::Cancelled(cause.clone()),
            Self::Panicked => Self::Panicked,
        }
    }
}

impl<T> Ended<'_, T> {
    /// In one word: `done`, `failed`, `left`, `cancelled` or `panicked`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
            Self::Left(_) => "left",
            Self::Cancelled(_) => "cancelled",
            Self::Panicked => "panicked",
        }
    }
}

/// What an error of a call is: for runtimes, whose error types are their own.
#[derive(Debug, Clone, Copy)]
pub enum Failure<'a> {
    /// It failed.
    Failed(&'a ErrorInfo),
    /// It is left on purpose.
    Control(&'a ControlError),
}

impl<'a, T> From<Failure<'a>> for Ended<'a, T> {
    fn from(failure: Failure<'a>) -> Self {
        match failure {
            Failure::Failed(error) => Self::Failed(error),
            Failure::Control(control) => match control.cause() {
                Some(cause) => Self::Cancelled(Some(cause.clone())),
                None => Self::Left(control),
            },
        }
    }
}
