//! Each quirk of the format, decoded whole, at every split, and one byte at a time.

use serde_json::{Value, json};
use turnwright_core::{ErrorKind, Part};

use super::*;
use crate::{
    Finish, LlmEvent, LlmResponse, ToolProgress,
    classify::Secrets,
    wire::testing::{assemble, at_every_split, decode_with},
};

mod calls;
mod endings;

/// The items of a body, which are the same at every split.
fn items(body: &str) -> Vec<StreamItem> {
    at_every_split(|| GeminiDecoder::new("p"), body.as_bytes())
}

fn answer(body: &str) -> LlmResponse {
    assemble(items(body))
}

fn error_kind(body: &str) -> ErrorKind {
    answer(body).error.map(|e| e.kind).expect("a failure")
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

/// A chunk of these parts, and perhaps a finish reason.
fn chunk(parts: &Value, reason: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    json!({ "candidates": [candidate], "modelVersion": "m", "responseId": "r" })
}

/// A chunk for each of these lists of parts, the last with a finish reason.
fn finished(lists: &[Value], reason: &str) -> String {
    let last = lists.len() - 1;
    let chunks = lists.iter().enumerate().map(|(at, parts)| chunk(parts, (at == last).then_some(reason)));
    sse(&chunks.collect::<Vec<_>>())
}

/// The parts of an answer, with what is kept of each.
fn shown(response: &LlmResponse) -> Vec<(char, String, Value)> {
    let part = |part: &Part| match part {
        Part::Text { text } => ('t', text.clone(), Value::Null),
        Part::Reasoning(block) => {
            ('r', block.text.clone(), block.opaque.get("gemini_part").cloned().unwrap_or_default())
        }
        Part::ToolCall(call) => ('c', format!("{} {} {}", call.id, call.name, call.arguments), Value::Null),
        other => panic!("{other:?}"),
    };
    response.parts.iter().map(part).collect()
}

#[test]
fn text_and_the_finish_are_told_with_model_and_id() {
    let expected = Finish {
        reason: FinishReason::Stop,
        raw_reason: Some("STOP".into()),
        model: Some("m".into()),
        response_id: Some("r".into()),
    };
    let expected: [StreamItem; 3] = [
        LlmEvent::text("é\n").into(),
        LlmEvent::text("b").into(),
        LlmEvent::Finish(Box::new(expected)).into(),
    ];
    let lists = [json!([{ "text": "é\n" }]), json!([{ "text": "b" }])];
    assert_eq!(items(&finished(&lists, "STOP")), expected);
    let chunks = [chunk(&lists[0], None), chunk(&lists[1], Some("STOP"))].map(|c| format!("{c:#}"));
    for array in [
        format!("[{}\n,\r\n{}]", chunks[0], chunks[1]),
        format!("\u{feff} \n[{},{}] and what follows", chunks[0], chunks[1]),
        // The body may lack its last byte: all of the answer came.
        format!("[{},{}", chunks[0], chunks[1]),
    ] {
        assert_eq!(items(&array), expected);
    }
}

#[test]
fn fault_r1_12_signatures_are_kept_with_their_part() {
    let body = finished(
        &[
            json!([{ "text": "hm", "thought": true }, { "text": " so", "thought": true }]),
            json!([{ "text": "ok", "thought": true, "thoughtSignature": "s1" }]),
            json!([{ "text": "a" }, { "text": "bé", "thoughtSignature": "s2" }, { "text": "c" }]),
            json!([{ "functionCall": { "name": "f", "args": { "b": 1, "a": 2 } }, "thoughtSignature": "s3" }]),
            json!([{ "executableCode": { "language": "PYTHON", "code": "1" }, "thoughtSignature": "s4" }]),
            json!([{ "text": "", "thoughtSignature": "s5" }, { "thoughtSignature": "s6" }]),
        ],
        "STOP",
    );
    let text = |bytes: u64, s: &str| json!({ "of": "text", "bytes": bytes, "thoughtSignature": s });
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" }, "thoughtSignature": "s4" });
    let expected = [
        ('r', "hm sook".into(), json!({ "of": "thought", "bytes": 2, "thoughtSignature": "s1" })),
        ('t', "abé".into(), Value::Null),
        ('r', String::new(), text(3, "s2")),
        ('t', "c".into(), Value::Null),
        ('r', String::new(), json!({ "of": "functionCall", "thoughtSignature": "s3" })),
        ('c', "call_1 f {\"a\":2,\"b\":1}".into(), Value::Null),
        ('r', String::new(), json!({ "part": code })),
        ('r', String::new(), text(0, "s5")),
        ('r', String::new(), text(0, "s6")),
    ];
    assert_eq!(shown(&answer(&body)), expected);
}

#[test]
fn fault_e10_e30_odd_candidates_contents_and_parts_are_skipped() {
    let with = |candidate: Value| json!({ "candidates": [candidate] });
    let odd = sse(&[
        json!({}),
        json!({ "candidates": null, "error": null, "promptFeedback": { "safetyRatings": [] } }),
        json!({ "candidates": [null, {}] }),
        with(json!({ "content": null })),
        with(json!({ "content": "words" })),
        with(json!({ "content": { "role": "model" }, "finishReason": "" })),
        with(json!({ "content": { "parts": { "text": "no list" } } })),
        with(json!({ "content": { "parts": [] }, "finishReason": "FINISH_REASON_UNSPECIFIED" })),
        with(json!({ "content": { "parts": [{}, null, 7, { "text": "" }, { "text": null }] } })),
        with(
            json!({ "content": { "parts": [{ "inlineData": { "mimeType": "image/png", "data": "AA==" } }] } }),
        ),
        with(json!({ "index": 1, "content": { "parts": [{ "text": "another" }] }, "finishReason": "STOP" })),
        json!({ "promptFeedback": { "blockReason": "BLOCKED_REASON_UNSPECIFIED" } }),
        with(json!({ "safetyRatings": [{ "category": "NEW" }], "content": { "parts": [{ "text": "a" }] } })),
        with(json!({ "finishReason": "OF_A_LATER_VERSION" })),
    ]);
    let response = answer(&odd);
    assert_eq!((response.parts, response.error), (vec![Part::text("a")], None));
    assert_eq!(response.finish_reason, Some(FinishReason::Other));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("OF_A_LATER_VERSION"));
}

#[test]
fn fault_e12_usage_is_taken_from_any_chunk_and_merged() {
    let with = |usage: Value| json!({ "usageMetadata": usage });
    let body = sse(&[
        with(json!({ "promptTokenCount": 5, "thoughtsTokenCount": 3 })),
        with(json!({ "promptTokenCount": 5, "candidatesTokenCount": 2 })),
        with(json!({ "promptTokenCount": 5, "candidatesTokenCount": 2 })),
        chunk(&json!([]), Some("STOP")),
        with(json!({ "cachedContentTokenCount": 4 })),
    ]);
    let items = items(&body);
    let snapshots = items.iter().filter(|i| matches!(i, StreamItem::Event(LlmEvent::UsageSnapshot(_))));
    assert_eq!(snapshots.count(), 3, "an unchanged snapshot is not repeated");
    let usage = assemble(items).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(5), Some(5)));
    assert_eq!((usage.cache_read_input_tokens, usage.reasoning_tokens), (Some(4), Some(3)));
}
