//! Answers as values of a Rust type.
//!
//! The model is asked for JSON of the type's schema, in its format's own way or by a tool of which the call is the
//! answer. When the turn would end with an answer that does not fit, the runtime tells the model what is wrong, in the
//! same history, and lets the turn go on. What is left at its end is read into the type.

mod check;
mod form;
mod turn;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use turnwright_core::{AgentResult, ApprovalRequest};
use turnwright_llm_stream::ModelHandle;

pub(crate) use check::AnswerCheck;
pub use turn::TypedTurn;

use crate::{Agent, Input, Parent, StartError};

/// A value that a turn answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed<T> {
    /// The value.
    pub value: T,
    /// What the turn came to: the text it was read from, usage, iterations.
    pub result: AgentResult,
}

/// Why there is no value. Nothing is lost: what the model said last is in the result, and all of it in the history.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The turn was not started.
    #[error(transparent)]
    NotStarted(#[from] StartError),
    /// The answer does not fit the type, and no repair is left.
    #[error("the answer does not fit the type: {fault}")]
    Invalid {
        /// What is wrong with it.
        fault: String,
        /// What the turn came to; its content is the answer.
        result: Box<AgentResult>,
    },
    /// The answer was cut by the model's output limit: raise it, or ask for less.
    #[error("the answer was cut by the model's output limit")]
    Truncated {
        /// What the turn came to; its content is as much as there is of the answer.
        result: Box<AgentResult>,
    },
    /// The model declined, or a content filter cut the answer; the result's error says which.
    #[error("the model gave no answer: {}", reason(result))]
    Refused {
        /// What the turn came to; its content is what the model said instead.
        result: Box<AgentResult>,
    },
    /// The model said nothing.
    #[error("the answer is empty")]
    Empty {
        /// What the turn came to.
        result: Box<AgentResult>,
    },
    /// The turn ended in another way: cancelled, timed out, failed, or at a limit. The result says which.
    #[error("the turn did not complete: {}", reason(result))]
    NotCompleted {
        /// What the turn came to.
        result: Box<AgentResult>,
    },
    /// The turn waits for decisions: decide, and go on with [`crate::Session::resume_typed`].
    #[error("the turn waits for {} decisions", pending.len())]
    Suspended {
        /// What is asked.
        pending: Vec<ApprovalRequest>,
    },
    /// The turn stopped at a step boundary: go on with [`crate::Session::resume_typed`].
    #[error("the turn was drained")]
    Drained,
}

fn reason(result: &AgentResult) -> String {
    match &result.error {
        Some(error) => error.to_string(),
        None => format!("{:?}", result.stop_reason),
    }
}

impl TypedError {
    /// What the turn came to, if it is over.
    pub fn result(&self) -> Option<&AgentResult> {
        match self {
            Self::Invalid { result, .. }
            | Self::Truncated { result }
            | Self::Refused { result }
            | Self::Empty { result }
            | Self::NotCompleted { result } => Some(result),
            Self::NotStarted(_) | Self::Suspended { .. } | Self::Drained => None,
        }
    }
}

/// How a typed answer is asked for.
#[derive(Debug, Clone, Default)]
pub struct TypedOptions {
    repairs: Option<u32>,
    by_tool: bool,
    parent: Parent,
}

impl TypedOptions {
    /// Repairs when nothing is said.
    pub const DEFAULT_REPAIRS: u32 = 2;

    /// How often a turn may tell the model what is wrong with its answer: [`TypedOptions::DEFAULT_REPAIRS`] times when
    /// nothing is said. Each is a further attempt of the turn, so that [`crate::machine::Limits::attempts`] bounds them
    /// too, and its model calls count as any other.
    #[must_use]
    pub fn repairs(mut self, repairs: u32) -> Self {
        self.repairs = Some(repairs);
        self
    }

    /// Asks for the answer by a tool also where the model's format has a way of its own: for servers that copy a format
    /// and not this part of it.
    #[must_use]
    pub fn by_tool(mut self) -> Self {
        self.by_tool = true;
        self
    }

    /// Runs as a part of larger work: see [`crate::Session::start_under`].
    #[must_use]
    pub fn under(mut self, parent: impl Into<Parent>) -> Self {
        self.parent = parent.into();
        self
    }
}

/// Asks a model one question and reads the answer into a type: an agent without tools, for one turn. Where the answer
/// does not fit, the model is told what is wrong, twice at most. For instructions, settings, tools, or the events, build
/// an [`Agent`] and use [`Agent::run_typed`].
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// # use futures::{Stream, stream};
/// # use turnwright_core::TurnContext;
/// # use turnwright_llm_stream::{FinishReason, LlmClient, LlmEvent, LlmRequest, ModelHandle, StreamItem};
/// use turnwright_react_runtime::generate;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct City {
///     name: String,
///     /// In millions.
///     population: f64,
/// }
/// # struct Model;
/// # impl LlmClient for Model {
/// #     fn provider(&self) -> &str { "example" }
/// #     fn stream(&self, _: &TurnContext, _: &LlmRequest) -> impl Stream<Item = StreamItem> + Send + 'static {
/// #         let answer = LlmEvent::text(r#"{ "name": "Rome", "population": 2.8 }"#);
/// #         stream::iter([answer, LlmEvent::finish(FinishReason::Stop)].map(StreamItem::from))
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let model = ModelHandle::new(Model, "m");
///
/// let city = generate::<City>(&model, "What is the capital of Italy?").await?.value;
/// assert_eq!(city.name, "Rome");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`TypedError`].
///
/// # Cancel safety
/// Dropped, it interrupts the turn; what the model had said is lost.
pub async fn generate<T>(model: &ModelHandle, input: impl Into<Input>) -> Result<Typed<T>, TypedError>
where
    T: DeserializeOwned + JsonSchema,
{
    let agent = Agent::builder("generate", model.clone()).build();
    let agent = agent.map_err(|e| StartError::Spawn(e.to_string()))?;
    agent.run_typed::<T>(input)?.answer().await
}
