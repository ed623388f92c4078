//! What one answer may cost.

use super::*;
use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};

fn kind_of(body: &str) -> Option<ErrorKind> {
    let out = decode_with(MessagesDecoder::new("p"), [body.as_bytes()]);
    assemble(out).error.map(|error| error.kind)
}

fn call(index: u64, id: &str, name: &str) -> String {
    begin(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} }))
}

fn last() -> String {
    stopped("end_turn") + &over()
}

#[test]
fn blocks_that_are_open_and_those_of_one_event_have_a_cap() {
    for (count, kind) in [(4096, None), (4097, Some(ErrorKind::TooLarge))] {
        let open: String = (0..count).map(|index| begin(index, json!({ "type": "text" }))).collect();
        assert_eq!(kind_of(&(open + &last())), kind);
        let items = vec!["{}"; usize::try_from(count).unwrap()].join(",");
        let whole = format!("{{\"type\":\"message\",\"stop_reason\":\"end_turn\",\"content\":[{items}]}}");
        assert_eq!(kind_of(&whole), kind);
    }
    let ended: String =
        (0..5000).map(|index| begin(index, json!({ "type": "text" })) + &end(index)).collect();
    assert_eq!(kind_of(&(ended + &last())), None, "those that ended cost nothing");
    let anew = begin(0, json!({ "type": "text" })).repeat(5000);
    assert_eq!(kind_of(&(anew + &last())), None);
}

#[test]
fn calls_their_labels_and_their_arguments_have_caps() {
    let long = "x".repeat(MAX_LABEL_BYTES);
    let too_long = format!("{long}x");
    for (id, name, kind) in [
        (&long, &long, None),
        (&too_long, &long, Some(ErrorKind::TooLarge)),
        (&long, &too_long, Some(ErrorKind::TooLarge)),
    ] {
        assert_eq!(kind_of(&(call(0, id, name) + &end(0) + &last())), kind);
    }
    let calls = |count: usize| (0..count).map(|n| call(0, &format!("c{n}"), "f")).collect::<String>();
    assert_eq!(kind_of(&(calls(MAX_CALLS) + &last())), None);
    assert_eq!(kind_of(&(calls(MAX_CALLS + 1) + &last())), Some(ErrorKind::TooLarge));
}

/// Feeds so many pieces of a sixteenth of the cap; the one beyond the cap must end it.
fn outgrows(begin: &str, piece: &str, pieces: usize) {
    let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
    decoder.feed(begin.as_bytes(), &mut out);
    for _ in 0..pieces {
        assert!(!decoder.is_done());
        decoder.feed(piece.as_bytes(), &mut out);
    }
    assert!(decoder.is_done());
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}

#[test]
fn arguments_and_signatures_outgrow_their_caps() {
    let piece = " ".repeat(MAX_ARGUMENT_BYTES / 16);
    // The two bytes at the begin count.
    outgrows(&call(0, "c", "f"), &delta(0, "input_json_delta", "partial_json", &piece), 16);
    let thinking = begin(0, json!({ "type": "thinking" }));
    outgrows(&thinking, &delta(0, "signature_delta", "signature", &piece), 17);
}
