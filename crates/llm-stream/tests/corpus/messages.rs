//! The Messages decoder.

use serde_json::{Value, json};
use turnwright_core::{ErrorKind, Part, TokenUsage};
use turnwright_llm_stream::{LlmEvent, StreamItem, wire::messages::MessagesDecoder};

use crate::support::{Recorded, assemble, check_calls, check_end, decode, recorded};

/// Two answers in one stream, of which the readers made different things.
const SPLICED: &str = "anthropic/vercel-spliced-message-start.sse";

/// What an independent reader made of the body, in its words.
fn check(name: &str, items: &[StreamItem], expected: &Value) {
    let response = assemble(name, items);
    let words = |field: &str| expected[field].as_str().unwrap_or_default();
    assert_eq!(response.text(), words("text"), "{name}: text");
    assert_eq!(response.reasoning(), words("reasoning"), "{name}: reasoning");
    assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
    let cut = expected["finish_reason"].is_null();
    assert!(!cut || name.contains("--cut-"), "{name}");
    check_end(name, &response, cut);
    check_calls(name, items, &response, expected, cut);
    // The other reader stumbles over an end mark that it does not know, and forgets who spoke.
    if !cut && expected["error"].is_null() {
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
        assert_eq!(response.response_id.as_deref(), expected["id"].as_str(), "{name}: id");
    }

    let usage = &expected["usage"];
    let count = |field: &str| usage[field].as_u64();
    let (read, creation) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let theirs = TokenUsage {
        input_tokens: count("input_tokens").map(|n| n + read.unwrap_or(0) + creation.unwrap_or(0)),
        output_tokens: count("output_tokens"),
        cache_read_input_tokens: read,
        cache_creation_input_tokens: creation,
        reasoning_tokens: usage["output_tokens_details"]["thinking_tokens"].as_u64(),
        partial: false,
    };
    assert_eq!(TokenUsage { partial: false, ..response.usage }, theirs, "{name}: usage");
}

/// The thoughts that are kept against those in the body, byte for byte, and against the lengths the other reader found.
fn check_thoughts(Recorded { name, body, expected }: &Recorded, items: &[StreamItem]) {
    let text = String::from_utf8_lossy(body);
    let events =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
    let mut sent: Vec<Value> = Vec::new();
    for event in events {
        let delta = &event["delta"];
        let mut append = |field: &str| {
            let block = sent.last_mut().unwrap();
            let piece = delta[field].as_str().unwrap();
            block[field] = format!("{}{piece}", block[field].as_str().unwrap_or_default()).into();
        };
        match (event["type"].as_str(), delta["type"].as_str()) {
            (Some("content_block_start"), _) => {
                let block = &event["content_block"];
                let is_thought = block["type"].as_str().unwrap().ends_with("thinking");
                sent.extend(is_thought.then(|| block.clone()));
            }
            (_, Some("thinking_delta")) => append("thinking"),
            (_, Some("signature_delta")) => append("signature"),
            _ => {}
        }
    }
    let response = assemble(name, items);
    let kept: Vec<Value> = response
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(reasoning) => {
                let mut block = reasoning.opaque.get("messages_block")?.clone();
                if block["type"] == "thinking" {
                    block["thinking"] = reasoning.text.as_str().into();
                }
                Some(block)
            }
            _ => None,
        })
        .collect();
    if response.error.is_none() {
        assert_eq!(kept, sent, "{name}: thoughts");
    } else {
        assert_eq!(kept, [json!(null); 0], "{name}: thoughts that were cut go back to nobody");
    }
    let blocks = expected["blocks"].as_array().into_iter().flatten();
    let theirs = blocks.filter(|block| block["type"].as_str().unwrap().ends_with("thinking"));
    let length = |field: &Value| field.as_str().map(|field| field.chars().count());
    let count = |field: &Value| field.as_u64().and_then(|n| usize::try_from(n).ok());
    let ours: Vec<_> =
        kept.iter().map(|b| [length(&b["thinking"]), length(&b["signature"]), length(&b["data"])]).collect();
    let theirs: Vec<_> = theirs
        .map(|b| [count(&b["thinking_len"]), count(&b["signature_len"]), count(&b["data_len"])])
        .collect();
    assert!(response.error.is_some() || ours == theirs, "{name}: {ours:?} {theirs:?}");
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("anthropic");
    for stream in recorded.iter().filter(|stream| stream.name != SPLICED) {
        let items = decode(stream, || MessagesDecoder::new("p"));
        check(&stream.name, &items, &stream.expected);
        check_thoughts(stream, &items);
    }
    assert!(recorded.is_empty() || recorded.len() >= 45, "{} files", recorded.len());
}

#[test]
fn fault_e25_two_answers_in_one_stream_are_an_error() {
    for stream in recorded("anthropic").iter().filter(|stream| stream.name == SPLICED) {
        let response = assemble(SPLICED, &decode(stream, || MessagesDecoder::new("p")));
        assert_eq!(response.error.as_ref().map(|e| e.kind), Some(ErrorKind::Protocol));
        assert!(response.calls_may_run().is_err());
    }
}

#[test]
fn the_events_of_every_recorded_stream_survive_json() {
    for stream in recorded("anthropic") {
        for item in decode(&stream, || MessagesDecoder::new("p")) {
            let StreamItem::Event(event) = item else { continue };
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<LlmEvent>(&json).unwrap(), event);
        }
    }
}
