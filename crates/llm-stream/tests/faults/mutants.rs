//! Any one thing of an answer is odd: null, gone, of another type, twice, or out of order.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;

use crate::{
    format::{ALL, Format, Frame, Say},
    read::{assemble, decode},
};

const SAYS: [Say<'_>; 4] =
    [Say::Thought("hm"), Say::Text("hello"), Say::Call("c1", "f", "{\"a\":1}"), Say::Call("c2", "g", "{}")];

/// The pointers to all values in this one, itself left out.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, v)| (name.clone(), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let at = format!("{at}/{name}");
        pointers(child, &at, out);
        out.push(at);
    }
}

/// Decodes frames of which one is odd. There is one ending, and a failure is one that says what was wrong with the bytes.
fn hold(format: Format, frames: &[Frame], what: &str) {
    let body = format.body(frames);
    let response = assemble(&decode(format, [body.as_bytes()]));
    if let Some(error) = &response.error {
        let kinds = [ErrorKind::Truncated, ErrorKind::Decode, ErrorKind::Protocol, ErrorKind::Server];
        let is_content = error.kind == ErrorKind::UnexpectedContent;
        assert!(kinds.contains(&error.kind) || is_content, "{format:?} {what}: {error:?}");
    }
    // Nothing is said twice. Another number in the place of a label is believed: it names another part.
    let is_label = what.contains("index = ");
    assert!(is_label || response.text().matches("hello").count() <= 1, "{format:?} {what}: {response:?}");
}

#[test]
fn fault_e10_e26_any_value_may_be_odd() {
    let odd = [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!({}),
        json!([null]),
        json!([{}]),
        json!(true),
        json!(""),
    ];
    for format in ALL {
        let frames = format.answer(&SAYS);
        for at in 0..frames.len() {
            let mut all = Vec::new();
            pointers(&frames[at].1, "", &mut all);
            for pointer in all {
                for value in &odd {
                    let mut frames = frames.clone();
                    *frames[at].1.pointer_mut(&pointer).unwrap() = value.clone();
                    hold(format, &frames, &format!("{pointer} = {value} in frame {at}"));
                }
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                let mut frames = frames.clone();
                if let Some(Value::Object(fields)) = frames[at].1.pointer_mut(parent) {
                    fields.remove(name);
                    hold(format, &frames, &format!("no {pointer} in frame {at}"));
                }
            }
            for value in &odd {
                let mut frames = frames.clone();
                frames[at].1 = value.clone();
                hold(format, &frames, &format!("frame {at} = {value}"));
            }
        }
    }
}

#[test]
fn fault_d1_r1_26_any_event_may_be_missing_or_out_of_place() {
    for format in ALL {
        let frames = format.answer(&SAYS);
        for at in 0..frames.len() {
            let mut without = frames.clone();
            without.remove(at);
            hold(format, &without, &format!("without frame {at}"));
            let mut swapped = frames.clone();
            swapped.swap(at, (at + 1) % frames.len());
            hold(format, &swapped, &format!("frames {at} and the next swapped"));
        }
    }
}

#[test]
fn fault_e10_e26_nulls_that_say_nothing_do_no_harm() {
    let nulls = [
        (Format::Chat, json!({ "choices": [{ "index": 0, "delta": null, "finish_reason": null }] })),
        (Format::Chat, json!({ "choices": null, "usage": null, "error": null })),
        (
            Format::Chat,
            json!({ "choices": [{ "delta": { "content": null, "tool_calls": null, "reasoning_content": null, "refusal": null } }] }),
        ),
        (Format::Responses, json!({ "type": "response.created", "response": null })),
        (Format::Responses, json!({ "type": "response.in_progress", "response": null })),
        (
            Format::Responses,
            json!({ "type": "response.output_text.delta", "output_index": 9, "delta": null }),
        ),
        (Format::Responses, json!({ "type": "response.output_item.added", "output_index": 9, "item": null })),
        (Format::Messages, json!({ "type": "message_start", "message": null })),
        (Format::Messages, json!({ "type": "content_block_start", "index": 9, "content_block": null })),
        (Format::Messages, json!({ "type": "content_block_delta", "index": 9, "delta": null })),
        (Format::Messages, json!({ "type": "message_delta", "delta": null, "usage": null })),
        (Format::Messages, json!({ "type": "ping" })),
        (Format::Gemini, json!({ "candidates": null, "usageMetadata": null, "promptFeedback": null })),
        (Format::Gemini, json!({ "candidates": [{ "content": null, "finishReason": null }] })),
        (Format::Gemini, json!({ "candidates": [{ "content": { "parts": null } }] })),
        (Format::Ollama, json!({ "message": null, "done": false })),
        (
            Format::Ollama,
            json!({ "message": { "content": null, "tool_calls": null, "thinking": null }, "done": null }),
        ),
    ];
    for (format, null) in nulls {
        // As the first event, and in the midst.
        for at in [0, 1, 2] {
            let mut frames = format.answer(&SAYS[..2]);
            frames.insert(at, ("", null.clone()));
            // Once something was said, it may mean that another answer begins.
            let begins = matches!(null["type"].as_str(), Some("message_start" | "response.created"));
            if begins && at == 2 {
                hold(format, &frames, "a begin without anything");
                continue;
            }
            let response = assemble(&decode(format, [format.body(&frames).as_bytes()]));
            assert_eq!(
                (&response.error, response.text().as_str()),
                (&None, "hello"),
                "{format:?} {null} at {at}"
            );
        }
    }
}
