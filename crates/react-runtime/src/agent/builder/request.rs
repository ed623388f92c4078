//! What every request of the agent says. BEFORE_LLM hooks see it, and layers of a model call may change it.

use std::sync::Arc;

use serde_json::{Map, Value};
use turnwright_llm_stream::{CacheHint, OutputSchema, ToolChoice};

use super::AgentBuilder;

impl AgentBuilder {
    /// The system prompt. None by default.
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.request.system = Some(text.into());
        self
    }

    /// Which tools the model may or must call. Its own choice by default.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.request.tool_choice = choice;
        self
    }

    /// Whether one answer may have several tool calls. The provider's default when not set, which is yes. Whatever is
    /// set, [`AgentBuilder::parallel_tools`] bounds how many run at once. Some formats have no word for it and send none.
    pub fn parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.request.parallel_tool_calls = Some(parallel);
        self
    }

    /// The form of every answer that is no tool call, as JSON of this schema. Free text by default.
    pub fn output(mut self, output: OutputSchema) -> Self {
        self.request.output = Some(Arc::new(output));
        self
    }

    /// Sampling temperature. The provider's default when not set.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.request.temperature = Some(temperature);
        self
    }

    /// Nucleus sampling, from 0 to 1. The provider's default when not set. Some models refuse it beside a temperature.
    pub fn top_p(mut self, top_p: f64) -> Self {
        self.request.top_p = Some(top_p);
        self
    }

    /// The most tokens an answer may have. The provider's default when not set.
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.request.max_output_tokens = Some(tokens);
        self
    }

    /// Texts that end an answer; it does not hold them. None by default.
    pub fn stop(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.request.stop = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Asks the provider to remember what it read, so that the next request costs less. Off by default.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.request.cache = hint;
        self
    }

    /// Further fields of every request body. With `conversation`, `conversation_id` or `previous_response_id` among them
    /// no layer repeats a model call: the server would add to what it keeps twice.
    pub fn extra(mut self, fields: Map<String, Value>) -> Self {
        self.request.extra = fields;
        self
    }
}
