//! The chat completions decoder.

use serde_json::Value;
use turnwright_core::TokenUsage;
use turnwright_llm_stream::{LlmEvent, LlmResponse, StreamItem, wire::chat::ChatDecoder};

use crate::support::{assemble, check_calls, check_end, decode, recorded};

/// What an independent reader made of the body, in its words.
fn check(name: &str, items: &[StreamItem], expected: &Value, groq_usage: bool) {
    let response = assemble(name, items);
    let words = |field: &str| expected[field].as_str().unwrap_or_default();
    assert_eq!(response.text(), format!("{}{}", words("text"), words("refusal")), "{name}: text");
    assert_eq!(response.reasoning(), words("reasoning"), "{name}: reasoning");
    assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
    check_usage(name, &response, expected, groq_usage);
    let cut = expected["finish_reason"].is_null() && name.contains("--cut-");
    check_end(name, &response, cut);
    if !cut {
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
        let id = expected["id"].as_str();
        assert!(id.is_none() || response.response_id.as_deref() == id, "{name}: id");
    }
    check_calls(name, items, &response, expected, cut);
}

fn check_usage(name: &str, response: &LlmResponse, expected: &Value, groq_usage: bool) {
    let usage = &expected["usage"];
    if usage.is_null() {
        // The other reader does not know of the place where one provider put usage first.
        assert_eq!(response.usage.is_unknown(), !groq_usage, "{name}");
        return;
    }
    let count = |value: &Value| value.as_u64();
    let (input, output) = (&usage["prompt_tokens_details"], &usage["completion_tokens_details"]);
    let first = |values: &[&Value]| values.iter().filter_map(|v| v.as_u64()).max();
    let reasoning = first(&[&output["reasoning_tokens"], &usage["reasoning_tokens"]]);
    let mut completion = count(&usage["completion_tokens"]);
    if name.starts_with("xai/") {
        completion = completion.zip(reasoning).map(|(c, r)| c + r);
    }
    let ours = TokenUsage { partial: false, ..response.usage };
    let theirs = TokenUsage {
        input_tokens: count(&usage["prompt_tokens"]),
        output_tokens: completion,
        cache_read_input_tokens: first(&[
            &input["cached_tokens"],
            &usage["cached_tokens"],
            &usage["prompt_cache_hit_tokens"],
            &usage["cache_read_input_tokens"],
        ]),
        cache_creation_input_tokens: first(&[
            &usage["cache_creation_input_tokens"],
            &input["cache_write_tokens"],
        ]),
        reasoning_tokens: reasoning,
        partial: false,
    };
    assert_eq!(ours, theirs, "{name}: usage");
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("openai-chat");
    for stream in &recorded {
        let text = String::from_utf8_lossy(&stream.body);
        let groq =
            text.split("\"x_groq\":").skip(1).any(|x| x.split("}}").next().unwrap().contains("\"usage\""));
        check(&stream.name, &decode(stream, || ChatDecoder::new("p")), &stream.expected, groq);
    }
    assert!(recorded.is_empty() || recorded.len() >= 70, "{} files", recorded.len());
}

#[test]
fn the_events_of_every_recorded_stream_survive_json() {
    for stream in recorded("openai-chat") {
        for item in decode(&stream, || ChatDecoder::new("p")) {
            let StreamItem::Event(event) = item else { continue };
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<LlmEvent>(&json).unwrap(), event);
        }
    }
}
