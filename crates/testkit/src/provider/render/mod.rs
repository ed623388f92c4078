//! From a reply to the events of a format.

mod chat;
mod converse;
mod gemini;
mod messages;
mod ollama;
mod responses;

use serde_json::Value;
use turnwright_core::TokenUsage;
use turnwright_llm_stream::FinishReason;

use super::{
    Reply, WireFormat,
    event::Event,
    reply::{Ended, Piece},
};

/// The model that every answer names.
const MODEL: &str = "scripted";

/// What stands for a signature, or for encrypted reasoning.
pub(crate) const SIGNATURE: &str = "c2lnbmVkLWJ5LXRoZS1zZXJ2ZXI=";

/// The events of a reply that does not go wrong.
pub(crate) fn events(format: WireFormat, reply: &Reply) -> Vec<Event> {
    match format {
        WireFormat::Chat => chat::events(reply),
        WireFormat::Responses => responses::events(reply),
        WireFormat::Messages => messages::events(reply),
        WireFormat::Gemini => gemini::events(reply),
        WireFormat::Ollama => ollama::events(reply),
        WireFormat::Converse => converse::events(reply),
    }
}

/// Pieces of one kind that follow each other.
enum Block<'a> {
    Text(Vec<&'a str>),
    Reasoning(Vec<&'a str>),
    Call(Call<'a>),
}

#[derive(Clone, Copy)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    fragment: usize,
}

impl<'a> Call<'a> {
    /// What comes with id and name, and what comes after it.
    fn parts(self) -> (&'a str, impl Iterator<Item = &'a str>) {
        let whole = self.arguments.len() <= self.fragment;
        let (first, rest) = if whole { (self.arguments, "") } else { ("", self.arguments) };
        (first, fragments(rest, self.fragment))
    }

    /// The arguments as a value; a string of what is no JSON.
    fn value(self) -> Value {
        match self.arguments.trim() {
            "" => Value::Object(serde_json::Map::new()),
            arguments => serde_json::from_str(arguments).unwrap_or_else(|_| self.arguments.into()),
        }
    }
}

fn blocks(reply: &Reply) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    for piece in &reply.pieces {
        match (piece, blocks.last_mut()) {
            (Piece::Text(text), Some(Block::Text(texts))) => texts.push(text),
            (Piece::Text(text), _) => blocks.push(Block::Text(vec![text])),
            (Piece::Reasoning(text), Some(Block::Reasoning(texts))) => texts.push(text),
            (Piece::Reasoning(text), _) => blocks.push(Block::Reasoning(vec![text])),
            (Piece::ToolCall { id, name, arguments, fragment }, _) => {
                blocks.push(Block::Call(Call { id, name, arguments, fragment: *fragment }));
            }
        }
    }
    blocks
}

/// Why the reply finishes, as far as that is for the format to say.
fn reason(reply: &Reply) -> Result<FinishReason, &str> {
    match &reply.finish {
        Some(Ended::Word(word)) => Err(word),
        Some(Ended::Reason(reason)) => Ok(*reason),
        None if reply.pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. })) => {
            Ok(FinishReason::ToolCalls)
        }
        None => Ok(FinishReason::Stop),
    }
}

/// The usage the reply reports.
fn usage(reply: &Reply) -> TokenUsage {
    let usual = TokenUsage { input_tokens: Some(10), output_tokens: Some(5), ..TokenUsage::UNKNOWN };
    reply.usage.unwrap_or(usual)
}

/// Sets a field where there is something to say.
fn set(object: &mut Value, name: &str, value: Option<u64>) {
    if let (Some(value), Some(object)) = (value, object.as_object_mut()) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Cuts a text into pieces of at most so many bytes, between characters.
fn fragments(mut text: &str, most: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = (1..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end))?;
        let (piece, rest) = text.split_at(end);
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::event::Mark;

    #[test]
    fn a_chat_reply_is_role_pieces_finish_usage_and_the_end_mark() {
        let reply =
            Reply::new().reasoning("r").text("t").tool_call_in_fragments("c", "f", "{\"a\":\"é\"}", 4);
        let mut events = events(WireFormat::Chat, &reply);
        assert_eq!(events.len(), 1 + 2 + 1 + 3 + 1 + 1 + 1);
        assert_eq!(events[7].value().unwrap()["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(fragments("aéb", 2).collect::<Vec<_>>(), ["a", "é", "b"]);
        assert_eq!(fragments("", 4).count(), 0);
    }

    #[test]
    fn every_format_says_every_piece_once_and_finishes_once() {
        let reply = Reply::new().reasoning("r").text("a").text("b").tool_call("c", "f", "{}");
        for format in WireFormat::ALL {
            let events = events(format, &reply);
            let count = |mark| events.iter().filter(|event| event.mark == mark).count();
            assert_eq!(
                (count(Mark::Reasoning), count(Mark::Text), count(Mark::Finish)),
                (1, 2, 1),
                "{format}"
            );
            assert!(count(Mark::Call) >= 1, "{format}");
        }
    }
}
