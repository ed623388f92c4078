//! Any bytes to a decoder.

use std::collections::HashMap;

use turnwright_llm_stream::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        WireDecoder, chat::ChatDecoder, converse::ConverseDecoder, gemini::GeminiDecoder,
        messages::MessagesDecoder, ollama::OllamaDecoder, responses::ResponsesDecoder,
    },
};

use super::dice;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Chat,
    Responses,
    Messages,
    Gemini,
    Ollama,
    Converse,
}

impl Format {
    pub(crate) const ALL: [Self; 6] =
        [Self::Chat, Self::Responses, Self::Messages, Self::Gemini, Self::Ollama, Self::Converse];

    fn decoder(self) -> Box<dyn WireDecoder> {
        match self {
            Self::Chat => Box::new(ChatDecoder::new("p")),
            Self::Responses => Box::new(ResponsesDecoder::new("p")),
            Self::Messages => Box::new(MessagesDecoder::new("p")),
            Self::Gemini => Box::new(GeminiDecoder::new("p")),
            Self::Ollama => Box::new(OllamaDecoder::new("p")),
            Self::Converse => Box::new(ConverseDecoder::new("p")),
        }
    }
}

pub(crate) fn chat(body: &[u8]) {
    check(Format::Chat, body);
}

pub(crate) fn responses(body: &[u8]) {
    check(Format::Responses, body);
}

pub(crate) fn messages(body: &[u8]) {
    check(Format::Messages, body);
}

pub(crate) fn gemini(body: &[u8]) {
    check(Format::Gemini, body);
    check(Format::Gemini, &[b"[", body].concat());
}

pub(crate) fn ollama(body: &[u8]) {
    check(Format::Ollama, body);
}

pub(crate) fn converse(body: &[u8]) {
    check(Format::Converse, body);
}

/// What a decoder may hold beside the body: lists of 4,096 small items, and the first growth of its buffers.
const MEMORY_FLOOR: u64 = 256 << 10;

/// How many bytes a decoder may hold for a byte of the body. JSON is the worst case: `0,` becomes a value of 32 bytes in
/// a list that doubles.
const MEMORY_FACTOR: u64 = 64;

/// Up to here a body is also decoded byte by byte.
const BYTEWISE: usize = 1024;

/// Decodes a body whole, in pieces and byte by byte, and checks what holds for any bytes: the same items, one terminal
/// event, calls as they were shown, bounded memory. Answers the items.
pub(crate) fn check(format: Format, body: &[u8]) -> Vec<StreamItem> {
    let whole = decode(format, [body]);
    for salt in 0..2 {
        assert_eq!(decode(format, dice::pieces(body, salt)), whole, "{format:?} in pieces");
    }
    if body.len() <= BYTEWISE {
        assert_eq!(decode(format, body.chunks(1)), whole, "{format:?} byte by byte");
    }
    check_items(&whole);
    check_memory(format, body);
    whole
}

fn decode<'a>(format: Format, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamItem> {
    let (mut decoder, mut items, mut progress) = (format.decoder(), Vec::new(), 0);
    for piece in pieces {
        let was_done = decoder.is_done();
        let before = items.len();
        decoder.feed(piece, &mut items);
        assert!(decoder.progress() >= progress, "progress never shrinks");
        progress = decoder.progress();
        assert!(!was_done || (decoder.is_done() && items.len() == before), "nothing follows the end");
    }
    decoder.end(&mut items);
    assert!(decoder.is_done());
    let count = items.len();
    decoder.feed(b"data: {}\n\n", &mut items);
    decoder.end(&mut items);
    assert_eq!(items.len(), count, "nothing follows the end");
    items
}

fn check_items(items: &[StreamItem]) {
    let is_end = |item: &StreamItem| matches!(item, StreamItem::Event(event) if event.is_terminal());
    assert_eq!(items.iter().filter(|item| is_end(item)).count(), 1, "{items:?}");
    assert!(items.last().is_some_and(is_end), "{items:?}");
    let mut shown = HashMap::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                assert!(!name.is_empty());
                assert!(shown.insert(id, (name, String::new())).is_none(), "{id} twice");
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                assert!(!fragment.is_empty());
                shown.get_mut(id).expect("a fragment before its call").1.push_str(fragment);
            }
            StreamItem::Progress(_) => {}
            StreamItem::Event(LlmEvent::ToolCallComplete(call)) => {
                let (name, arguments) = shown.remove(&call.id).expect("a call that was not shown, or twice");
                assert_eq!((name, arguments), (&call.name, call.arguments.clone()));
            }
            StreamItem::Event(LlmEvent::TextDelta { text }) => assert!(!text.is_empty()),
            StreamItem::Event(LlmEvent::ReasoningDelta(delta)) => {
                assert!(!delta.text.is_empty() || delta.opaque.is_some());
            }
            StreamItem::Event(LlmEvent::StreamFailure(failure)) => {
                assert_eq!(failure.error.provider.as_deref(), Some("p"));
                assert!(failure.error.message.chars().count() <= 600, "{}", failure.error.message);
            }
            StreamItem::Event(_) => {}
        }
    }
}

/// The most that a decoder holds at once, with the items of one piece.
fn check_memory(format: Format, body: &[u8]) {
    let counted = allocation_counter::measure(|| {
        let (mut decoder, mut items) = (format.decoder(), Vec::new());
        for piece in dice::pieces(body, 2) {
            decoder.feed(piece, &mut items);
            items.clear();
        }
        decoder.end(&mut items);
    });
    assert_eq!(counted.bytes_current, 0, "nothing is left of a decoder");
    let most = MEMORY_FLOOR + MEMORY_FACTOR * body.len() as u64;
    assert!(counted.bytes_max <= most, "{format:?}: {} bytes for {}", counted.bytes_max, body.len());
}
