//! Each quirk of the format, decoded whole, at every split, and one byte at a time.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use turnwright_core::{Message as Spoken, MessageId, Part, Role, ToolCall};

use super::*;
use crate::{
    LlmResponse, ToolProgress,
    classify::MAX_BODY_BYTES,
    wire::eventstream::{HeaderValue, encode},
    wire::testing::{assemble, at_every_split, decode_with},
};

mod arbitrary;
mod calls;
mod failures;
mod thoughts;

/// A message of this type of event.
fn event(kind: &str, payload: &Value) -> Vec<u8> {
    event_bytes(kind, payload.to_string().as_bytes())
}

fn event_bytes(kind: &str, payload: &[u8]) -> Vec<u8> {
    let headers = [
        (":event-type", HeaderValue::Text(kind)),
        (":content-type", HeaderValue::Text("application/json")),
        (":message-type", HeaderValue::Text("event")),
    ];
    encode::message(&headers, payload)
}

fn delta(index: u64, delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta, "p": "abcdef" }))
}

fn text(text: &str) -> Vec<u8> {
    delta(0, &json!({ "text": text }))
}

fn tool_start(index: u64, id: &str, name: &str) -> Vec<u8> {
    let tool = json!({ "toolUseId": id, "name": name });
    event("contentBlockStart", &json!({ "contentBlockIndex": index, "start": { "toolUse": tool } }))
}

fn input(index: u64, input: &str) -> Vec<u8> {
    delta(index, &json!({ "toolUse": { "input": input } }))
}

fn block_stop(index: u64) -> Vec<u8> {
    event("contentBlockStop", &json!({ "contentBlockIndex": index, "p": "a" }))
}

fn start() -> Vec<u8> {
    event("messageStart", &json!({ "role": "assistant", "p": "abc" }))
}

fn stop(reason: &str) -> Vec<u8> {
    event("messageStop", &json!({ "stopReason": reason }))
}

fn metadata() -> Vec<u8> {
    event("metadata", &json!({ "usage": { "inputTokens": 3, "outputTokens": 2 }, "metrics": {} }))
}

/// A whole answer of these events.
fn finished(events: &[Vec<u8>], reason: &str) -> Vec<u8> {
    [start(), events.concat(), stop(reason), metadata()].concat()
}

/// The items of a body, which are the same at every split.
fn items(body: &[u8]) -> Vec<StreamItem> {
    at_every_split(|| ConverseDecoder::new("p"), body)
}

fn answer(body: &[u8]) -> LlmResponse {
    assemble(items(body))
}

fn kind_of(response: &LlmResponse) -> Option<ErrorKind> {
    response.error.as_ref().map(|error| error.kind)
}

#[test]
fn fault_e2_r1_21_r1_22_text_and_usage_come_whole_at_any_split() {
    let response = answer(&finished(&[text("é"), text(""), text("\n\"x\""), block_stop(0)], "end_turn"));
    assert_eq!(response.text(), "é\n\"x\"");
    assert_eq!(response.finish_reason, Some(FinishReason::Stop));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("end_turn"));
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (Some(3), Some(2)));
    assert_eq!((response.error, response.model, response.response_id), (None, None, None));
}

#[test]
fn stop_reasons_keep_their_word_and_unknown_ones_are_not_fatal() {
    let table = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("guardrail_intervened", FinishReason::ContentFilter),
        ("content_filtered", FinishReason::ContentFilter),
        ("refusal", FinishReason::Refusal),
        ("malformed_tool_use", FinishReason::Other),
        ("malformed_model_output", FinishReason::Other),
        ("of_next_year", FinishReason::Other),
    ];
    for (raw, reason) in table {
        let response = assemble(decode_with(ConverseDecoder::new("p"), [&finished(&[text("a")], raw)[..]]));
        assert_eq!(response.finish_reason, Some(reason), "{raw}");
        assert_eq!(response.raw_finish_reason.as_deref(), Some(raw));
    }
    for odd in [json!({}), json!({ "stopReason": null }), json!({ "stopReason": 7 })] {
        let response = answer(&[text("a"), event("messageStop", &odd), metadata()].concat());
        assert_eq!((response.finish_reason, response.raw_finish_reason), (Some(FinishReason::Stop), None));
    }
}

