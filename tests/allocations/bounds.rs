//! What a decoder holds of a stream that never ends. Its caps are in `docs/bounds.md`.

use turnwright_core::ErrorKind;
use turnwright_llm_stream::{
    LlmEvent, StreamItem,
    wire::{WireDecoder, chat::ChatDecoder},
};

use crate::formats::FORMATS;

const MIB: u64 = 1 << 20;
/// The cap of a line, of an event, and of all arguments.
const CAP: u64 = 16 * MIB;
/// How much is fed: more than any cap.
const FED: u64 = 24 * MIB;
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

/// A framer holds a line that has begun, and the event before it: one cap each. A buffer that grows is there twice.
const FRAMER: u64 = 2 * CAP + CAP / 2 + 2 * MIB;

#[test]
fn an_endless_line_is_refused_at_the_cap() {
    for begin in ["data: ", "event: ", "{\n\"a\":\"", "<", "[{\"a\":\""] {
        // What begins like the list of one format is like any object to the others.
        for format in FORMATS.iter().filter(|format| !begin.starts_with('[') || format.name == "gemini") {
            let (held, failure) = endless(format.decoder(), begin, "x");
            assert_eq!(failure, Some(ErrorKind::TooLarge), "{} {begin:?}", format.name);
            assert!(held <= FRAMER, "{} {begin:?}: {held}", format.name);
        }
    }
}

#[test]
fn an_endless_event_is_refused_at_the_cap_and_its_name_counts() {
    let label = "x".repeat(15 << 20);
    for begin in ["data: x\n".to_owned(), format!("event: {label}\n"), format!("data: {label}\n")] {
        for format in FORMATS.iter().filter(|format| format.name != "ollama") {
            let (held, failure) = endless(format.decoder(), &begin, "data: some more of it\n");
            assert_eq!(failure, Some(ErrorKind::TooLarge), "{}", format.name);
            assert!(held <= FRAMER, "{}: {held}", format.name);
        }
    }
    let half = "x".repeat(9 << 20);
    let (held, failure) =
        endless(Box::new(ChatDecoder::new("p")), &format!("event: {half}\ndata: {half}\n"), "x");
    assert_eq!(failure, Some(ErrorKind::TooLarge));
    assert!(held <= FRAMER, "{held}");
}

/// Nothing is kept of what was told.
const TOLD: u64 = MIB;

#[test]
fn endless_text_and_thoughts_are_told_and_not_held() {
    let words = "words ".repeat(400);
    for format in &FORMATS {
        for repeated in [&format.text, &format.thought] {
            let (first, more) = format.events(repeated, &words);
            let (held, failure) = endless(format.decoder(), &first, &more);
            assert_eq!(failure, None, "{}", format.name);
            assert!(held <= TOLD, "{}: {held}", format.name);
        }
    }
}

#[test]
fn endless_arguments_are_refused_at_the_cap() {
    let words = "words ".repeat(4000);
    for format in &FORMATS {
        let (first, more) = format.events(&format.arguments, &words);
        let (held, failure) = endless(format.decoder(), &first, &more);
        assert_eq!(failure, Some(ErrorKind::TooLarge), "{}", format.name);
        // Their buffer doubles, and is there twice then.
        assert!(held <= 3 * CAP + 2 * MIB, "{}: {held}", format.name);
    }
}
