//! Answers of a given form, from models and servers that know none.

use std::sync::Arc;

use turnwright_core::{CallId, Concurrency, ToolDefinition};

use crate::{
    FinishReason, LlmEvent, LlmRequest, OutputSchema, OutputWay, ToolChoice, ToolProgress,
    client::DynLlmClient,
};

/// A tool of which the call is the answer: what a request with an [`LlmRequest::output`] becomes for a client whose format
/// has no word for it. The model calls the tool, and the arguments of the call come out as the answer's text, so that
/// nobody else need know of it: no such call is ever seen, run or kept.
///
/// The runtime does this for every client; do it yourself only where you ask a client without it.
#[derive(Debug)]
pub struct AnswerTool {
    name: String,
    /// Of the calls that are arriving.
    arriving: Vec<CallId>,
    /// Text was said before.
    has_text: bool,
    answered: bool,
    has_calls: bool,
}

impl AnswerTool {
    /// What the tool is called, unless the request has such a tool.
    pub const NAME: &str = "final_answer";

    /// Makes a tool of the request's output, if this client needs that; the request has no output then. For one call.
    pub fn take(request: &mut LlmRequest, client: &dyn DynLlmClient) -> Option<Self> {
        let output = request.output.clone()?;
        let way = match client.dyn_output_way(request) {
            // A client that does not look at it may not know how to demand a call either.
            OutputWay::Native if output.by_tool => OutputWay::OfferedTool,
            way => way,
        };
        if way == OutputWay::Native {
            return None;
        }
        request.output = None;
        let is_taken = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let names =
            std::iter::once(Self::NAME.to_owned()).chain((2..).map(|n| format!("{}_{n}", Self::NAME)));
        let name = names.into_iter().find(|name| !is_taken(name)).unwrap_or_default();
        let definition = Arc::new(definition(name.clone(), &output));
        let demanded = way == OutputWay::DemandedTool;
        if request.tool_choice == ToolChoice::None {
            // None but this one.
            request.tools = [definition].into();
            request.tool_choice = ToolChoice::Auto;
        } else {
            request.tools = request.tools.iter().cloned().chain([definition]).collect();
        }
        if demanded && request.tool_choice == ToolChoice::Auto {
            request.tool_choice = match request.tools.len() {
                1 => ToolChoice::Tool(name.clone()),
                _ => ToolChoice::Required,
            };
        }
        Some(Self { name, arriving: Vec::new(), has_text: false, answered: false, has_calls: false })
    }

    /// What the model said, as if its format had known the form. Give it every event, in order.
    pub fn event(&mut self, event: LlmEvent) -> LlmEvent {
        match event {
            LlmEvent::ToolCallComplete(call) if call.name == self.name => {
                self.answered = true;
                // On a line of its own, so that it is found behind other words.
                let line = if std::mem::replace(&mut self.has_text, true) { "\n" } else { "" };
                LlmEvent::text(format!("{line}{}", call.arguments_json()))
            }
            LlmEvent::Finish(mut finish) => {
                if self.answered && !self.has_calls && finish.reason == FinishReason::ToolCalls {
                    finish.reason = FinishReason::Stop;
                }
                LlmEvent::Finish(finish)
            }
            other => {
                self.has_calls |= matches!(other, LlmEvent::ToolCallComplete(_));
                self.has_text |= matches!(other, LlmEvent::TextDelta { .. });
                other
            }
        }
    }

    /// Whether the progress is of another call than the answer's.
    pub fn is_of_other(&mut self, progress: &ToolProgress) -> bool {
        match progress {
            ToolProgress::Started { id, name } if *name == self.name => {
                self.arriving.push(id.clone());
                false
            }
            ToolProgress::Started { id, .. } | ToolProgress::Arguments { id, .. } => {
                !self.arriving.contains(id)
            }
        }
    }
}

fn definition(name: String, output: &OutputSchema) -> ToolDefinition {
    ToolDefinition {
        name,
        description:
            "Gives your final answer. Always answer by one call of it, once you know the answer, and in no \
                      other way."
                .into(),
        parameters: output.schema.clone(),
        source: "runtime".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: true,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    }
}

#[cfg(test)]
mod tests;
