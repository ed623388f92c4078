//! The Gemini decoder.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use turnwright_core::{Message, MessageId, Part, Role, TokenUsage};
use turnwright_llm_stream::{
    LlmRequest, LlmResponse, StreamItem,
    wire::gemini::{GeminiDecoder, gemini_body},
};

use crate::support::{Recorded, assemble, check_calls, check_end, decode, recorded};

/// What an independent reader found, with our ids where it has none. They must be unique.
pub(crate) fn with_ids(expected: &Value, response: &LlmResponse) -> Value {
    let ids: HashSet<_> = response.tool_calls().map(|call| &call.id).collect();
    assert_eq!(ids.len(), response.tool_calls().count());
    let mut expected = expected.clone();
    for (theirs, ours) in expected["tool_calls"].as_array_mut().unwrap().iter_mut().zip(response.tool_calls())
    {
        if theirs["id"].is_null() {
            theirs["id"] = ours.id.as_str().into();
        }
    }
    expected
}

fn check(name: &str, items: &[StreamItem], expected: &Value) {
    let response = assemble(name, items);
    assert_eq!(response.text(), expected["text"].as_str().unwrap_or_default(), "{name}: text");
    assert_eq!(response.reasoning(), expected["reasoning"].as_str().unwrap_or_default(), "{name}: reasoning");
    check_usage(name, &response, &expected["usage"]);
    // What is complete was so before the cut.
    let incomplete = response.tool_calls().count() < expected["tool_calls"].as_array().unwrap().len();
    if !incomplete {
        check_calls(name, items, &response, &with_ids(expected, &response), false);
    }
    if let Some(reason) = expected["block_reason"].as_str() {
        let error = response.error.unwrap();
        assert_eq!(
            (error.kind.name().as_str(), error.code.as_deref()),
            ("content_filter", Some(reason)),
            "{name}"
        );
        return;
    }
    if let Some(error) = expected.get("error").filter(|error| error["code"].is_u64()) {
        let ours = response.error.unwrap();
        assert_eq!(ours.status.map(u64::from), error["code"].as_u64(), "{name}");
        assert_eq!(ours.code.as_deref(), error["status"].as_str(), "{name}");
        return;
    }
    let cut = expected["finish_reason"].is_null();
    check_end(name, &response, cut);
    assert!(!incomplete || cut, "{name}: calls");
    if !cut {
        assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
    }
}

fn check_usage(name: &str, response: &LlmResponse, usage: &Value) {
    let count = |field: &str| usage[field].as_u64();
    let sum = |a: Option<u64>, b: Option<u64>| a.or(b).map(|_| a.unwrap_or(0) + b.unwrap_or(0));
    let theirs = TokenUsage {
        input_tokens: sum(count("promptTokenCount"), count("toolUsePromptTokenCount")),
        output_tokens: sum(count("candidatesTokenCount"), count("thoughtsTokenCount")),
        cache_read_input_tokens: count("cachedContentTokenCount"),
        cache_creation_input_tokens: None,
        reasoning_tokens: count("thoughtsTokenCount"),
        partial: false,
    };
    assert_eq!(TokenUsage { partial: false, ..response.usage }, theirs, "{name}: usage");
    if let (Some(input), Some(output), Some(total)) =
        (theirs.input_tokens, theirs.output_tokens, count("totalTokenCount"))
    {
        assert!(input + output <= total, "{name}: each token is counted once");
    }
}

/// All parts of the body, in order.
fn parts(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let chunks =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
    let lists = chunks.filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array().cloned());
    lists.flatten().collect()
}

/// Each signature in the body goes back on a part of the same kind, with the same text or call; so do parts that only
/// the server can read.
fn check_replay(Recorded { name, body, .. }: &Recorded, items: &[StreamItem]) {
    let id = MessageId::from_uuid(Default::default());
    let parts_of_answer = assemble(name, items).parts;
    let messages = [Message::user(id, "q"), Message::new(id, Role::Assistant, parts_of_answer)];
    let messages = messages.into_iter().filter(|m| !m.parts.is_empty()).map(Arc::new).collect();
    let request = LlmRequest { model: "gemini-2.5-pro".into(), messages, ..LlmRequest::default() };
    let sent: Value = serde_json::from_slice(&gemini_body(&request).unwrap()).unwrap();
    let streamed = |part: &Value| part["functionCall"]["willContinue"] == true;
    let wanted = |part: &Value| {
        let is_whole = part.get("executableCode").or(part.get("codeExecutionResult")).is_some();
        (part.get("thoughtSignature").is_some() || is_whole) && part.get("inlineData").is_none()
    };
    let normal = |part: &Value| match streamed(part) {
        // Its arguments came later.
        true => json!({ "call": part["functionCall"]["name"], "thoughtSignature": part["thoughtSignature"] }),
        false => part.clone(),
    };
    let was: Vec<Value> = parts(body).iter().filter(|part| wanted(part)).map(normal).collect();
    let has_streamed = parts(body).iter().any(streamed);
    let goes: Vec<Value> = sent["contents"][1]["parts"].as_array().cloned().unwrap_or_default();
    let goes = goes.into_iter().filter(wanted).map(|part| match has_streamed {
        true => json!({ "call": part["functionCall"]["name"], "thoughtSignature": part["thoughtSignature"] }),
        false => part,
    });
    assert_eq!(goes.collect::<Vec<_>>(), was, "{name}: parts that go back");
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("gemini");
    for stream in &recorded {
        let items = decode(stream, || GeminiDecoder::new("p"));
        check(&stream.name, &items, &stream.expected);
        check_replay(stream, &items);
    }
    assert!(recorded.is_empty() || recorded.len() >= 30, "{} files", recorded.len());
}

#[test]
fn every_recorded_stream_means_the_same_as_an_array() {
    for stream in recorded("gemini") {
        let text = String::from_utf8_lossy(&stream.body);
        let chunks: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        if stream.expected.get("error").is_some()
            || chunks.iter().any(|c| serde_json::from_str::<Value>(c).is_err())
        {
            continue;
        }
        let body = format!("[{}\r\n]", chunks.join("\n,\r\n")).into_bytes();
        let name = format!("{} as an array", stream.name);
        let array = Recorded { name, body, expected: stream.expected.clone() };
        let items = decode(&array, || GeminiDecoder::new("p"));
        assert!(items == decode(&stream, || GeminiDecoder::new("p")), "{}", array.name);
        assert!(assemble(&array.name, &items).parts.iter().all(|part| !matches!(part, Part::Image(_))));
    }
}
