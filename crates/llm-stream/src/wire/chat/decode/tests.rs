//! Each quirk of the format, decoded whole, at every split, and one byte at a time.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use turnwright_core::{ErrorKind, Message, MessageId, Part, Role, ToolCall};

use super::*;
use crate::{
    Finish, LlmEvent, LlmResponse, ToolProgress,
    classify::Secrets,
    wire::WireDecoder,
    wire::testing::{assemble, at_every_split, decode_with},
};

mod alike;
mod calls;
mod endings;
mod limits;
mod shapes;

use calls::{call_stream, piece};

/// The items of a body, which are the same at every split.
fn items(body: &str) -> Vec<StreamItem> {
    at_every_split(|| ChatDecoder::new("p"), body.as_bytes())
}

fn answer(body: &str) -> LlmResponse {
    assemble(items(body))
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// Chunks with these deltas, then a finish reason and the end mark.
fn finished(deltas: &[Value], reason: &str) -> String {
    let chunk =
        |delta: &Value| json!({ "id": "r", "model": "m", "choices": [{ "index": 0, "delta": delta }] });
    let mut chunks: Vec<Value> = deltas.iter().map(chunk).collect();
    chunks.push(json!({ "id": "r", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }));
    sse(&chunks) + "data: [DONE]\n\n"
}

fn error_kind(body: &str) -> ErrorKind {
    answer(body).error.map(|e| e.kind).expect("a failure")
}

#[test]
fn text_and_the_finish_are_told_with_model_and_id() {
    let body =
        finished(&[json!({ "role": "assistant", "content": "" }), json!({ "content": "é\n" })], "stop");
    let expected = Finish {
        reason: FinishReason::Stop,
        raw_reason: Some("stop".into()),
        model: Some("m".into()),
        response_id: Some("r".into()),
    };
    let expected: [StreamItem; 2] =
        [LlmEvent::text("é\n").into(), LlmEvent::Finish(Box::new(expected)).into()];
    assert_eq!(items(&body), expected, "and empty text is not emitted (E30)");
}

#[test]
fn fault_e8_r1_9_the_end_of_the_body_counts_only_after_a_finish_reason() {
    let whole = finished(&[json!({ "content": "a" })], "stop");
    let without_mark = whole.strip_suffix("data: [DONE]\n\n").unwrap();
    assert_eq!(answer(without_mark).finish_reason, Some(FinishReason::Stop));
    let without_finish = sse(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]);
    let response = answer(&without_finish);
    assert_eq!(response.error.as_ref().map(|e| e.kind), Some(ErrorKind::Truncated));
    assert!(response.error.as_ref().unwrap().is_retryable());
    assert_eq!(response.text(), "a");
    assert_eq!(error_kind(""), ErrorKind::Truncated);
    // Cut at any byte before the finish reason is whole: truncated, never a decode error.
    let finish = whole.find("\"finish_reason\"").unwrap();
    for cut in 0..finish {
        let out = decode_with(ChatDecoder::new("p"), [&whole.as_bytes()[..cut]]);
        assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::Truncated), "cut at {cut}");
    }
    let cut_call = call_stream(&[piece(json!(0), json!("x"), json!("f"), json!("{\"a"))]);
    let cut_call = &cut_call[..cut_call.find("finish_reason").unwrap()];
    assert_eq!(answer(cut_call).tool_calls().count(), 0, "a cut call is never complete");
}

#[test]
fn fault_e7_r1_19_the_end_mark_ends_the_stream_at_once_with_any_spacing() {
    for mark in
        ["data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "data:   [ DONE ]  \n\n", "event: data\ndata: [DONE]\n\n"]
    {
        let (mut decoder, mut out) = (ChatDecoder::new("p"), Vec::new());
        let body = sse(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]) + mark;
        decoder.feed(body.as_bytes(), &mut out);
        assert!(decoder.is_done(), "{mark:?}: without waiting for the end of the body");
        let count = out.len();
        decoder.feed(b"data: {\"choices\":[],\"cost\":\"0\"}\n\n", &mut out);
        decoder.feed(b"data: garbage\n\n", &mut out);
        decoder.end(&mut out);
        assert_eq!(out.len(), count, "what follows is ignored");
        let response = assemble(out);
        assert_eq!((response.finish_reason, response.raw_finish_reason), (Some(FinishReason::Stop), None));
    }
    let call = sse(&[
        json!({ "choices": [{ "delta": { "tool_calls": [piece(json!(0), json!("x"), json!("f"), json!("{}"))] } }] }),
    ]);
    assert_eq!(answer(&(call + "data: [DONE]\n\n")).finish_reason, Some(FinishReason::ToolCalls));
}

