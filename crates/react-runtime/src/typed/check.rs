//! What a turn is held to while it runs.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use turnwright_core::{AgentResult, StateKey, StopReason, TurnState};
use turnwright_llm_stream::OutputSchema;

use super::{TypedOptions, form::Form};

/// Repairs that the turn has made, over all its legs.
const REPAIRS: StateKey<u32> = StateKey::new("turnwright.typed/repairs", 1);

/// The form that a turn's answer must have, its type forgotten.
pub(crate) struct AnswerCheck {
    pub(crate) output: Arc<OutputSchema>,
    repairs: u32,
    fault: Box<Fault>,
}

/// What is wrong with a text, if anything is.
type Fault = dyn Fn(&str) -> Option<String> + Send + Sync;

impl AnswerCheck {
    /// Who complains, as the history says.
    pub(crate) const ORIGIN: &str = "typed_answer";

    pub(super) fn new<T: DeserializeOwned + JsonSchema>(form: Arc<Form>, options: &TypedOptions) -> Self {
        let output = OutputSchema { by_tool: options.by_tool, ..form.output.clone() };
        Self {
            output: Arc::new(output),
            repairs: options.repairs.unwrap_or(TypedOptions::DEFAULT_REPAIRS),
            fault: Box::new(move |text| form.read::<T>(text).err()),
        }
    }

    /// What the model is told of an answer that is none. None when it is one, and when no words would help.
    pub(crate) fn complaint(&self, result: &AgentResult) -> Option<String> {
        let what = match result.stop_reason {
            StopReason::Completed => {
                let fault = (self.fault)(&result.content)?;
                format!("Your answer does not have the form that is asked for: {fault}.")
            }
            StopReason::MaxTokens => "Your answer was cut, since it is too long. Be brief.".into(),
            _ => return None,
        };
        let schema = &self.output.schema;
        Some(format!(
            "{what} Answer again, whole, with nothing but one JSON object of this JSON schema: {schema}"
        ))
    }

    /// Counts a repair, if one is left.
    pub(crate) fn take_repair(&self, state: &TurnState) -> bool {
        let made = match state.get(&REPAIRS) {
            Ok(made) => made.map_or(0, |made| *made),
            Err(e) => {
                tracing::warn!("no repair of a typed answer: {e}");
                return false;
            }
        };
        if made < self.repairs {
            state.set(&REPAIRS, made + 1);
        }
        made < self.repairs
    }
}
