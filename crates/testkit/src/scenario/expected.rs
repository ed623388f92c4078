//! What a client must make of a scenario.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice};
use turnwright_llm_stream::{FinishReason, LlmResponse};

use crate::check::Verdict;

/// What a client must make of a scenario. What is none is not looked at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Expected {
    /// All text, whole or as much as came.
    pub text: Option<&'static str>,
    /// All reasoning text.
    pub reasoning: Option<&'static str>,
    /// Names and arguments of the calls, in order. Their ids are always looked at: none empty, no two the same.
    pub calls: Option<Vec<(&'static str, &'static str)>>,
    /// Input and output tokens; the inner none: unknown.
    pub usage: Option<Option<(u64, u64)>>,
    /// How it ends.
    pub end: End,
    /// The HTTP status in the error.
    pub status: Option<u16>,
    /// How long the error says to wait.
    pub wait: Option<Wait>,
    /// Words that the error must repeat.
    pub says: Option<&'static str>,
    /// The tokens a request needs, and those there is room for, where it is too large.
    pub context: Option<(u64, u64)>,
    /// Whether the client must close a connection that the server leaves open.
    pub closes: bool,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It is whole, or as whole as the reason says.
    Finish(FinishReason),
    /// It fails with one of these kinds.
    Failure(&'static [ErrorKind]),
}

/// How long an error says to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// So long.
    For(Duration),
    /// So long, or longer.
    AtLeast(Duration),
}

impl Expected {
    /// The usual answer, whole.
    pub(super) fn usual() -> Self {
        Self {
            text: Some("Hello €"),
            reasoning: Some("hm"),
            calls: Some(vec![("weather", r#"{"city":"Rome"}"#)]),
            usage: Some(Some((10, 5))),
            end: End::Finish(FinishReason::ToolCalls),
            status: None,
            wait: None,
            says: None,
            context: None,
            closes: false,
        }
    }

    /// The same with a second call.
    pub(super) fn two() -> Self {
        let calls = vec![("weather", r#"{"city":"Rome"}"#), ("time", r#"{"zone":"UTC"}"#)];
        Self { calls: Some(calls), ..Self::usual() }
    }

    /// Text alone.
    pub(super) fn text(text: &'static str, reason: FinishReason) -> Self {
        let end = End::Finish(reason);
        Self { text: Some(text), reasoning: None, calls: Some(Vec::new()), end, ..Self::usual() }
    }

    /// A failure without output.
    pub(super) fn failure(kinds: &'static [ErrorKind]) -> Self {
        Self {
            text: Some(""),
            reasoning: None,
            calls: Some(Vec::new()),
            usage: None,
            end: End::Failure(kinds),
            ..Self::usual()
        }
    }

    /// Holds an answer to it.
    ///
    /// # Errors
    /// What is not as expected.
    pub fn check(&self, response: &LlmResponse) -> Verdict {
        same("text", self.text.map(ToOwned::to_owned), || response.text())?;
        same("reasoning", self.reasoning.map(ToOwned::to_owned), || response.reasoning())?;
        let expected = self.calls.as_ref().map(|calls| {
            calls.iter().map(|(name, arguments)| ((*name).to_owned(), value(arguments))).collect::<Vec<_>>()
        });
        same("calls", expected, || {
            response.tool_calls().map(|call| (call.name.clone(), value(&call.arguments))).collect()
        })?;
        let usage = &response.usage;
        same("usage", self.usage, || usage.input_tokens.zip(usage.output_tokens))?;
        let mut ids = HashSet::new();
        if let Some(call) = response.tool_calls().find(|c| c.id.as_str().is_empty() || !ids.insert(&c.id)) {
            return Err(format!("the id {:?} is empty or was there before", call.id.as_str()));
        }
        match (self.end, &response.error) {
            (End::Finish(reason), None) => same("finish", Some(Some(reason)), || response.finish_reason),
            (End::Finish(_), Some(error)) => {
                Err(format!("it fails with {}: {error}, and should be whole", error.kind))
            }
            (End::Failure(kinds), None) => Err(format!("it is whole, and should fail with {kinds:?}")),
            (End::Failure(kinds), Some(error)) => self.check_error(kinds, error),
        }
    }

    fn check_error(&self, kinds: &[ErrorKind], error: &ErrorInfo) -> Verdict {
        if !kinds.contains(&error.kind) {
            return Err(format!("it fails with {}: {error}, and should with {kinds:?}", error.kind));
        }
        if error.provider.is_none() {
            return Err(format!("the error names no provider: {error}"));
        }
        same("status", self.status.map(Some), || error.status)?;
        same("context", self.context.map(Some), || {
            error.context.as_ref().and_then(|size| size.needed.zip(size.limit))
        })?;
        if let Some(words) = self.says
            && !error.message.contains(words)
        {
            return Err(format!("the error does not say {words:?}: {error}"));
        }
        if error.message.is_empty() || error.message.chars().count() > 2000 {
            return Err(format!("the error has {} bytes of words", error.message.len()));
        }
        match (self.wait, error.retry) {
            (None, _) => Ok(()),
            (Some(Wait::For(time)), RetryAdvice::After(after)) if after == time => Ok(()),
            (Some(Wait::AtLeast(time)), RetryAdvice::After(after)) if after >= time => Ok(()),
            (Some(wait), retry) => Err(format!("the error advises {retry:?}, and should {wait:?}")),
        }
    }
}

/// Arguments as a value; blank ones are an empty object.
fn value(arguments: &str) -> Value {
    match arguments.trim() {
        "" => json!({}),
        json => serde_json::from_str(json).unwrap_or_else(|_| arguments.into()),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: Option<T>, got: impl FnOnce() -> T) -> Verdict {
    let Some(expected) = expected else { return Ok(()) };
    let got = got();
    if got == expected {
        return Ok(());
    }
    Err(format!("{what}: {got:?}, and should be {expected:?}"))
}
