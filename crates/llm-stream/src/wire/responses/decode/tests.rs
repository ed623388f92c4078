//! Each quirk of the format, decoded whole, at every split, and one byte at a time.

use serde_json::{Value, json};
use turnwright_core::{ErrorKind, Part};

use super::*;
use crate::{
    Finish, FinishReason, LlmEvent, LlmResponse, ToolProgress,
    classify::Secrets,
    wire::WireDecoder,
    wire::testing::{assemble, at_every_split, decode_with},
};

mod calls;
mod endings;
mod limits;
mod reasoning;

/// The items of a body, which are the same at every split.
fn items(body: &str) -> Vec<StreamItem> {
    at_every_split(|| ResponsesDecoder::new("p"), body.as_bytes())
}

fn answer(body: &str) -> LlmResponse {
    assemble(items(body))
}

fn error_kind(body: &str) -> ErrorKind {
    answer(body).error.map(|e| e.kind).expect("a failure")
}

/// One event, named in both ways.
fn event(kind: &str, mut fields: Value) -> String {
    fields["type"] = kind.into();
    format!("event: {kind}\ndata: {fields}\n\n")
}

fn created() -> String {
    event("response.created", json!({ "response": { "id": "r", "model": "m", "status": "in_progress" } }))
}

fn completed(output: Value) -> String {
    let mut response = json!({ "id": "r", "model": "m", "status": "completed", "error": null });
    response["output"] = output;
    event("response.completed", Value::from_iter([("response", response)]))
}

fn text(index: u64, delta: &str) -> String {
    event("response.output_text.delta", json!({ "output_index": index, "content_index": 0, "delta": delta }))
}

fn added(index: u64, item: Value) -> String {
    event("response.output_item.added", Value::from_iter([("output_index", index.into()), ("item", item)]))
}

fn done(index: u64, item: Value) -> String {
    event("response.output_item.done", Value::from_iter([("output_index", index.into()), ("item", item)]))
}

fn message(text: &str) -> Value {
    json!({ "type": "message", "id": "msg", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
}

/// An answer of these words, as servers send it.
fn said(words: &str) -> String {
    created()
        + &added(0, message(""))
        + &text(0, words)
        + &done(0, message(words))
        + &completed(json!([message(words)]))
}

#[test]
fn text_and_the_finish_are_told_with_model_and_id() {
    let expected = Finish {
        reason: FinishReason::Stop,
        raw_reason: Some("completed".into()),
        model: Some("m".into()),
        response_id: Some("r".into()),
    };
    let expected: [StreamItem; 2] =
        [LlmEvent::text("é\n").into(), LlmEvent::Finish(Box::new(expected)).into()];
    assert_eq!(items(&said("é\n")), expected);
}

#[test]
fn fault_r1_17_text_that_did_not_come_in_pieces_is_said_once_wherever_it_stands() {
    let part_done = |fields| event("response.output_text.done", fields);
    let at = json!({ "output_index": 0, "content_index": 0, "text": "ab" });
    for body in [
        said("ab"),
        completed(json!([message("ab")])),
        created() + &done(0, message("ab")) + &completed(json!([])),
        created() + &part_done(at.clone()) + &completed(json!([])),
        created()
            + &text(0, "ab")
            + &part_done(at)
            + &done(0, message("ab"))
            + &completed(json!([message("ab")])),
        // Without an index it is not known which part came.
        event("response.output_text.delta", json!({ "delta": "ab" })) + &completed(json!([message("ab")])),
        event("response.output_text.delta", json!({ "item_id": "x", "delta": "ab" }))
            + &event("response.output_text.done", json!({ "item_id": "x", "text": "ab" }))
            + &completed(json!([message("ab")])),
        // Not streamed, though that was asked for.
        json!({ "object": "response", "status": "completed", "output": [message("ab")], "error": null })
            .to_string(),
        format!(
            "data: {}\n\n",
            json!({ "object": "response", "output": [message("ab")], "status": "completed" })
        ),
        // The name stands in one place only.
        said("ab").replace("\"type\":\"response.", "\"kind\":\"response."),
        said("ab").replace("event: ", "id: "),
    ] {
        let response = answer(&body);
        assert_eq!((response.text().as_str(), response.error), ("ab", None), "{body}");
        assert_eq!(response.finish_reason, Some(FinishReason::Stop), "{body}");
    }
    let two = json!({ "type": "message", "id": "msg", "content": [
        { "type": "output_text", "text": "a" }, { "type": "output_text", "text": "b" }, null, 7,
    ] });
    let body = created() + &text(0, "a") + &done(0, two);
    assert_eq!(answer(&body).text(), "ab", "the second part came only at the end");
}

#[test]
fn text_is_not_told_twice_when_the_end_counts_its_parts_in_another_way() {
    let late =
        event("response.output_text.delta", json!({ "output_index": 0, "content_index": 1, "delta": "a" }));
    let body = created()
        + &added(0, message(""))
        + &late
        + &done(0, message("a"))
        + &completed(json!([message("a")]));
    assert_eq!(answer(&body).text(), "a");
}

#[test]
fn pieces_without_labels_or_begin_belong_to_the_item_that_ends_after_them() {
    let piece = |kind: &str, delta: &str| event(kind, json!({ "delta": delta }));
    let call =
        |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\":1}" });
    let thoughts =
        json!({ "type": "reasoning", "id": "rs", "summary": [{ "type": "summary_text", "text": "hm" }] });
    let pieces = [
        piece("response.reasoning_summary_text.delta", "hm"),
        piece("response.output_text.delta", "a"),
        piece("response.function_call_arguments.delta", "{\"a\":1}"),
        piece("response.function_call_arguments.delta", "{\"a\":1}"),
    ];
    let output = [thoughts, message("a"), call("c1"), call("c2")];
    let ends = (0..).zip(&output).map(|(index, item)| done(index, item.clone()));
    let each: String = pieces.iter().cloned().zip(ends).map(|(piece, end)| piece + &end).collect();
    let some = pieces[..3].concat();
    for (body, output) in [
        (each.clone() + &completed(json!([])), &output[..]),
        (each + &completed(json!(output)), &output[..]),
        (some + &completed(json!(&output[..3])), &output[..3]),
    ] {
        let response = answer(&(created() + &body));
        assert_eq!((response.text().as_str(), response.reasoning().as_str()), ("a", "hm"), "{body}");
        let calls: Vec<_> =
            response.tool_calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        let expected = [("c1", "{\"a\":1}"), ("c2", "{\"a\":1}")];
        assert_eq!((calls.as_slice(), &response.error), (&expected[..output.len() - 2], &None), "{body}");
    }
}