#[test]
fn fault_e6_the_finish_is_seen_before_the_end_mark() {
    let (mut decoder, mut out) = (ChatDecoder::new("p"), Vec::new());
    let body = finished(&[json!({ "content": "a" })], "stop");
    let body = body.strip_suffix("data: [DONE]\n\n").unwrap();
    decoder.feed(body.as_bytes(), &mut out);
    assert!(decoder.finish_seen() && !decoder.is_done());
    let progress = decoder.progress();
    decoder.feed(b": heartbeat\n\n", &mut out);
    assert_eq!(decoder.progress(), progress);
    decoder.end(&mut out);
    assert_eq!(assemble(out).finish_reason, Some(FinishReason::Stop));
}

#[test]
fn fault_r1_10_more_content_after_a_finish_reason_does_not_close_the_message() {
    let chunk = |delta: Value, reason: Value| json!({ "id": "r", "choices": [{ "delta": delta, "finish_reason": reason }] });
    let body = sse(&[
        chunk(json!({ "content": "a" }), json!("stop")),
        chunk(json!({ "content": "b" }), json!(null)),
        chunk(json!({}), json!("length")),
    ]);
    let response = answer(&body);
    assert_eq!((response.text().as_str(), response.finish_reason), ("ab", Some(FinishReason::Length)));
    let cut = sse(&[
        chunk(json!({ "content": "a" }), json!("stop")),
        chunk(json!({ "content": "b" }), json!(null)),
    ]);
    assert_eq!(error_kind(&cut), ErrorKind::Truncated, "the answer went on and was not finished");
}

#[test]
fn fault_e25_a_second_answer_in_the_same_stream_is_an_error() {
    let chunk = |id: &str, delta: Value, reason: Value| json!({ "id": id, "choices": [{ "delta": delta, "finish_reason": reason }] });
    let first = chunk("r1", json!({ "content": "a" }), json!("stop"));
    let second = chunk("r2", json!({ "role": "assistant", "content": "b" }), json!(null));
    let response = answer(&sse(&[first.clone(), second]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Protocol));
    assert_eq!(response.parts, [Part::text("a")], "nothing of the second answer is shown");
    // The last chunk of some servers has an id of its own and says nothing new.
    let last = json!({ "id": "r2", "choices": [{ "delta": { "content": "" }, "finish_reason": "stop" }], "usage": { "prompt_tokens": 1 } });
    let response = answer(&sse(&[first, last]));
    assert_eq!((response.error, response.usage.input_tokens), (None, Some(1)));
}

#[test]
fn duplicate_finish_reasons_are_tolerated_and_the_first_wins() {
    let chunk = |reason: &str| json!({ "choices": [{ "delta": {}, "finish_reason": reason }] });
    let usage = json!({ "choices": [], "usage": { "completion_tokens": 3 } });
    let response = answer(&sse(&[chunk("tool_calls"), chunk("stop"), usage]));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("tool_calls"));
    assert_eq!(response.usage.output_tokens, Some(3));
}

#[test]
fn fault_e12_usage_is_taken_from_any_chunk_and_replaces_what_was() {
    let usage = |n: u64| json!({ "prompt_tokens": 1, "completion_tokens": n });
    let body = sse(&[
        json!({ "choices": [{ "delta": { "content": "a" } }], "usage": usage(1) }),
        json!({ "choices": [{ "delta": { "content": "b" } }], "usage": usage(1) }),
        json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }], "x_groq": { "usage": usage(2) } }),
        json!({ "choices": [], "usage": usage(3), "x_groq": { "usage": usage(2) } }),
        json!({ "choices": [], "usage": null, "x_groq": null }),
    ]);
    let items = items(&body);
    let snapshots =
        items.iter().filter(|i| matches!(i, StreamItem::Event(LlmEvent::UsageSnapshot(_)))).count();
    assert_eq!(snapshots, 3, "an unchanged snapshot is not repeated");
    assert_eq!(assemble(items).usage.output_tokens, Some(3));
}

