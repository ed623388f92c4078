//! What a tool may return instead of an output.

use std::error::Error;

use turnwright_control::ControlError;
use turnwright_core::{ApprovalRequest, ErrorInfo, ErrorKind, Wants, error::with_causes};

/// Why a call has no output. Not itself an `Error`, so that `?` takes every error: a plain one goes back to the model,
/// a [`ControlError`] among its causes ends the turn with its stop reason.
#[derive(Debug)]
pub struct ToolError(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    /// Goes back to the model.
    Model(ErrorInfo),
    /// Ends the turn as failed.
    Abort(ErrorInfo),
    /// Ends the turn with its own reason.
    Control(ControlError),
    /// The call waits for somebody outside.
    Waits(Wants),
    /// Agents that the call started ask.
    Asks(Vec<ApprovalRequest>),
    /// The turn is asked to stop, and the call did.
    Stopped,
}

impl ToolError {
    /// An error for the model, in words it can act on.
    pub fn model(message: impl Into<String>) -> Self {
        Self::info(ErrorInfo::new(ErrorKind::ToolFailed, message))
    }

    /// An error for the model with a kind and retry advice of its own, which layers decide on.
    pub fn info(error: ErrorInfo) -> Self {
        Self(Kind::Model(error))
    }

    /// The call waits for an answer of the user, who may choose one of `choices`, or say anything when there are none. The
    /// turn suspends; [`crate::Session::answer`] gives the answer, which becomes the call's result. The tool does not run
    /// again.
    pub fn ask(question: impl Into<String>, choices: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let choices = choices.into_iter().map(Into::into).collect();
        Self(Kind::Waits(Wants::Answer { question: question.into(), choices }))
    }

    /// The call began something that is completed outside, whenever that may be. The turn suspends, once the other calls of
    /// its answer are done; [`crate::Session::complete`] gives the result. The tool does not run again.
    pub fn later() -> Self {
        Self(Kind::Waits(Wants::Result))
    }

    /// An agent that the call started waits for these decisions: what [`crate::Session::pending`] says of its session. The
    /// turn suspends and asks them as its own, each under the id of the call with a slash and its own id behind it. When
    /// some are decided and the turn is resumed, the tool is entered again, with the same arguments and
    /// [`crate::tool::ToolContext::decisions`]; so it must find what it had started. Nobody decides at this turn what
    /// becomes of the call itself.
    ///
    /// With no request at all it is an error for the model.
    pub fn asks(requests: Vec<ApprovalRequest>) -> Self {
        match requests.is_empty() {
            true => Self::model("waits for decisions, and names none"),
            false => Self(Kind::Asks(requests)),
        }
    }

    /// The turn is asked to stop at its next step boundary ([`turnwright_core::TurnContext::is_drain_requested`]), and the call
    /// has stopped on its way: for long work that can be taken up again. The turn stops with the call open, and the tool is
    /// entered again when it goes on. Where nobody asked the turn to stop it is an error for the model.
    pub fn stopped() -> Self {
        Self(Kind::Stopped)
    }

    /// An error that ends the turn as failed: for faults the model can do nothing about.
    pub fn abort(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self(match error.downcast::<ErrorInfo>() {
            Ok(info) => Kind::Abort(*info),
            Err(other) => Kind::Abort(ErrorInfo::new(ErrorKind::ToolFailed, with_causes(&*other))),
        })
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(e: E) -> Self {
        if let Some(control) = ControlError::find_in(&e) {
            return Self(Kind::Control(control.clone()));
        }
        match (&e as &(dyn Error + 'static)).downcast_ref::<ErrorInfo>() {
            Some(info) => Self::info(info.clone()),
            // A model can only act on what it is told: the causes too.
            None => Self::model(with_causes(&e)),
        }
    }
}

/// Turns an error into one that ends the turn: `db.query().or_abort()?`.
pub trait OrAbort<T> {
    /// The value, or an error that ends the turn as failed.
    ///
    /// # Errors
    /// [`ToolError::abort`] of the error.
    fn or_abort(self) -> Result<T, ToolError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrAbort<T> for Result<T, E> {
    fn or_abort(self) -> Result<T, ToolError> {
        self.map_err(ToolError::abort)
    }
}
