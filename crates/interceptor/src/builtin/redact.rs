//! Keeping words from the model, and from whatever is recorded.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;
use turnwright_core::{CodeCell, CodeResult, Message, Part, ToolCall, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{Around, Exit, Next, scope};

/// Finds what must not be seen.
pub trait Redactor: Send + Sync + 'static {
    /// The text without it; borrowed where there is nothing to take out. Called often, on whole messages: keep it fast.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

impl<F: for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync + 'static> Redactor for F {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self(text)
    }
}

/// Takes words out of what goes to the model and of what tools and code cells come back with: what people, tools and files said,
/// and errors too. Results are redacted before they become history, events or records; of requests only what is sent changes, and
/// the history keeps the user's own words.
///
/// It is a layer, and what is no part of its calls it does not see. Instrumentation stands in
/// the core and sees results as they are. So does the journal of an agent with a store, until the turn is saved next. Results
/// and answers that a person gives in a tool's place pass no layer.
///
/// What the model says is not changed: it cannot say what it never saw. Arguments of calls are what it said. Progress that a tool
/// shows while it runs passes no layer: the tool must not put there what nobody may see.
///
/// Register it for children too: `interceptor!(Redact::new(words)).inherited()`.
#[derive(Clone)]
pub struct Redact(Arc<dyn Redactor>);

impl Redact {
    /// By this.
    pub fn new(redactor: impl Redactor) -> Self {
        Self(Arc::new(redactor))
    }

    fn in_place(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.0.redact(text) {
            *text = redacted;
        }
    }

    /// A failure, without it. Control errors are nobody's words but the program's.
    fn failure(&self, mut exit: Exit) -> Exit {
        if let Exit::Failed(error) = &mut exit {
            self.in_place(&mut error.message);
        }
        exit
    }

    fn result(&self, result: &mut ToolResult) {
        self.in_place(&mut result.content);
        if let Some(error) = &mut result.error {
            self.in_place(&mut error.message);
        }
    }

    /// Each text in a value: as JSON is written, a quote or a line break in it looks otherwise.
    fn texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.in_place(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            Value::Object(fields) => {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(mut name, mut value)| {
                        self.in_place(&mut name);
                        self.texts(&mut value);
                        (name, value)
                    })
                    .collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The message, changed only where there is something to take out.
    fn message(&self, message: &mut Arc<Message>) {
        let has = |text: &str| matches!(self.0.redact(text), Cow::Owned(_));
        let must_change = message.parts.iter().any(|part| match part {
            Part::Text { text } => has(text),
            Part::ToolResult(result) => {
                has(&result.content) || result.error.as_ref().is_some_and(|error| has(&error.message))
            }
            _ => false,
        });
        if must_change {
            for part in &mut Arc::make_mut(message).parts {
                match part {
                    Part::Text { text } => self.in_place(text),
                    Part::ToolResult(result) => self.result(result),
                    _ => {}
                }
            }
        }
    }
}

impl Around<scope::LlmCall> for Redact {
    async fn around(
        &self,
        _: &TurnContext,
        mut request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        if let Some(system) = &request.system
            && let Cow::Owned(redacted) = self.0.redact(system)
        {
            request.system = Some(redacted.into());
        }
        for message in &mut request.messages {
            self.message(message);
        }
        let mut response = next.run(request).await.map_err(|exit| self.failure(exit))?;
        if let Some(error) = &mut response.error {
            self.in_place(&mut error.message);
        }
        Ok(response)
    }
}

impl Around<scope::ToolCall> for Redact {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let mut result = next.run(call).await?;
        self.result(&mut result);
        Ok(result)
    }
}

impl Around<scope::ExecuteCode> for Redact {
    async fn around(
        &self,
        _: &TurnContext,
        cell: CodeCell,
        next: Next<'_, scope::ExecuteCode>,
    ) -> Result<CodeResult, Exit> {
        let mut result = next.run(cell).await.map_err(|exit| self.failure(exit))?;
        self.in_place(&mut result.output);
        if let Some(value) = &mut result.value {
            self.texts(value);
            let text = value.to_string();
            if let Cow::Owned(redacted) = self.0.redact(&text) {
                *value = serde_json::from_str(&redacted).unwrap_or(Value::String(redacted));
            }
        }
        if let Some(error) = &mut result.error {
            self.in_place(&mut error.message);
        }
        Ok(result)
    }
}
