//! Reasoning.

use super::*;

fn thought(index: u64, fields: &Value) -> Vec<u8> {
    delta(index, &json!({ "reasoningContent": fields }))
}

/// The blocks of reasoning: their text, and their opaque part.
fn blocks(response: &LlmResponse) -> Vec<(&str, Value)> {
    response
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(r) => Some((r.text.as_str(), Value::Object(r.opaque.clone()))),
            _ => None,
        })
        .collect()
}

fn signed(signature: &str) -> Value {
    json!({ "reasoningContent": { "signature": signature } })
}

fn redacted(data: &str) -> Value {
    json!({ "reasoningContent": { "redactedContent": data } })
}

#[test]
fn fault_r1_12_signatures_and_redacted_content_are_kept_with_their_block() {
    let events = [
        thought(0, &json!({ "text": "a" })),
        thought(0, &json!({ "text": "b" })),
        thought(0, &json!({ "signature": "s1" })),
        thought(0, &json!({ "signature": "s2" })),
        block_stop(0),
        thought(1, &json!({ "redactedContent": "QUJD" })),
        block_stop(1),
        thought(2, &json!({ "redactedContent": "REVG" })),
        thought(2, &json!({ "redactedContent": "Rw==" })),
        thought(2, &json!({ "redactedContent": "SA==" })),
        block_stop(2),
        thought(3, &json!({ "signature": "only" })),
        block_stop(3),
        delta(4, &json!({ "text": "x" })),
    ];
    let response = answer(&finished(&events, "end_turn"));
    let expected = [
        ("ab", signed("s1s2")),
        ("", redacted("QUJD")),
        // Padded base64 cannot be joined with what follows.
        ("", redacted("REVGRw==")),
        ("", redacted("SA==")),
        ("", signed("only")),
    ];
    assert_eq!(blocks(&response), expected);
    assert_eq!(response.text(), "x");
}

#[test]
fn a_block_ends_with_what_follows_it_even_if_no_stop_came() {
    let events = [
        thought(0, &json!({ "text": "a" })),
        thought(0, &json!({ "signature": "s" })),
        thought(1, &json!({ "text": "b", "signature": "t" })),
        tool_start(2, "x", "f"),
        thought(3, &json!({ "redactedContent": "QUJD" })),
        thought(3, &json!({ "text": "c" })),
    ];
    let response = answer(&finished(&events, "tool_use"));
    let expected = [("a", signed("s")), ("b", signed("t")), ("", redacted("QUJD")), ("c", json!({}))];
    assert_eq!(blocks(&response), expected);
}

#[test]
fn thoughts_that_are_not_signed_are_no_part_of_those_that_are() {
    let events = [
        thought(0, &json!({ "text": "loose" })),
        block_stop(0),
        thought(1, &json!({ "text": "tight" })),
        thought(1, &json!({ "signature": "s" })),
        block_stop(1),
    ];
    let response = answer(&finished(&events, "end_turn"));
    assert_eq!(blocks(&response), [("loose", json!({ "reasoningContent": {} })), ("tight", signed("s"))]);
    // Something else between them parts them as well.
    let events = [
        thought(0, &json!({ "text": "loose" })),
        block_stop(0),
        delta(1, &json!({ "text": "x" })),
        thought(2, &json!({ "text": "tight", "signature": "s" })),
    ];
    let response = answer(&finished(&events, "end_turn"));
    assert_eq!(blocks(&response), [("loose", json!({})), ("tight", signed("s"))]);
}

#[test]
fn fault_e28_an_answer_of_thoughts_alone_is_empty_and_cut_ones_go_back_to_nobody() {
    let events = [thought(0, &json!({ "text": "a" })), thought(0, &json!({ "signature": "half" }))];
    let response = answer(&finished(&events, "end_turn"));
    assert_eq!((response.is_empty(), blocks(&response)), (true, vec![("a", signed("half"))]));
    let response = answer(&finished(&events, "max_tokens"));
    assert_eq!(blocks(&response), [("a", json!({}))]);
    let response = answer(&[start(), events.concat()].concat());
    assert_eq!(blocks(&response), [("a", json!({}))]);
}

#[test]
fn opaque_parts_are_capped() {
    let piece = "x".repeat(super::super::super::thought::MAX_OPAQUE_BYTES / 2);
    let mut events =
        vec![thought(0, &json!({ "signature": piece })), thought(1, &json!({ "redactedContent": piece }))];
    let kind = |events: &[Vec<u8>]| {
        let body = finished(events, "end_turn");
        kind_of(&assemble(decode_with(ConverseDecoder::new("p"), [&body[..]])))
    };
    assert_eq!(kind(&events), None);
    events.push(thought(2, &json!({ "signature": "x" })));
    assert_eq!(kind(&events), Some(ErrorKind::TooLarge));
}
