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
mod thoughts;

/// The items of a body, which are the same at every split.
fn items(body: &str) -> Vec<StreamItem> {
    at_every_split(|| MessagesDecoder::new("p"), body.as_bytes())
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

fn started() -> String {
    event(
        "message_start",
        json!({ "message": { "id": "r", "model": "m", "content": [], "stop_reason": null } }),
    )
}

fn begin(index: u64, block: Value) -> String {
    event("content_block_start", Value::from_iter([("index", index.into()), ("content_block", block)]))
}

fn delta(index: u64, kind: &str, field: &str, piece: &str) -> String {
    let delta = Value::from_iter([("type", kind), (field, piece)]);
    event("content_block_delta", Value::from_iter([("index", index.into()), ("delta", delta)]))
}

fn text(index: u64, piece: &str) -> String {
    delta(index, "text_delta", "text", piece)
}

fn end(index: u64) -> String {
    event("content_block_stop", json!({ "index": index }))
}

fn stopped(reason: &str) -> String {
    event(
        "message_delta",
        json!({ "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 7 } }),
    )
}

fn over() -> String {
    event("message_stop", json!({}))
}

/// An answer of these words, as servers send it.
fn said(words: &str) -> String {
    started()
        + &begin(0, json!({ "type": "text", "text": "" }))
        + &text(0, words)
        + &end(0)
        + &stopped("end_turn")
        + &over()
}

#[test]
fn text_usage_and_the_finish_are_told_with_model_and_id() {
    let expected = Finish {
        reason: FinishReason::Stop,
        raw_reason: Some("end_turn".into()),
        model: Some("m".into()),
        response_id: Some("r".into()),
    };
    let usage = turnwright_core::TokenUsage { output_tokens: Some(7), ..Default::default() };
    let expected: [StreamItem; 3] = [
        LlmEvent::text("é\n").into(),
        LlmEvent::UsageSnapshot(Box::new(usage)).into(),
        LlmEvent::Finish(Box::new(expected)).into(),
    ];
    assert_eq!(items(&said("é\n")), expected);
}

#[test]
fn fault_e3_e5_e8_the_framing_does_not_matter() {
    let plain = items(&said("a"));
    for body in [
        said("a").replace('\n', "\r\n"),
        said("a").replace('\n', "\r"),
        said("a").trim_end().to_owned(),
        said("a").replace("data: ", "data:"),
        format!("\u{feff}: keep-alive\n\n\n{}", said("a")),
        said("a").replace("\n\n", "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"),
        said("a") + "event: data\ndata: [DONE]\n\nevent: ping\ndata: {\"type\":\"ping\",\"cost\":\"0\"}\n\n",
        said("a").replace('}', "   }"),
        // The type is named in one way only.
        said("a")
            .lines()
            .filter(|line| !line.starts_with("event:"))
            .map(|line| format!("{line}\n"))
            .collect(),
        said("a").replace("\"type\":\"message_stop\"", "").replace("\"type\":\"message_start\"", "\"x\":1"),
    ] {
        assert_eq!(items(&body), plain, "{body}");
    }
}

#[test]
fn what_is_not_known_is_skipped() {
    let tool = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let result =
        json!({ "type": "web_search_tool_result", "tool_use_id": "s", "content": [{ "text": "x" }] });
    let body = started()
        + &event("of_later", json!({ "delta": { "text": "x" } }))
        + &begin(0, tool)
        + &delta(0, "input_json_delta", "partial_json", "{\"query\":1}")
        + &end(0)
        + &begin(1, result)
        + &end(1)
        + &begin(2, json!({ "type": "of_later", "text": "x" }))
        + &text(2, "x")
        + &begin(3, json!({ "type": "compaction", "content": null }))
        + &delta(3, "compaction_delta", "content", "x")
        + &end(3)
        + &begin(4, json!({ "type": "text", "text": "" }))
        + &delta(4, "citations_delta", "citation", "x")
        + &delta(4, "of_later_delta", "text", "x")
        + &text(4, "a")
        + &end(9)
        + &stopped("end_turn")
        + &over();
    let response = answer(&body);
    assert_eq!(response.parts, [Part::text("a")]);
    assert_eq!((response.finish_reason, response.error), (Some(FinishReason::Stop), None));
}

#[test]
fn fault_e10_e26_values_of_another_type_are_no_failure() {
    let body = event("message_start", json!({ "message": null }))
        + &event(
            "message_start",
            json!({ "message": { "id": 5, "model": [1], "content": "x", "usage": [] } }),
        )
        + &event("content_block_start", json!({ "index": "x", "content_block": null }))
        + &event("content_block_delta", json!({ "index": 0, "delta": null }))
        + &event("content_block_delta", json!({ "index": 0, "delta": ["text_delta"] }))
        + &event("content_block_delta", json!({ "index": 0, "delta": { "type": "text_delta", "text": 7 } }))
        + &event("content_block_delta", json!({}))
        + &event("content_block_stop", json!({}))
        + &event("message_delta", json!({ "delta": null, "usage": "x" }))
        + &text(0, "a")
        + &stopped("end_turn")
        + &over();
    let response = answer(&body);
    assert_eq!((response.text().as_str(), response.error), ("a", None));
}

#[test]
fn fault_r1_17_a_whole_answer_says_the_same_wherever_it_stands() {
    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "S" },
        { "type": "text", "text": "a" },
        { "type": "tool_use", "id": "c", "name": "t", "input": { "x": 1 } },
    ]);
    let message = json!({ "type": "message", "id": "r", "model": "m", "content": content,
        "stop_reason": "tool_use", "usage": { "input_tokens": 3, "output_tokens": 7 } });
    let head = json!({ "message": { "id": "r", "model": "m", "usage": { "input_tokens": 3 } } });
    let streamed = event("message_start", head)
        + &begin(0, json!({ "type": "thinking", "thinking": "", "signature": "" }))
        + &delta(0, "thinking_delta", "thinking", "hm")
        + &delta(0, "signature_delta", "signature", "S")
        + &end(0)
        + &begin(1, json!({ "type": "text", "text": "a" }))
        + &end(1)
        + &begin(2, json!({ "type": "tool_use", "id": "c", "name": "t", "input": {} }))
        + &delta(2, "input_json_delta", "partial_json", "{\"x\":1}")
        + &end(2)
        + &stopped("tool_use")
        + &over();
    let expected = answer(&streamed);
    assert_eq!(expected.parts.len(), 3);
    let in_start = event("message_start", Value::from_iter([("message", message.clone())]));
    for body in [message.to_string(), format!("data: {message}\n\n"), in_start.clone() + &over(), in_start] {
        assert_eq!(answer(&body), expected, "{body}");
    }
}

