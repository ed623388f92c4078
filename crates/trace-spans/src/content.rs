//! What was said, as attributes: none of it unless it is asked for.

mod json;

use std::{env, fmt, str::FromStr};

use opentelemetry::KeyValue;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnwright_core::{Message, ToolDefinition};
use turnwright_interceptor::builtin::Redactor;
use turnwright_llm_stream::LlmResponse;

use crate::conventions as names;
use json::Writer;

/// How much of one kind of content is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    /// Nothing.
    #[default]
    Off,
    /// A hash and a length: enough to see that two are the same.
    Hash,
    /// The last six messages, texts up to 2,000 characters, arguments up to 1,000; tools by their names.
    Summary,
    /// All of it, within the bound of [`Content::max_bytes`].
    Full,
}

impl Capture {
    /// All, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Off, Self::Hash, Self::Summary, Self::Full];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Hash => "hash",
            Self::Summary => "summary",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No capture has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no way to capture content; these are: off, hash, summary, full")]
pub struct UnknownCapture(pub String);

impl FromStr for Capture {
    type Err = UnknownCapture;
    fn from_str(name: &str) -> Result<Self, UnknownCapture> {
        Self::ALL.into_iter().find(|way| way.name() == name).ok_or_else(|| UnknownCapture(name.into()))
    }
}

/// The kinds of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The system prompt.
    Instructions,
    /// The messages that are sent.
    Input,
    /// The answers.
    Output,
    /// The tools that are sent.
    Tools,
    /// The arguments of calls.
    Arguments,
    /// The results of calls.
    Results,
}

impl Field {
    const COUNT: usize = 6;

    /// Its content, its hash, its length.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Instructions => {
                [names::SYSTEM_INSTRUCTIONS, names::INSTRUCTIONS_HASH, names::INSTRUCTIONS_LENGTH]
            }
            Self::Input => [names::INPUT_MESSAGES, names::INPUT_HASH, names::INPUT_LENGTH],
            Self::Output => [names::OUTPUT_MESSAGES, names::OUTPUT_HASH, names::OUTPUT_LENGTH],
            Self::Tools => [names::TOOL_DEFINITIONS, names::TOOLS_HASH, names::TOOLS_LENGTH],
            Self::Arguments => [names::TOOL_ARGUMENTS, names::ARGUMENTS_HASH, names::ARGUMENTS_LENGTH],
            Self::Results => [names::TOOL_RESULT, names::RESULTS_HASH, names::RESULTS_LENGTH],
        }
    }
}

/// What is written of what was said, kind by kind; nothing by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    fields: [Capture; Field::COUNT],
    max_bytes: usize,
}

impl Default for Content {
    fn default() -> Self {
        Self::all(Capture::Off)
    }
}

impl Content {
    /// How large one attribute may be, unless [`Content::max_bytes`] says otherwise.
    pub const MAX_BYTES: usize = 128 * 1024;
    /// The switch that GenAI instrumentation listens to.
    pub const VARIABLE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

    /// All kinds alike.
    pub fn all(how: Capture) -> Self {
        Self { fields: [how; Field::COUNT], max_bytes: Self::MAX_BYTES }
    }

    /// As [`Content::VARIABLE`] says: everything for `SPAN_ONLY`, `SPAN_AND_EVENT` and `true`; nothing for anything else, and when
    /// it is not set.
    pub fn from_env() -> Self {
        Self::of_switch(&env::var(Self::VARIABLE).unwrap_or_default())
    }

    /// As the switch would say with this value.
    pub fn of_switch(value: &str) -> Self {
        let is_on = ["span_only", "span_and_event", "true"];
        let on = is_on.iter().any(|word| value.trim().eq_ignore_ascii_case(word));
        Self::all(if on { Capture::Full } else { Capture::Off })
    }

    /// The same, with another capture of one kind.
    #[must_use]
    pub fn field(mut self, field: Field, how: Capture) -> Self {
        self.fields[field as usize] = how;
        self
    }

    /// The same, with another bound on one attribute: texts are cut, then the oldest messages left out, so that it stays JSON.
    /// A single message that does not fit is left out too.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    pub(crate) fn of(&self, field: Field) -> Capture {
        self.fields[field as usize]
    }

    pub(crate) fn instructions(&self, text: &str, by: Option<&dyn Redactor>) -> Vec<KeyValue> {
        self.write(Field::Instructions, by, |w| w.instructions(text))
    }

    pub(crate) fn input<'m>(
        &self,
        messages: impl DoubleEndedIterator<Item = &'m Message> + Clone,
        by: Option<&dyn Redactor>,
    ) -> Vec<KeyValue> {
        self.write(Field::Input, by, |w| w.messages(messages))
    }

    pub(crate) fn output(
        &self,
        answer: &LlmResponse,
        reason: &str,
        by: Option<&dyn Redactor>,
    ) -> Vec<KeyValue> {
        // What is not there is not made up.
        if answer.parts.is_empty() {
            return Vec::new();
        }
        self.write(Field::Output, by, |w| w.answer(&answer.parts, reason))
    }

    pub(crate) fn answer(&self, text: &str, reason: &str, by: Option<&dyn Redactor>) -> Vec<KeyValue> {
        let parts = [turnwright_core::Part::text(text)];
        self.write(Field::Output, by, |w| w.answer(&parts, reason))
    }

    pub(crate) fn tools<'t>(
        &self,
        tools: impl Iterator<Item = &'t ToolDefinition>,
        by: Option<&dyn Redactor>,
    ) -> Vec<KeyValue> {
        self.write(Field::Tools, by, |w| w.tools(tools))
    }

    pub(crate) fn arguments(&self, text: &str, by: Option<&dyn Redactor>) -> Vec<KeyValue> {
        self.write(Field::Arguments, by, |w| w.arguments(text))
    }

    pub(crate) fn result(&self, text: &str, by: Option<&dyn Redactor>) -> Vec<KeyValue> {
        self.write(Field::Results, by, |w| w.text(text))
    }

    /// Nothing is made of content that is not asked for.
    fn write(
        &self,
        field: Field,
        by: Option<&dyn Redactor>,
        content: impl FnOnce(&Writer<'_>) -> String,
    ) -> Vec<KeyValue> {
        let (how, [name, hash, length]) = (self.of(field), field.names());
        if how == Capture::Off {
            return Vec::new();
        }
        let text = content(&Writer { by, how, max_bytes: self.max_bytes });
        if how != Capture::Hash {
            return vec![KeyValue::new(name, text)];
        }
        let digest: String =
            Sha256::digest(text.as_bytes()).iter().take(8).map(|b| format!("{b:02x}")).collect();
        let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
        vec![KeyValue::new(hash, digest), KeyValue::new(length, len)]
    }
}

#[cfg(test)]
mod tests;
