//! The Responses decoder.

use serde_json::{Value, json};
use turnwright_core::{Part, TokenUsage};
use turnwright_llm_stream::{LlmEvent, StreamItem, wire::responses::ResponsesDecoder};

use crate::support::{Recorded, assemble, check_calls, check_end, decode, recorded};

/// What an independent reader made of the body, in its words.
fn check(name: &str, items: &[StreamItem], expected: &Value) {
    let response = assemble(name, items);
    let words = |field: &str| expected[field].as_str().unwrap_or_default();
    assert_eq!(response.text(), format!("{}{}", words("text"), words("refusal")), "{name}: text");
    assert_eq!(response.reasoning(), words("reasoning"), "{name}: reasoning");
    let cut = expected["finish_reason"].is_null() && name.contains("--cut-");
    // Of an answer that is not whole the server says twice why; the second word says more.
    let finish = expected["incomplete_reason"].as_str().or(expected["finish_reason"].as_str());
    assert_eq!(response.raw_finish_reason.as_deref(), finish, "{name}");
    check_end(name, &response, cut);
    if !cut {
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
        assert!(response.response_id.is_some(), "{name}");
    }
    if cut {
        // The other reader too takes a call for complete when its item is done.
        let complete = response.tool_calls().map(|call| json!({ "id": call.id, "name": call.name }));
        let expected = expected["tool_calls"].as_array().unwrap().iter();
        let expected = expected.map(|call| json!({ "id": call["id"], "name": call["name"] }));
        assert_eq!(complete.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}: calls");
    } else {
        check_calls(name, items, &response, expected, cut);
    }

    let usage = &expected["usage"];
    let (input, output) = (&usage["input_tokens_details"], &usage["output_tokens_details"]);
    let theirs = TokenUsage {
        input_tokens: usage["input_tokens"].as_u64(),
        output_tokens: usage["output_tokens"].as_u64(),
        cache_read_input_tokens: input["cached_tokens"].as_u64(),
        cache_creation_input_tokens: input["cache_write_tokens"].as_u64(),
        reasoning_tokens: output["reasoning_tokens"].as_u64(),
        partial: false,
    };
    assert_eq!(TokenUsage { partial: false, ..response.usage }, theirs, "{name}: usage");
}

/// The encrypted reasoning that is in the body, where items end, against that which goes back.
fn check_reasoning(Recorded { name, body, .. }: &Recorded, items: &[StreamItem]) {
    let text = String::from_utf8_lossy(body);
    let events = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok());
    let ended = events.filter(|event: &Value| event["type"] == "response.output_item.done");
    let sent: Vec<Value> =
        ended.map(|event| event["item"].clone()).filter(|i| i["type"] == "reasoning").collect();
    let response = assemble(name, items);
    let kept = response.parts.iter().filter_map(|part| match part {
        Part::Reasoning(block) => block.opaque.get("responses_item").cloned(),
        _ => None,
    });
    let whole = sent.into_iter().filter(|item| item["status"] != "incomplete");
    assert_eq!(kept.collect::<Vec<_>>(), whole.collect::<Vec<_>>(), "{name}: reasoning items");
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("openai-responses");
    for stream in &recorded {
        let items = decode(stream, || ResponsesDecoder::new("p"));
        check(&stream.name, &items, &stream.expected);
        check_reasoning(stream, &items);
    }
    assert!(recorded.is_empty() || recorded.len() >= 33, "{} files", recorded.len());
}

#[test]
fn the_events_of_every_recorded_stream_survive_json() {
    for stream in recorded("openai-responses") {
        for item in decode(&stream, || ResponsesDecoder::new("p")) {
            let StreamItem::Event(event) = item else { continue };
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<LlmEvent>(&json).unwrap(), event);
        }
    }
}
