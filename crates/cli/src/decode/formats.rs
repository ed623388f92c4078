//! The formats that can be decoded: a row each.

use clap::builder::PossibleValue;
use serde_json::Value;
use turnwright::llm_stream::wire::{
    WireDecoder, chat::ChatDecoder, converse::ConverseDecoder, gemini::GeminiDecoder,
    messages::MessagesDecoder, ollama::OllamaDecoder, responses::ResponsesDecoder,
};

use super::usage;

pub(crate) struct Format {
    /// As `--format` and recordings name it.
    pub(crate) name: &'static str,
    /// Other names in use, that are understood too.
    also: &'static [&'static str],
    /// Who errors name where nothing else is known.
    pub(crate) provider: &'static str,
    pub(crate) decoder: fn(&str) -> Box<dyn WireDecoder>,
    /// Adds what an event says of usage, in the provider's fields, to what was known.
    pub(crate) usage: fn(&Value, &mut Option<Value>),
    /// Whether events come in binary messages, and not as text.
    pub(crate) is_binary: bool,
}

#[rustfmt::skip]
const FORMATS: &[Format] = &[
    Format { name: "openai", also: &["openai-chat", "chat"], provider: "openai", decoder: |p| Box::new(ChatDecoder::new(p)), usage: usage::chat, is_binary: false },
    Format { name: "openai-responses", also: &["responses"], provider: "openai", decoder: |p| Box::new(ResponsesDecoder::new(p)), usage: usage::responses, is_binary: false },
    Format { name: "anthropic", also: &["messages"], provider: "anthropic", decoder: |p| Box::new(MessagesDecoder::new(p)), usage: usage::messages, is_binary: false },
    Format { name: "gemini", also: &[], provider: "gcp.gemini", decoder: |p| Box::new(GeminiDecoder::new(p)), usage: usage::gemini, is_binary: false },
    Format { name: "ollama", also: &[], provider: "ollama", decoder: |p| Box::new(OllamaDecoder::new(p)), usage: usage::ollama, is_binary: false },
    Format { name: "bedrock", also: &["bedrock-eventstream", "converse"], provider: "aws.bedrock", decoder: |p| Box::new(ConverseDecoder::new(p)), usage: usage::converse, is_binary: true },
];

/// What `--format` takes.
pub(crate) fn names() -> Vec<PossibleValue> {
    let formats = FORMATS.iter().map(|format| PossibleValue::new(format.name).aliases(format.also));
    formats.chain([PossibleValue::new("auto")]).collect()
}

/// The format of this name, or why there is none.
pub(crate) fn find(name: &str) -> Result<&'static Format, String> {
    let found = FORMATS.iter().find(|format| format.name == name || format.also.contains(&name));
    found.ok_or_else(|| format!("this looks like the format {name}, which this version does not decode"))
}
