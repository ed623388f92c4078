//! What one more event of a stream in the Responses format allocates.

use turnwright_llm_stream::wire::{WireDecoder, responses::ResponsesDecoder};

use crate::{count, events::an_event_allocates};

/// Decodes so many of these events after the others, in pieces; what was decoded is dropped at once.
fn decode(first: &str, more: &str, n: usize) -> u64 {
    let sse = |event: &str| format!("event: e\ndata: {event}\n\n");
    let body = sse(first) + &sse(more).repeat(n);
    count(async {
        let (mut decoder, mut items) = (ResponsesDecoder::new("p"), Vec::with_capacity(64));
        for piece in body.as_bytes().chunks(997) {
            decoder.feed(piece, &mut items);
            items.clear();
        }
        assert!(!decoder.is_done(), "the answer was to go on");
    })
}

#[test]
fn a_text_delta_of_a_response_allocates_its_text_and_nothing_else() {
    let first = r#"{"type":"response.created","response":{"id":"r"}}"#;
    for text in ["some words", "with \\n escapes \\u00e9"] {
        let more = r#"{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"TEXT"}"#;
        an_event_allocates(1, |n| decode(first, &more.replace("TEXT", text), n));
    }
}

#[test]
fn a_fragment_of_a_responses_arguments_allocates_its_text_and_nothing_else() {
    let first = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","call_id":"c","name":"f"}}"#;
    let more =
        r#"{"type":"response.function_call_arguments.delta","item_id":"i","output_index":0,"delta":"{234"}"#;
    an_event_allocates(1, |n| decode(first, more, n));
}
