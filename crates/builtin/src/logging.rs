//! `logging`: what a turn does, as `tracing` events.

use std::fmt::Write;

use turnwright_core::{ToolResult, TurnContext};
use turnwright_hook::{
    HookError, ToolDecision,
    point::{AfterLlmResponse, AfterToolExecution, BeforeToolExecution, DecidedCall},
};
use turnwright_llm_stream::LlmResponse;

/// The target of its events.
pub const RUN_TARGET: &str = "turnwright::run";

/// Characters of a text that are shown, where texts are shown at all.
const SHOWN: usize = 4000;

/// Tells what a turn does as `tracing` events of level INFO and target [`RUN_TARGET`]: one an answer, one a call, one a
/// result.
///
/// AFTER_LLM_RESPONSE, BEFORE_TOOL_EXECUTION, AFTER_TOOL_EXECUTION; name `logging`. Names, sizes, tokens and durations; no
/// content, unless [`with_content`](Logging::with_content) says otherwise. Content may hold whatever users and tools say, secrets
/// included; it is shown with its white space collapsed and 4,000 characters at most of each text.
#[derive(Debug, Clone, Default)]
pub struct Logging {
    content: bool,
}

impl Logging {
    /// Shows texts, arguments and results too.
    #[must_use]
    pub fn with_content(mut self) -> Self {
        self.content = true;
        self
    }

    fn content(&self, text: &str) -> Option<String> {
        self.content.then(|| shown(text))
    }
}

/// On one line, cut, and with its length where it was.
fn shown(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((end, _)) = line.char_indices().nth(SHOWN) {
        let total = text.chars().count();
        line.truncate(end);
        // Writing to a string cannot fail.
        let _ = write!(line, "… ({total} characters in all)");
    }
    line
}

impl AfterLlmResponse for Logging {
    async fn after_llm_response(&self, ctx: &TurnContext, response: &LlmResponse) -> Result<(), HookError> {
        let tools: Vec<_> = response.tool_calls().map(|call| call.name.as_str()).collect();
        tracing::info!(
            target: RUN_TARGET,
            session = %ctx.session(),
            turn = %ctx.turn(),
            agent = ctx.agent(),
            iteration = ctx.iteration(),
            finish_reason = ?response.finish_reason,
            error = response.error.as_ref().map(|error| tracing::field::display(error.kind)),
            tools = tools.join(","),
            input_tokens = response.usage.input_tokens,
            output_tokens = response.usage.output_tokens,
            chars = response.text().chars().count(),
            content = self.content(&response.text()),
            "the model answered"
        );
        Ok(())
    }
}

impl BeforeToolExecution for Logging {
    async fn before_tool_execution(&self, ctx: &TurnContext, calls: &[DecidedCall]) -> Result<(), HookError> {
        for DecidedCall { call, decision } in calls {
            let decision = match decision {
                ToolDecision::Allowed => "allowed",
                ToolDecision::Denied(_) => "denied",
                ToolDecision::Pending(_) => "pending",
                ToolDecision::Unrunnable(_) => "unrunnable",
            };
            tracing::info!(
                target: RUN_TARGET,
                session = %ctx.session(),
                turn = %ctx.turn(),
                agent = ctx.agent(),
                iteration = ctx.iteration(),
                tool = call.name,
                call = %call.id,
                decision,
                bytes = call.arguments.len(),
                content = self.content(&call.arguments),
                "a tool is called"
            );
        }
        Ok(())
    }
}

impl AfterToolExecution for Logging {
    async fn after_tool_execution(&self, ctx: &TurnContext, results: &[ToolResult]) -> Result<(), HookError> {
        for result in results {
            tracing::info!(
                target: RUN_TARGET,
                session = %ctx.session(),
                turn = %ctx.turn(),
                agent = ctx.agent(),
                iteration = ctx.iteration(),
                tool = result.tool(),
                call = %result.call_id(),
                error = result.error.as_ref().map(|error| tracing::field::display(error.kind)),
                bytes = result.content.len(),
                elapsed_ms = result.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
                content = self.content(&result.content),
                "a tool has answered"
            );
        }
        Ok(())
    }
}
