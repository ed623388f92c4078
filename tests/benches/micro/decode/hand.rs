//! Parsers by hand: borrowed structs with the fields that matter, and the text as owned pieces.

use std::{borrow::Cow, hint::black_box};

use serde::Deserialize;

/// A piece of text that is handed on.
fn own(text: Option<Cow<'_, str>>) -> usize {
    usize::from(black_box(text.map(Cow::into_owned)).is_some())
}

#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}
#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: ChatDelta<'a>,
}
#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<Call<'a>>,
}
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}
#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

pub(super) fn chat(json: &[u8]) -> usize {
    let chunk: ChatChunk<'_> = serde_json::from_slice(json).unwrap();
    let Some(choice) = chunk.choices.into_iter().next() else { return 0 };
    let fragments: Vec<String> =
        choice.delta.tool_calls.into_iter().map(|call| call.function.arguments.into_owned()).collect();
    own(choice.delta.content) + black_box(fragments).len()
}

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
}

pub(super) fn responses(json: &[u8]) -> usize {
    let event: ResponsesEvent<'_> = serde_json::from_slice(json).unwrap();
    match &*event.kind {
        "response.output_text.delta" | "response.function_call_arguments.delta" => own(event.delta),
        _ => 0,
    }
}

#[derive(Deserialize)]
struct MessagesEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<BlockDelta<'a>>,
}
#[derive(Deserialize)]
struct BlockDelta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
}

pub(super) fn messages(json: &[u8]) -> usize {
    let event: MessagesEvent<'_> = serde_json::from_slice(json).unwrap();
    match (&*event.kind, event.delta) {
        ("content_block_delta", Some(delta)) => own(delta.text) + own(delta.partial_json),
        _ => 0,
    }
}

#[derive(Deserialize)]
struct GeminiChunk<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
}
#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Content<'a>,
}
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

pub(super) fn gemini(json: &[u8]) -> usize {
    let chunk: GeminiChunk<'_> = serde_json::from_slice(json).unwrap();
    let parts = chunk.candidates.into_iter().flat_map(|candidate| candidate.content.parts);
    parts.map(|part| own(part.text)).sum()
}

#[derive(Deserialize)]
struct OllamaLine<'a> {
    #[serde(borrow)]
    message: OllamaMessage<'a>,
}
#[derive(Deserialize)]
struct OllamaMessage<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
}

pub(super) fn ollama(json: &[u8]) -> usize {
    let line: OllamaLine<'_> = serde_json::from_slice(json).unwrap();
    own(line.message.content) + own(line.message.thinking)
}