#[test]
fn fault_e10_odd_deltas_and_choices_are_skipped() {
    let odd = sse(&[
        json!({ "choices": [] }),
        json!({ "choices": null }),
        json!({ "choices": [{}] }),
        json!({ "choices": [{ "delta": null, "finish_reason": "" }] }),
        json!({ "choices": [{ "index": 0, "delta": { "content": null, "tool_calls": null, "role": "assistant" } }] }),
        json!({ "choices": [{ "index": 1, "delta": { "content": "other" }, "finish_reason": "stop" }] }),
        json!({ "id": "", "seed": 15_092_511_270_073_158_000_u64, "x": [1, { "y": null }] }),
        json!({ "choices": [{ "index": 0, "delta": { "content": "a" }, "message": { "content": "aaa" } }] }),
    ]);
    let response = answer(&(odd + "data: [DONE]\n\n"));
    assert_eq!((response.text().as_str(), response.error, response.response_id), ("a", None, None));
}

#[test]
fn reasoning_under_two_names_is_counted_once() {
    let detail = |text: &str| json!([{ "type": "reasoning.text", "text": text, "index": 0 }]);
    let body = finished(
        &[
            json!({ "reasoning_content": "a", "reasoning": "a" }),
            json!({ "reasoning": "b", "reasoning_details": detail("b") }),
            json!({ "reasoning_content": "c", "reasoning_details": detail("c"), "content": "" }),
            json!({ "reasoning": "d", "reasoning_details": [] }),
            json!({ "reasoning": null, "reasoning_content": "" }),
            json!({ "content": "x" }),
        ],
        "stop",
    );
    let response = answer(&body);
    assert_eq!((response.reasoning().as_str(), response.text().as_str()), ("abcd", "x"));
}

#[test]
fn fault_r1_12_signatures_and_encrypted_reasoning_are_kept_with_their_block() {
    let body = finished(
        &[
            json!({ "reasoning": "a", "reasoning_details": [{ "type": "reasoning.text", "text": "a", "format": "f", "index": 0 }] }),
            json!({ "reasoning": "b", "reasoning_details": [{ "type": "reasoning.text", "text": "b", "format": "f", "index": 0 }] }),
            json!({ "reasoning_details": [{ "type": "reasoning.text", "signature": "s", "format": "f", "index": 0 }] }),
            json!({ "reasoning": "c", "reasoning_details": [{ "type": "reasoning.summary", "summary": "c", "index": 1 }] }),
            json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "d", "id": "i" }] }),
            json!({ "reasoning": "e", "reasoning_details": [{ "type": "reasoning.text", "text": "e", "index": 2 }] }),
            json!({ "content": "x" }),
        ],
        "stop",
    );
    let response = answer(&body);
    let blocks: Vec<_> = response
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(r) => Some((r.text.as_str(), Value::Object(r.opaque.clone()))),
            _ => None,
        })
        .collect();
    let details = |entries: Value| json!({ "reasoning_details": entries });
    let expected = [
        ("ab", details(json!([{ "type": "reasoning.text", "signature": "s", "format": "f", "index": 0 }]))),
        (
            "c",
            details(json!([
                { "type": "reasoning.summary", "index": 1 },
                { "type": "reasoning.encrypted", "data": "d", "id": "i" },
            ])),
        ),
        ("e", details(json!([{ "type": "reasoning.text", "index": 2 }]))),
    ];
    assert_eq!(blocks, expected);
}

#[test]
fn content_may_be_a_list_and_a_refusal_is_text_with_its_reason() {
    let thinking = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }]);
    let mixed = json!([{ "type": "thinking", "thinking": "so" }, { "type": "text", "text": "1" }, { "type": "reference" }]);
    let body = finished(
        &[json!({ "content": thinking }), json!({ "content": mixed }), json!({ "content": "44" })],
        "stop",
    );
    let response = answer(&body);
    assert_eq!((response.reasoning().as_str(), response.text().as_str()), ("hmso", "144"));
    let response = answer(&finished(&[json!({ "refusal": "I can" }), json!({ "refusal": "not" })], "stop"));
    assert_eq!((response.text().as_str(), response.finish_reason), ("I cannot", Some(FinishReason::Refusal)));
}

