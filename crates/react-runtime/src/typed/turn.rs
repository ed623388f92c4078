//! Typed turns: starting them, and their answer.

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use turnwright_core::{AgentResult, ErrorKind, LegOutcome, StopReason};

use super::{AnswerCheck, Typed, TypedError, TypedOptions, form::Form};
use crate::{Agent, Input, Parent, Session, StartError, TurnEvent, TurnHandle};

/// A leg that runs and whose answer is a `T`: a [`TurnHandle`] that can be asked for the value. Everything else is as for
/// any turn: its events, its control, its result, and that dropping it interrupts the turn.
#[must_use = "dropping the handle interrupts the turn"]
pub struct TypedTurn<T> {
    handle: TurnHandle,
    form: Arc<Form>,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> TypedTurn<T> {
    /// Waits until the leg is over, and for the value. Needs nobody to read the events.
    ///
    /// The value is read from the result's content, as the hooks of FINALIZE_CONTENT left it.
    ///
    /// # Errors
    /// [`TypedError`]: the turn is over without an answer that fits, or the leg is and the turn waits.
    ///
    /// # Cancel safety
    /// Safe: ask again.
    pub async fn answer(&mut self) -> Result<Typed<T>, TypedError> {
        let result = match self.handle.outcome().await {
            LegOutcome::Finished(result) => result,
            LegOutcome::Suspended { pending } => return Err(TypedError::Suspended { pending }),
            LegOutcome::Drained => return Err(TypedError::Drained),
        };
        match unanswered(&result) {
            None => {}
            Some(Unanswered::Truncated) => return Err(TypedError::Truncated { result }),
            Some(Unanswered::Refused) => return Err(TypedError::Refused { result }),
            Some(Unanswered::Empty) => return Err(TypedError::Empty { result }),
            Some(Unanswered::Other) => return Err(TypedError::NotCompleted { result }),
        }
        match self.form.read(&result.content) {
            Ok(value) => Ok(Typed { value, result: *result }),
            Err(fault) => Err(TypedError::Invalid { fault, result }),
        }
    }
}

impl<T> TypedTurn<T> {
    /// The turn as any other.
    pub fn into_handle(self) -> TurnHandle {
        self.handle
    }
}

enum Unanswered {
    Truncated,
    Refused,
    Empty,
    Other,
}

fn unanswered(result: &AgentResult) -> Option<Unanswered> {
    let kind = result.error.as_ref().map(|error| error.kind);
    match (result.stop_reason, kind) {
        (StopReason::Completed, _) if result.content.trim().is_empty() => Some(Unanswered::Empty),
        (StopReason::Completed, _) => None,
        (StopReason::MaxTokens, _) => Some(Unanswered::Truncated),
        (_, Some(ErrorKind::Refusal | ErrorKind::ContentFilter)) => Some(Unanswered::Refused),
        (_, Some(ErrorKind::EmptyResponse)) => Some(Unanswered::Empty),
        _ => Some(Unanswered::Other),
    }
}

impl<T> Deref for TypedTurn<T> {
    type Target = TurnHandle;
    fn deref(&self) -> &TurnHandle {
        &self.handle
    }
}

impl<T> DerefMut for TypedTurn<T> {
    fn deref_mut(&mut self) -> &mut TurnHandle {
        &mut self.handle
    }
}

impl<T> Stream for TypedTurn<T> {
    type Item = TurnEvent;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        Pin::new(&mut self.handle).poll_next(cx)
    }
}

impl<T> std::fmt::Debug for TypedTurn<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedTurn").field(&self.handle).finish()
    }
}

/// Starts a leg under a token, held to a check.
type Start<'a> = &'a dyn Fn(&Parent, Option<Arc<AnswerCheck>>) -> Result<TurnHandle, StartError>;

fn typed<T>(options: &TypedOptions, start: Start<'_>) -> Result<TypedTurn<T>, StartError>
where
    T: DeserializeOwned + JsonSchema,
{
    let form = Arc::new(Form::of::<T>());
    let check = Arc::new(AnswerCheck::new::<T>(form.clone(), options));
    Ok(TypedTurn { handle: start(&options.parent, Some(check))?, form, value: PhantomData })
}

impl Session {
    /// Starts a turn whose answer is a `T`. As [`Session::start`], and:
    ///
    /// - The model is asked for JSON of the type's schema, in the way of its client's format, or by a tool of which the
    ///   call is the answer ([`turnwright_llm_stream::AnswerTool`]). Tools of the agent are called as in any turn.
    /// - An answer that cannot be read into the type, or that was cut, is not the end: the model is told what is wrong,
    ///   in the same history, and the turn makes a further attempt, [`TypedOptions::DEFAULT_REPAIRS`] times at most.
    /// - The type may be any that `serde` reads and `schemars` describes; one that is no object is asked for inside of
    ///   one. JSON in a fence or among words is found. As for arguments of tools, what is checked is that it can be read:
    ///   bounds in the schema tell the model only.
    ///
    /// The turn's outcome is what it is without a type: `completed` also with an answer that does not fit.
    ///
    /// # Errors
    /// [`StartError`]; the session is as it was.
    pub fn start_typed<T>(&self, input: impl Into<Input>) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.start_typed_with(input, &TypedOptions::default())
    }

    /// As [`Session::start_typed`], with these options.
    ///
    /// # Errors
    /// [`StartError`]; the session is as it was.
    pub fn start_typed_with<T>(
        &self,
        input: impl Into<Input>,
        options: &TypedOptions,
    ) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let input = input.into();
        typed(options, &|parent, check| self.start_run(parent, input.clone(), check))
    }

    /// Starts the next leg of the suspended or drained turn, whose answer is a `T`: the type is no part of what is
    /// stored, so say it again. Repairs that earlier legs made count. [`Session::resume`] goes on without a type.
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn resume_typed<T>(&self) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.resume_typed_with(&TypedOptions::default())
    }

    /// As [`Session::resume_typed`], with these options.
    ///
    /// # Errors
    /// [`StartError`]; the turn is as it was.
    pub fn resume_typed_with<T>(&self, options: &TypedOptions) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        typed(options, &|parent, check| self.next_leg(parent, None, check))
    }
}

impl Agent {
    /// Runs one turn in a new session, and its answer is a `T`: see [`Session::start_typed`].
    ///
    /// # Errors
    /// [`StartError`] when it could not be started.
    pub fn run_typed<T>(&self, input: impl Into<Input>) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.new_session().start_typed(input)
    }

    /// As [`Agent::run_typed`], with these options.
    ///
    /// # Errors
    /// [`StartError`] when it could not be started.
    pub fn run_typed_with<T>(
        &self,
        input: impl Into<Input>,
        options: &TypedOptions,
    ) -> Result<TypedTurn<T>, StartError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.new_session().start_typed_with(input, options)
    }
}
