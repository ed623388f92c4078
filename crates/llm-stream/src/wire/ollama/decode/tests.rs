//! Each quirk of the format, decoded whole, at every split, and one byte at a time.

use serde_json::{Value, json};
use turnwright_core::{ErrorKind, Part};

use super::*;
use crate::{
    Finish, FinishReason, LlmEvent, LlmResponse, ToolProgress,
    wire::testing::{assemble, at_every_split, decode_with},
};

mod calls;
mod endings;

/// The items of a body, which are the same at every split.
fn items(body: &str) -> Vec<StreamItem> {
    at_every_split(|| OllamaDecoder::new("p"), body.as_bytes())
}

fn answer(body: &str) -> LlmResponse {
    assemble(items(body))
}

fn error_kind(body: &str) -> ErrorKind {
    answer(body).error.map(|e| e.kind).expect("a failure")
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A line with this message.
fn said(message: &Value) -> Value {
    json!({ "model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false })
}

fn done(reason: &str) -> Value {
    json!({ "model": "m", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": reason,
        "total_duration": 9, "prompt_eval_count": 5, "eval_count": 7 })
}

/// Lines with these messages, then the last one.
fn finished(messages: &[Value], reason: &str) -> String {
    let mut all: Vec<Value> = messages.iter().map(said).collect();
    all.push(done(reason));
    lines(&all)
}

#[test]
fn text_usage_and_the_finish_are_told() {
    let finish = Finish {
        reason: FinishReason::Stop,
        raw_reason: Some("stop".into()),
        model: Some("m".into()),
        response_id: None,
    };
    let usage = TokenUsage { input_tokens: Some(5), output_tokens: Some(7), ..TokenUsage::UNKNOWN };
    let expected: [StreamItem; 4] = [
        LlmEvent::text("é").into(),
        LlmEvent::text("<").into(),
        LlmEvent::UsageSnapshot(Box::new(usage)).into(),
        LlmEvent::Finish(Box::new(finish)).into(),
    ];
    let body = finished(&[json!({ "content": "é" }), json!({ "content": "<" })], "stop");
    // An answer to a bare prompt.
    let line = |text: &str| json!({ "model": "m", "response": text, "done": false });
    let mut last = done("stop");
    last["response"] = "".into();
    let prompted = lines(&[line("é"), line("<"), last]);
    for body in [
        body.clone(),
        body.replace('\n', "\r\n"),
        body.replace('\n', "\n\n \n"),
        body.replace("\"<\"", "\"\\u003c\""),
        body.trim_end().to_owned(),
        prompted.clone(),
    ] {
        assert_eq!(items(&body), expected, "{body}");
    }
}

#[test]
fn thoughts_are_marked_where_they_end() {
    let think = |text: &str| json!({ "content": "", "thinking": text });
    let body = finished(&[think("h"), think("m"), json!({ "content": "a" }), think("so")], "stop");
    let response = answer(&body);
    let blocks: Vec<(&str, bool)> = response
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(block) => {
                Some((block.text.as_str(), block.opaque.contains_key("ollama_thinking")))
            }
            _ => None,
        })
        .collect();
    assert_eq!((blocks, response.text().as_str()), (vec![("hm", true), ("so", true)], "a"));
    let cut = answer(&finished(&[think("hm")], "length"));
    let Some(Part::Reasoning(block)) = cut.parts.first() else { panic!("{:?}", cut.parts) };
    assert!(block.opaque.is_empty(), "thoughts that were cut go back to no provider");
    // All in one line.
    let whole =
        json!({ "message": { "thinking": "hm", "content": "a" }, "done": true, "done_reason": "stop" });
    let response = answer(&whole.to_string());
    assert_eq!((response.reasoning().as_str(), response.text().as_str()), ("hm", "a"));
    // The form without messages.
    let response = answer(&lines(&[
        json!({ "thinking": "hm", "response": "" }),
        json!({ "response": "a", "done": true }),
    ]));
    assert_eq!((response.reasoning().as_str(), response.text().as_str()), ("hm", "a"));
}

#[test]
fn fault_e10_e30_odd_lines_and_fields_are_skipped() {
    let mut odd = vec![
        said(&json!(null)),
        said(&json!("words")),
        said(&json!({})),
        said(&json!({ "content": null, "thinking": null, "tool_calls": null, "images": null })),
        said(&json!({ "content": 7, "tool_calls": [null] })),
        said(&json!({ "tool_calls": {} })),
        json!({ "status": "of a later version" }),
        json!({}),
        said(&json!({ "content": "a" })),
    ];
    odd.push(json!({ "done": true, "prompt_eval_count": null, "eval_count": "x", "context": [1, 2], "error": null }));
    let response = answer(&lines(&odd));
    assert_eq!((&response.parts, &response.error), (&vec![Part::text("a")], &None));
    assert_eq!((response.finish_reason, response.raw_finish_reason), (Some(FinishReason::Stop), None));
    assert!(response.usage.is_unknown(), "unknown is not zero");
}