#[test]
fn fault_r1_26_pieces_go_to_the_block_of_their_index() {
    let tool = |id: &str| json!({ "type": "tool_use", "id": id, "name": "t", "input": {} });
    let json = |index, piece| delta(index, "input_json_delta", "partial_json", piece);
    let body = started()
        + &begin(5, tool("c1"))
        + &begin(2, json!({ "type": "text", "text": "" }))
        + &begin(7, tool("c2"))
        + &json(7, "{\"b\":")
        + &json(5, "{\"a\":")
        + &text(2, "x")
        + &json(7, "2}")
        + &json(5, "1}")
        + &end(2)
        + &end(5)
        + &end(7)
        + &stopped("tool_use")
        + &over();
    let response = answer(&body);
    let calls: Vec<_> = response.tool_calls().map(|c| (c.id.as_str(), c.arguments.as_str())).collect();
    assert_eq!(calls, [("c1", "{\"a\":1}"), ("c2", "{\"b\":2}")]);
    assert_eq!(response.text(), "x");
    // Words without a block's begin are words; arguments are of no call, and nobody guesses of which.
    assert_eq!(answer(&(text(3, "a") + &text(3, "b") + &stopped("end_turn"))).text(), "ab");
    assert_eq!(error_kind(&(started() + &begin(0, tool("c")) + &json(1, "{}"))), ErrorKind::Protocol);
    assert_eq!(error_kind(&(started() + &begin(0, tool("c")) + &text(0, "a"))), ErrorKind::Protocol);
    let words = begin(0, json!({ "type": "text", "text": "" }));
    assert_eq!(error_kind(&(started() + &words + &json(0, "{}"))), ErrorKind::Protocol);
}