#[test]
fn the_answer_may_stand_in_the_last_event_in_place_of_round_it() {
    let end = json!({ "id": "r", "model": "m2", "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" },
        "usage": { "output_tokens": 3 }, "output": [message("a")] });
    let response = answer(&event("response.incomplete", end));
    assert_eq!((response.text().as_str(), response.usage.output_tokens), ("a", Some(3)));
    assert_eq!((response.finish_reason, response.model.as_deref()), (Some(FinishReason::Length), Some("m2")));
}

#[test]
fn fault_e10_e26_e30_what_says_nothing_does_no_harm() {
    let body = event("response.created", json!({ "response": null }))
        + &event("response.in_progress", json!({}))
        + &event("response.output_text.delta", json!({ "output_index": 0, "delta": null }))
        + &event("response.output_text.delta", json!({ "output_index": 0, "delta": "" }))
        + &event("response.output_text.delta", json!({ "output_index": "x", "delta": { "text": "odd" } }))
        + &event("response.function_call_arguments.delta", json!({ "output_index": 9 }))
        + &event("response.output_item.added", json!({ "output_index": 0, "item": null }))
        + &event("response.output_item.done", json!({ "output_index": 0 }))
        + &event("response.web_search_call.searching", json!({ "output_index": 1 }))
        + &event("response.of.a.later.version", json!({ "error": "not ours" }))
        + &event("keepalive", json!({ "sequence_number": 3 }))
        + &added(1, json!({ "type": "web_search_call", "id": "ws" }))
        + &done(1, json!({ "type": "web_search_call", "id": "ws", "status": "completed" }))
        + "data: {}\n\n"
        + &text(2, "a")
        + &completed(json!([{ "type": "web_search_call" }, 1, null, { "type": "new" }]));
    let response = answer(&body);
    assert_eq!((response.parts, response.error), (vec![Part::text("a")], None));
}

#[test]
fn the_model_is_the_one_that_answered() {
    let routed = event("response.completed", json!({ "response": { "model": "m2", "status": "completed" } }));
    assert_eq!(answer(&(created() + &routed)).model.as_deref(), Some("m2"));
    let silent = event("response.completed", json!({ "response": { "model": "" } }));
    assert_eq!(answer(&(created() + &silent)).model.as_deref(), Some("m"));
}

#[test]
fn keep_alives_are_no_progress() {
    let (mut decoder, mut out) = (ResponsesDecoder::new("p"), Vec::new());
    decoder.feed(created().as_bytes(), &mut out);
    let progress = decoder.progress();
    assert!(progress > 0 && !decoder.finish_seen());
    decoder.feed(b": keepalive\n\nevent: keepalive\ndata: {\"type\":\"keepalive\"}\n\n", &mut out);
    assert_eq!(decoder.progress(), progress);
    decoder.feed(text(0, "a").as_bytes(), &mut out);
    assert!(decoder.progress() > progress);
}

#[test]
fn fault_e12_f8_r6_91_usage_is_taken_from_any_event_and_replaced() {
    let usage = |output: u64| {
        json!({ "response": { "usage": {
        "input_tokens": 9, "input_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 1 },
        "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 2 }, "total_tokens": 9 + output,
    } } })
    };
    let body = event("response.created", json!({ "response": { "usage": null } }))
        + &event("response.in_progress", usage(2))
        + &event("response.completed", usage(3));
    let expected = TokenUsage {
        input_tokens: Some(9),
        output_tokens: Some(3),
        cache_read_input_tokens: Some(4),
        cache_creation_input_tokens: Some(1),
        reasoning_tokens: Some(2),
        partial: false,
    };
    assert_eq!(answer(&body).usage, expected);
    assert!(answer(&said("a")).usage.is_unknown(), "unknown is not zero");
}

#[test]
fn fault_e3_r1_25_any_line_end_will_do() {
    let body = said("a\u{1F600}b");
    for end in ["\r\n", "\r"] {
        assert_eq!(items(&body.replace('\n', end)), items(&body));
    }
    assert_eq!(items(&format!("\u{feff}: hello\n\n{}", body.trim_end())), items(&body));
}
