//! What one more event of a stream in the Messages format allocates.

use turnwright_llm_stream::wire::{WireDecoder, messages::MessagesDecoder};

use crate::{count, events::an_event_allocates};

/// Decodes so many of these events after the others, in pieces; what was decoded is dropped at once.
fn decode(first: &str, more: &str, n: usize) -> u64 {
    let sse = |event: &str| format!("event: e\ndata: {event}\n\n");
    let body = sse(first) + &sse(more).repeat(n);
    count(async {
        let (mut decoder, mut items) = (MessagesDecoder::new("p"), Vec::with_capacity(64));
        for piece in body.as_bytes().chunks(997) {
            decoder.feed(piece, &mut items);
            items.clear();
        }
        assert!(!decoder.is_done(), "the answer was to go on");
    })
}

#[test]
fn a_text_delta_of_a_message_allocates_its_text_and_nothing_else() {
    for (kind, field) in [("text", "text"), ("thinking", "thinking")] {
        let first = format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"{kind}","{field}":""}}}}"#
        );
        for text in ["some words", "with \\n escapes \\u00e9"] {
            let more = format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}_delta","{field}":"{text}"}}}}"#
            );
            an_event_allocates(1, |n| decode(&first, &more, n));
        }
    }
}

#[test]
fn a_fragment_of_a_messages_arguments_allocates_its_text_and_nothing_else() {
    let first = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#;
    let more = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{234"}}"#;
    an_event_allocates(1, |n| decode(first, more, n));
}
