//! Thoughts, as they are read and kept.

use super::*;

fn thinking() -> Value {
    json!({ "type": "thinking", "thinking": "", "signature": "" })
}

fn thought(index: u64, piece: &str) -> String {
    delta(index, "thinking_delta", "thinking", piece)
}

fn sign(index: u64, piece: &str) -> String {
    delta(index, "signature_delta", "signature", piece)
}

fn finished(body: &str) -> LlmResponse {
    answer(&(started() + body + &stopped("end_turn") + &over()))
}

fn blocks(response: &LlmResponse) -> Vec<(&str, Value)> {
    let blocks = response.parts.iter().filter_map(|part| match part {
        Part::Reasoning(block) => {
            Some((block.text.as_str(), block.opaque.get("messages_block").cloned().unwrap_or_default()))
        }
        _ => None,
    });
    blocks.collect()
}

fn signed(signature: &str) -> Value {
    json!({ "type": "thinking", "signature": signature })
}

#[test]
fn fault_r1_12_each_block_keeps_its_own_signature() {
    let body = begin(0, thinking())
        + &thought(0, "h")
        + &thought(0, "m")
        + &sign(0, "A")
        + &sign(0, "==")
        + &end(0)
        + &begin(1, json!({ "type": "thinking", "thinking": "so", "signature": "B==", "of_later": [1] }))
        + &end(1)
        + &begin(2, json!({ "type": "redacted_thinking", "data": "x/y" }))
        + &end(2)
        + &begin(3, json!({ "type": "redacted_thinking", "data": "z" }))
        + &end(3)
        + &begin(4, thinking())
        + &sign(4, "C==")
        + &end(4)
        + &begin(5, json!({ "type": "text", "text": "a" }))
        + &end(5);
    let response = finished(&body);
    let expected = [
        ("hm", signed("A==")),
        ("so", json!({ "type": "thinking", "signature": "B==", "of_later": [1] })),
        ("", json!({ "type": "redacted_thinking", "data": "x/y" })),
        ("", json!({ "type": "redacted_thinking", "data": "z" })),
        ("", signed("C==")),
    ];
    assert_eq!(blocks(&response), expected);
    assert_eq!(response.parts.len(), 6);
}

#[test]
fn thoughts_nobody_signed_do_not_run_into_others() {
    let body = begin(0, thinking())
        + &thought(0, "a")
        + &end(0)
        + &begin(1, thinking())
        + &end(1)
        + &begin(2, thinking())
        + &thought(2, "b")
        + &sign(2, "S")
        + &end(2);
    let unsigned = json!({ "type": "thinking" });
    assert_eq!(blocks(&finished(&body)), [("a", unsigned), ("b", signed("S"))]);
}

#[test]
fn a_block_that_never_ends_ends_with_the_next_or_with_the_answer() {
    let thoughts = begin(0, thinking()) + &thought(0, "a") + &sign(0, "S");
    for after in [
        String::new(),
        begin(1, json!({ "type": "text", "text": "x" })),
        begin(1, json!({ "type": "tool_use", "id": "c", "name": "t" })) + &end(0) + &end(1),
        begin(1, json!({ "type": "tool_use", "id": "c", "name": "t" })) + &end(1),
        begin(1, json!({ "type": "of_later" })),
        begin(0, json!({ "type": "text", "text": "x" })),
        text(1, "x"),
    ] {
        assert_eq!(blocks(&finished(&(thoughts.clone() + &after))), [("a", signed("S"))], "{after}");
    }
}

/// llama.cpp ends all blocks with the answer.
#[test]
fn a_signature_after_the_next_block_began_vouches_for_nothing() {
    let words = begin(1, json!({ "type": "text", "text": "x" }));
    let body = begin(0, thinking()) + &thought(0, "a") + &words + &sign(0, "S") + &end(0) + &end(1);
    let response = finished(&body);
    assert_eq!(blocks(&response), [("a", json!({ "type": "thinking" }))]);
    assert_eq!(response.parts.len(), 2, "and the text is in one piece");
    // Thoughts that go on behind other words are read all the same.
    let body = begin(0, thinking()) + &thought(0, "a") + &words + &thought(0, "b") + &text(1, "y");
    let unsigned = json!({ "type": "thinking" });
    let response = finished(&body);
    assert_eq!(blocks(&response), [("a", unsigned.clone()), ("b", unsigned)]);
    assert_eq!(response.text(), "xy");
}

#[test]
fn blocks_of_thoughts_that_run_side_by_side_are_not_mixed_up() {
    let both = begin(0, thinking()) + &thought(0, "a") + &begin(1, thinking()) + &thought(1, "b");
    let unsigned = || json!({ "type": "thinking" });
    for after in [sign(0, "A") + &sign(1, "B"), end(0) + &sign(1, "B") + &end(1)] {
        let response = finished(&(both.clone() + &after));
        assert_eq!(blocks(&response), [("a", unsigned()), ("b", signed("B"))], "{after}");
    }
    let response = finished(&(both + &sign(1, "B") + &thought(0, "c")));
    assert_eq!(blocks(&response), [("a", unsigned()), ("b", signed("B")), ("c", unsigned())]);
}

#[test]
fn thoughts_of_a_broken_answer_keep_no_half_signature() {
    let response = answer(&(started() + &begin(0, thinking()) + &thought(0, "a") + &sign(0, "S")));
    assert_eq!(blocks(&response), [("a", Value::Null)]);
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Truncated));
}

#[test]
fn thoughts_without_the_begin_of_their_block_are_thoughts() {
    assert_eq!(blocks(&finished(&(thought(0, "a") + &sign(0, "S") + &end(0)))), [("a", signed("S"))]);
}
