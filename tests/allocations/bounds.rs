//! What a decoder holds of a stream that never ends. Its caps are in `docs/bounds.md`.

use turnwright_core::ErrorKind;
use turnwright_llm_stream::{
    LlmEvent, StreamItem,
    wire::{
        WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder, messages::MessagesDecoder,
        ollama::OllamaDecoder, responses::ResponsesDecoder,
    },
};

const MIB: u64 = 1 << 20;
/// The cap of a line, of an event, and of all arguments.
const CAP: u64 = 16 * MIB;
/// How much is fed: far more than any cap.
const FED: u64 = 80 * MIB;
const PIECE: usize = 64 << 10;

/// Feeds the begin and then the rest over and over, and drops the items. Answers the most bytes that were held, and how it
/// ended, if it did.
fn endless(mut decoder: Box<dyn WireDecoder>, begin: &str, rest: &str) -> (u64, Option<ErrorKind>) {
    let mut piece = rest.as_bytes().to_vec();
    while piece.len() < PIECE {
        piece.extend_from_slice(rest.as_bytes());
    }
    let mut failure = None;
    let counted = allocation_counter::measure(|| {
        let mut items = Vec::new();
        decoder.feed(begin.as_bytes(), &mut items);
        let mut fed = 0;
        while fed < FED && !decoder.is_done() {
            items.clear();
            decoder.feed(&piece, &mut items);
            fed += piece.len() as u64;
        }
        failure = items.iter().find_map(|item| match item {
            StreamItem::Event(LlmEvent::StreamFailure(failure)) => Some(failure.error.kind),
            _ => None,
        });
    });
    (counted.bytes_max, failure)
}

fn decoders() -> [(&'static str, Box<dyn WireDecoder>); 5] {
    [
        ("chat", Box::new(ChatDecoder::new("p"))),
        ("responses", Box::new(ResponsesDecoder::new("p"))),
        ("messages", Box::new(MessagesDecoder::new("p"))),
        ("gemini", Box::new(GeminiDecoder::new("p"))),
        ("ollama", Box::new(OllamaDecoder::new("p"))),
    ]
}

#[test]
fn an_endless_line_is_refused_while_little_more_than_the_cap_is_held() {
    for begin in ["", "data: ", "event: ", "data: {\"a\":\"", "{\"a\":\"", "{\n", "[{\"a\":\"", "<"] {
        for (format, decoder) in decoders() {
            let (held, failure) = endless(decoder, begin, "x");
            if format == "gemini" && begin == "" {
                assert_eq!(failure, Some(ErrorKind::TooLarge), "{format}");
            }
            println!("{format} {begin:?} {held} {failure:?}");
            assert!(held <= 3 * CAP, "{format} {begin:?}: {held}");
            assert_eq!(failure, Some(ErrorKind::TooLarge), "{format} {begin:?}");
        }
    }
}

#[test]
fn an_event_without_an_end_is_refused_while_little_more_than_the_cap_is_held() {
    for (format, decoder) in decoders() {
        if format == "ollama" {
            continue;
        }
        let (held, failure) = endless(decoder, "data: x\n", "data: some more of it\n");
        println!("{format} {held} {failure:?}");
        assert!(held <= 3 * CAP, "{format}: {held}");
        assert_eq!(failure, Some(ErrorKind::TooLarge), "{format}");
    }
}
