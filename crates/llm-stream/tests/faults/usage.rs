//! Token usage.

use serde_json::json;
use turnwright_core::TokenUsage;

use crate::{
    format::{ALL, Format, Say},
    read::{assemble, decode, items},
};

/// A usage object on its own event, in the words of the format.
fn usage(format: Format, input: u64, output: u64) -> crate::format::Frame {
    match format {
        Format::Chat => (
            "",
            json!({ "id": "r", "choices": [{ "index": 0, "delta": {} }], "usage": { "prompt_tokens": input, "completion_tokens": output } }),
        ),
        Format::Responses => (
            "response.in_progress",
            json!({ "type": "response.in_progress", "response": { "id": "r", "usage": { "input_tokens": input, "output_tokens": output } } }),
        ),
        Format::Messages => (
            "message_delta",
            json!({ "type": "message_delta", "delta": {}, "usage": { "input_tokens": input, "output_tokens": output } }),
        ),
        Format::Gemini => (
            "",
            json!({ "responseId": "r", "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": output } }),
        ),
        Format::Ollama => (
            "",
            json!({ "model": "m", "message": { "content": "" }, "done": false, "prompt_eval_count": input, "eval_count": output }),
        ),
    }
}

fn of(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input_tokens: Some(input), output_tokens: Some(output), ..TokenUsage::UNKNOWN }
}

#[test]
fn fault_e12_r6_91_usage_on_any_event_is_taken_and_the_last_replaces_what_was() {
    for format in ALL {
        let whole = format.answer(&[Say::Text("a"), Say::Text("b")]);
        let end = format.finish(turnwright_llm_stream::FinishReason::Stop, Some((7, 5))).len();
        for at in 1..=whole.len() - end {
            let mut frames = whole.clone();
            frames.insert(at, usage(format, 7, 1));
            let response = assemble(&items(format, &format.body(&frames)));
            assert_eq!((response.usage, response.error), (of(7, 5), None), "{format:?} at {at}");
            // It is the only one.
            let mut frames = format.unfinished(&[Say::Text("a"), Say::Text("b")]);
            frames.insert(at, usage(format, 7, 1));
            frames.extend(format.finish(turnwright_llm_stream::FinishReason::Stop, None));
            let response = assemble(&items(format, &format.body(&frames)));
            assert_eq!((response.usage, response.text().as_str()), (of(7, 1), "ab"), "{format:?} at {at}");
        }
    }
}

#[test]
fn fault_f9_what_a_broken_answer_used_is_known_so_far_and_marked() {
    for format in ALL {
        let mut frames = format.unfinished(&[Say::Text("a")]);
        frames.push(usage(format, 7, 1));
        let response = assemble(&decode(format, [format.body(&frames).as_bytes()]));
        assert!(response.error.is_some());
        assert_eq!(response.usage, TokenUsage { partial: true, ..of(7, 1) }, "{format:?}");
    }
}

#[test]
fn fault_f8_r6_95_cached_and_reasoning_tokens_are_parts_as_each_provider_defines_them() {
    let table = [
        (
            Format::Chat,
            json!({ "id": "r", "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": {
                "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                "prompt_tokens_details": { "cached_tokens": 60 }, "completion_tokens_details": { "reasoning_tokens": 8 } } }),
            [Some(100), Some(20), Some(60), None, Some(8)],
        ),
        // Here reasoning stands beside the completion.
        (
            Format::Chat,
            json!({ "id": "r", "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": {
                "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 128,
                "completion_tokens_details": { "reasoning_tokens": 8 } } }),
            [Some(100), Some(28), None, None, Some(8)],
        ),
        (
            Format::Responses,
            json!({ "type": "response.completed", "response": { "id": "r", "status": "completed", "output": [], "usage": {
                "input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
                "input_tokens_details": { "cached_tokens": 60 }, "output_tokens_details": { "reasoning_tokens": 8 } } } }),
            [Some(100), Some(20), Some(60), None, Some(8)],
        ),
        // Here the input leaves the cached tokens out.
        (
            Format::Messages,
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": {
                "input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30, "output_tokens": 20 } }),
            [Some(100), Some(20), Some(60), Some(30), None],
        ),
        // And here the output leaves the thoughts out.
        (
            Format::Gemini,
            json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": {
                "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 12,
                "thoughtsTokenCount": 8, "totalTokenCount": 120 } }),
            [Some(100), Some(20), Some(60), None, Some(8)],
        ),
        (
            Format::Ollama,
            json!({ "message": { "content": "" }, "done": true, "prompt_eval_count": 100, "eval_count": 20 }),
            [Some(100), Some(20), None, None, None],
        ),
    ];
    for (format, event, expected) in table {
        let mut frames = format.unfinished(&[Say::Text("a")]);
        // Told twice it counts once.
        frames.push(("", event.clone()));
        if matches!(format, Format::Chat | Format::Gemini | Format::Messages) {
            frames.push(("", event));
        }
        let usage = assemble(&decode(format, [format.body(&frames).as_bytes()])).usage;
        let known = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.reasoning_tokens,
        ];
        assert_eq!((known, usage.partial), (expected, false), "{format:?}");
    }
}
