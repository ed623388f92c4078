//! What a model is asked.

mod cache_hint;
mod output;

use std::sync::Arc;

pub use cache_hint::CacheHint;
pub use output::OutputSchema;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwright_core::{Message, ToolDefinition};

use crate::ModelHandle;

/// Which tools the model may or must call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool.
    None,
    /// At least one tool.
    Required,
    /// This tool.
    Tool(String),
}

/// A request to a model, in no provider's words. Cheap to clone: messages and tools are shared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmRequest {
    /// The model's name as the provider knows it.
    pub model: String,
    /// The model whose client is asked, for [`LlmRequest::model`]. An agent's requests name the agent's own; a layer may
    /// name another, see [`LlmRequest::for_model`]. None in what a client is given: it is that client.
    pub target: Option<ModelHandle>,
    /// The system prompt.
    pub system: Option<Arc<str>>,
    /// The conversation, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The tools the model may call.
    pub tools: Arc<[Arc<ToolDefinition>]>,
    /// Which of them it may or must call.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have several calls: `Some(false)` asks for one at most. None is the provider's default,
    /// which is several. Formats without a word for it send none; their `…_body` says so.
    pub parallel_tool_calls: Option<bool>,
    /// The form that the answer's text must have. None is free text.
    pub output: Option<Arc<OutputSchema>>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: only the likeliest tokens, of this probability together, from 0 to 1.
    pub top_p: Option<f64>,
    /// The most tokens the answer may have.
    pub max_output_tokens: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// For how long the provider shall remember what it read of the request.
    pub cache: CacheHint,
    /// Further fields, merged into the top level of the body last; they win over what the serializer wrote.
    pub extra: Map<String, Value>,
    /// Which attempt at this logical call it is, from 1. Layers that repeat a call count it up.
    pub attempt: u32,
}

impl LlmRequest {
    /// The same request to another model, which may be of another client.
    #[must_use]
    pub fn for_model(mut self, model: ModelHandle) -> Self {
        self.model = model.model().into();
        self.target = Some(model);
        self
    }

    /// Whether the form of the answer is to be had by a tool, whatever the format can do.
    pub(crate) fn is_output_by_tool(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.by_tool)
    }

    /// Who is asked, for people: provider and model, as far as they are known.
    pub fn asked(&self) -> String {
        match &self.target {
            Some(target) => format!("{}/{}", target.provider(), self.model),
            None => self.model.clone(),
        }
    }
}
