//! What one more event of a body allocates, in each wire format.

use crate::{
    count,
    events::an_event_allocates,
    formats::{FORMATS, Format, Repeated},
};

/// Decodes so many of these events in pieces, as sockets give them; what was decoded is dropped at once.
fn decode(format: &Format, repeated: &Repeated, text: &str, n: usize) -> u64 {
    let (first, more) = format.events(repeated, text);
    let body = first + &more.repeat(n);
    count(async {
        let (mut decoder, mut items) = (format.decoder(), Vec::with_capacity(64));
        for piece in body.as_bytes().chunks(997) {
            decoder.feed(piece, &mut items);
            items.clear();
        }
        assert!(!decoder.is_done(), "{}: the answer was to go on", format.name);
    })
}

#[test]
fn a_delta_of_text_or_thoughts_allocates_what_is_told_and_no_more() {
    for format in &FORMATS {
        for text in ["some words", "with \\n escapes \\u00e9"] {
            for repeated in [&format.text, &format.thought] {
                an_event_allocates(repeated.allocates, |n| decode(format, repeated, text, n));
            }
        }
    }
}

#[test]
fn a_fragment_of_arguments_allocates_what_is_told_and_no_more() {
    // Whole calls have a cap.
    for format in FORMATS.iter().filter(|format| format.name != "ollama") {
        let repeated = &format.arguments;
        an_event_allocates(repeated.allocates, |n| decode(format, repeated, "1234", n));
    }
}
