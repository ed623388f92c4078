//! What one more message of a stream in the Converse format allocates.

use turnwright_llm_stream::wire::{WireDecoder, converse::ConverseDecoder};
use turnwright_testkit::eventstream::event;

use crate::{count, events::an_event_allocates};

/// Decodes so many of these deltas after the first event, in pieces; what was decoded is dropped at once.
fn decode(first: &[u8], delta: &str, n: usize) -> u64 {
    let delta = format!(r#"{{"contentBlockIndex":0,"delta":{delta},"p":"abcdefghij"}}"#);
    let body = [first, &event("contentBlockDelta", &delta).repeat(n)].concat();
    count(async {
        let (mut decoder, mut items) = (ConverseDecoder::new("p"), Vec::with_capacity(64));
        for piece in body.chunks(997) {
            decoder.feed(piece, &mut items);
            items.clear();
        }
        assert!(!decoder.is_done(), "the answer was to go on");
    })
}

#[test]
fn a_text_delta_of_a_converse_stream_allocates_its_text_and_nothing_else() {
    let first = event("messageStart", r#"{"role":"assistant"}"#);
    for text in [r"some words", r"with \n escapes \u00e9"] {
        for delta in [r#"{"text":"TEXT"}"#, r#"{"reasoningContent":{"text":"TEXT"}}"#] {
            an_event_allocates(1, |n| decode(&first, &delta.replace("TEXT", text), n));
        }
    }
}

#[test]
fn a_fragment_of_converse_arguments_allocates_its_text_and_nothing_else() {
    let start = r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c","name":"f"}}}"#;
    let first = event("contentBlockStart", start);
    an_event_allocates(1, |n| decode(&first, r#"{"toolUse":{"input":"{234"}}"#, n));
}