#[test]
fn fault_e10_e26_unknown_events_blocks_and_deltas_are_skipped() {
    let body = [
        event("initial-response", &json!({})),
        event_bytes("ofNextYear", b"no JSON"),
        event_bytes("", b""),
        encode::message(&[(":message-type", HeaderValue::Text("ofNextYear"))], b"{}"),
        encode::message(&[], b""),
        event_bytes("messageStart", b"null"),
        event(
            "contentBlockStart",
            &json!({ "contentBlockIndex": 0, "start": { "image": { "format": "png" } } }),
        ),
        event("contentBlockStart", &json!({ "start": null })),
        event("contentBlockDelta", &json!({ "delta": null })),
        event("contentBlockDelta", &json!({})),
        delta(0, &json!({ "citation": { "title": "t" }, "image": [1] })),
        delta(0, &json!({ "text": null, "toolUse": null, "reasoningContent": null })),
        delta(0, &json!({ "reasoningContent": { "text": "", "of_next_year": 1 } })),
        text("a"),
        block_stop(7),
        stop("end_turn"),
        event("metadata", &json!({ "usage": { "outputTokens": 1, "of_next_year": {} }, "trace": {} })),
    ];
    let response = answer(&body.concat());
    assert_eq!((response.text().as_str(), response.error.as_ref()), ("a", None));
    assert_eq!((response.parts.len(), response.usage.output_tokens), (1, Some(1)));
}

#[test]
fn fault_e6_e8_the_metadata_ends_the_answer_and_may_be_missing() {
    let (mut decoder, mut out) = (ConverseDecoder::new("p"), Vec::new());
    decoder.feed(&[start(), text("a"), stop("end_turn")].concat(), &mut out);
    assert!(decoder.finish_seen() && !decoder.is_done());
    let progress = decoder.progress();
    decoder.feed(&metadata(), &mut out);
    assert!(decoder.is_done() && decoder.progress() > progress);
    let count = out.len();
    decoder.feed(&text("late"), &mut out);
    decoder.end(&mut out);
    assert_eq!(out.len(), count, "what follows is ignored");
    // The bill first, none at all, or one that was cut.
    let table = [
        [metadata(), stop("end_turn")].concat(),
        stop("end_turn"),
        [stop("end_turn"), metadata()[..20].to_vec()].concat(),
    ];
    for end in table {
        let response = answer(&[start(), text("a"), end].concat());
        assert_eq!((response.finish_reason, response.error), (Some(FinishReason::Stop), None));
    }
}

#[test]
fn fault_d1_r1_9_a_stream_that_was_cut_anywhere_is_one_truncation() {
    let body = [start(), text("a"), tool_start(1, "x", "f"), input(1, "{}"), block_stop(1), stop("tool_use")];
    let body = body.concat();
    for cut in 0..body.len() {
        let response = assemble(decode_with(ConverseDecoder::new("p"), [&body[..cut]]));
        assert_eq!(kind_of(&response), Some(ErrorKind::Truncated), "cut at {cut}");
        assert_eq!(response.tool_calls().count(), 0, "a call cut off is not complete");
        assert!(response.error.as_ref().is_some_and(ErrorInfo::is_retryable));
    }
}

#[test]
fn fault_r1_10_more_content_after_a_stop_does_not_close_the_message() {
    let body = [start(), text("a"), stop("end_turn"), text("b")].concat();
    assert_eq!(kind_of(&answer(&body)), Some(ErrorKind::Truncated), "it went on and was not finished");
    let response = answer(&[body.clone(), stop("max_tokens"), metadata()].concat());
    assert_eq!((response.text().as_str(), response.finish_reason), ("ab", Some(FinishReason::Length)));
    let response = answer(&[text("a"), stop("max_tokens"), text("b"), stop("end_turn"), metadata()].concat());
    assert_eq!(response.finish_reason, Some(FinishReason::Length), "a cut is not forgotten");
}

#[test]
fn fault_e25_a_second_answer_in_the_same_stream_is_an_error() {
    for between in [vec![], stop("end_turn")] {
        let response = answer(&[start(), text("a"), between, start(), text("b")].concat());
        assert_eq!((kind_of(&response), response.text().as_str()), (Some(ErrorKind::Protocol), "a"));
    }
    let response = answer(&[start(), start(), text("a"), stop("end_turn"), metadata()].concat());
    assert_eq!(
        (response.text().as_str(), response.error),
        ("a", None),
        "a start said twice is no second answer"
    );
}

#[test]
fn fault_r6_91_a_later_usage_replaces_and_the_same_is_not_repeated() {
    let usage = |n: u64| event("metadata", &json!({ "usage": { "inputTokens": 1, "outputTokens": n } }));
    let body = [usage(1), usage(1), event("metadata", &json!({})), text("a"), stop("end_turn")].concat();
    let items = items(&body);
    let snapshots =
        items.iter().filter(|i| matches!(i, StreamItem::Event(LlmEvent::UsageSnapshot(_)))).count();
    assert_eq!(snapshots, 1);
    assert_eq!(assemble(items).usage.output_tokens, Some(1));
}

#[test]
fn fault_f9_a_broken_answer_has_its_usage_as_far_as_known() {
    let usage = event("metadata", &json!({ "usage": { "inputTokens": 5 } }));
    let response = answer(&[start(), usage, text("a")].concat());
    assert_eq!((response.usage.input_tokens, response.usage.partial), (Some(5), true));
}