#[test]
fn fault_e21_r1_27_r7_97_an_error_in_the_stream_is_one_failure_after_what_came() {
    let start = sse(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]);
    let errors = [
        (r#"data: {"error":{"code":"rate_limit_exceeded","message":"M"}}"#, ErrorKind::RateLimited),
        (
            r#"data: {"error":{"code":502,"message":"M"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            ErrorKind::Server,
        ),
        (
            r#"data: {"choices":[{"delta":{},"error":{"code":"server_error","message":"M"}}]}"#,
            ErrorKind::Server,
        ),
        (r#"data: {"choices":[{"delta":{},"finish_reason":"error"}]}"#, ErrorKind::Server),
        (
            r#"data: {"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            ErrorKind::Overloaded,
        ),
        (r#"data: {"object":"error","message":"M","code":400}"#, ErrorKind::InvalidRequest),
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"M\"}}",
            ErrorKind::Overloaded,
        ),
        ("event: error\ndata: it broke", ErrorKind::Server),
        ("event: error", ErrorKind::Server),
        ("{\n \"error\": {\"code\": 503, \"message\": \"M\"}\n}", ErrorKind::Overloaded),
    ];
    for (error, kind) in errors {
        let response = answer(&format!("{start}{error}\n\ndata: {{}}\n\ndata: [DONE]\n\n"));
        let failure = response.error.clone().expect("a failure");
        assert_eq!((failure.kind, failure.provider.as_deref()), (kind, Some("p")), "{error}: {failure}");
        assert_eq!(response.text(), "a", "{error}");
    }
}

#[test]
fn fault_e23_a_json_or_html_body_in_place_of_a_stream() {
    assert_eq!(
        error_kind(r#"{"error":{"message":"M","code":"invalid_api_key"}}"#),
        ErrorKind::Authentication
    );
    assert_eq!(error_kind("{\n\"detail\": \"M\"\n}\n"), ErrorKind::Server);
    assert_eq!(error_kind(r#"[{"error":{"code":429,"message":"M"}}]"#), ErrorKind::RateLimited);
    assert_eq!(error_kind("<!DOCTYPE html>\n<html></html>"), ErrorKind::UnexpectedContent);
    assert_eq!(error_kind("{\"cut\": "), ErrorKind::Truncated);
    // A whole answer from a server that does not stream.
    let message = json!({ "role": "assistant", "content": "a", "tool_calls": [{ "id": "x", "function": { "name": "f", "arguments": "{}" } }] });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
    let body = json!({ "id": "r", "object": "chat.completion", "choices": [choice], "usage": { "prompt_tokens": 2 } });
    let response = answer(&body.to_string());
    assert_eq!((response.text().as_str(), response.tool_calls().count()), ("a", 1));
    assert_eq!((response.error, response.usage.input_tokens), (None, Some(2)));
}

#[test]
fn a_garbage_line_is_a_decode_failure_that_does_not_quote_it() {
    let start = sse(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]);
    for garbage in [
        "data: secret garbage\n\n",
        "data: {\"choices\": [{\"delta\": \n\n",
        "data: 7\n\n",
        "data: {\"choices\":7}\n\n",
    ] {
        let response = answer(&format!("{start}{garbage}data: [DONE]\n\n"));
        let error = response.error.clone().expect("a failure");
        assert_eq!((error.kind, response.text().as_str()), (ErrorKind::Decode, "a"), "{garbage}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    let mut body = start.into_bytes();
    body.extend_from_slice(b"data: {\"a\":\"\xFF\"}\n\n");
    let response = assemble(decode_with(ChatDecoder::new("p"), [&body[..]]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Decode));
}

#[test]
fn fault_e1_the_halves_of_an_escaped_pair_in_two_deltas_do_not_break_the_stream() {
    let delta = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let body = delta("a\\ud83d") + &delta("\\ude00b") + &delta("\\ud83d\\ude00") + "data: [DONE]\n\n";
    assert_eq!(answer(&body).text(), "a\u{fffd}\u{fffd}b😀");
}

proptest! {
    #[test]
    fn chunks_that_are_alike_say_the_same_with_and_without_parsing(
        texts in proptest::collection::vec(any::<String>(), 1..8),
        padding in proptest::option::of("[a-z0-9]{0,9}"),
        reason in proptest::option::of(Just("stop")),
    ) {
        let chunk = |text: &str, padding: Option<&String>| {
            let text = serde_json::to_string(text).unwrap();
            let padding = padding.map(|p| format!(",\"obfuscation\":\"{p}\"")).unwrap_or_default();
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}},\"finish_reason\":null}}]{padding}}}\n\n")
        };
        let mut body: String = texts.iter().map(|text| chunk(text, padding.as_ref())).collect();
        body += &sse(&[json!({ "choices": [{ "delta": { "content": "!" }, "finish_reason": reason }] })]);
        // Padding that changes from chunk to chunk; after a finish the same chunk means something else.
        body += &chunk("?", padding.as_ref().map(|p| p.clone() + "z").as_ref());
        let response = assemble(decode_with(ChatDecoder::new("p"), [body.as_bytes()]));
        prop_assert_eq!(response.text(), texts.concat() + "!?");
        prop_assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Truncated));
    }
}
