//! What one answer may cost.

use super::*;
use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};

fn kind_of(body: &str) -> Option<ErrorKind> {
    let out = decode_with(ResponsesDecoder::new("p"), [body.as_bytes()]);
    assemble(out).error.map(|error| error.kind)
}

fn call(id: &str, name: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": name, "arguments": "{}" })
}

#[test]
fn lists_of_too_many_items_are_refused() {
    let repeat = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    for (count, kind) in [(4096, None), (4097, Some(ErrorKind::TooLarge))] {
        let output = format!(
            "data: {{\"type\":\"response.completed\",\"response\":{{\"output\":{}}}}}\n\n",
            repeat("{}", count)
        );
        assert_eq!(kind_of(&output), kind);
        let content = format!(
            "data: {{\"type\":\"response.output_item.done\",\"item\":{{\"type\":\"message\",\"content\":{}}}}}\n\n{}",
            repeat("{}", count),
            completed(json!([]))
        );
        assert_eq!(kind_of(&content), kind);
        let added =
            "data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"x\"}}\n\n".repeat(count);
        assert_eq!(kind_of(&(added + &completed(json!([])))), kind);
        let parts = (0..count).map(|part| {
            event(
                "response.output_text.delta",
                json!({ "output_index": 0, "content_index": part, "delta": "a" }),
            )
        });
        assert_eq!(kind_of(&(parts.collect::<String>() + &completed(json!([])))), kind);
    }
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
        assert_eq!(kind_of(&completed(json!([call(id, name)]))), kind);
    }
    let calls = |count: usize| (0..count).map(|n| done(0, call(&format!("c{n}"), "f"))).collect::<String>();
    assert_eq!(kind_of(&(calls(MAX_CALLS) + &completed(json!([])))), None);
    assert_eq!(kind_of(&(calls(MAX_CALLS + 1) + &completed(json!([])))), Some(ErrorKind::TooLarge));

    let (mut decoder, mut out) = (ResponsesDecoder::new("p"), Vec::new());
    let piece = event(
        "response.function_call_arguments.delta",
        json!({ "output_index": 0, "delta": " ".repeat(MAX_ARGUMENT_BYTES / 16) }),
    );
    for _ in 0..17 {
        assert!(!decoder.is_done());
        decoder.feed(piece.as_bytes(), &mut out);
    }
    assert!(decoder.is_done());
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}

#[test]
fn an_items_id_of_any_length_is_no_reason_to_fail() {
    let id = "x".repeat(MAX_LABEL_BYTES + 1);
    let delta = json!({ "output_index": 0, "content_index": 0, "item_id": id, "delta": "a" });
    let mut whole = message("a");
    whole["id"] = json!(id.clone() + "y");
    let body = event("response.output_text.delta", delta) + &done(0, whole) + &completed(json!([]));
    let out = decode_with(ResponsesDecoder::new("p"), [body.as_bytes()]);
    assert_eq!(assemble(out).text(), "a");
}
