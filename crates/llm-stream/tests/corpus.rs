//! The decoder and the classifier against recorded bodies of many servers.
//!
//! The recordings are other projects' data and stand outside this repository: in the folder named by
//! `TURNWRIGHT_CORPUS`, else in `shared/corpus` beside the repository. Where they are missing the tests say so and
//! pass, except with `CI` set.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use turnwright_core::{ErrorKind, RandomSource, TokenUsage, clock::SeededRandom};
use turnwright_llm_stream::{
    Assembler, LlmEvent, LlmResponse, StreamItem, ToolProgress,
    classify::{HttpFailure, Secrets},
    wire::{WireDecoder, chat::ChatDecoder},
};

fn corpus() -> Option<PathBuf> {
    let folder = match std::env::var_os("TURNWRIGHT_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    if folder.join("MANIFEST.jsonl").is_file() {
        return Some(folder);
    }
    let message = format!("no corpus at {}; set TURNWRIGHT_CORPUS to run this test", folder.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    // Not with `eprintln`, which the test harness swallows.
    let _ = writeln!(std::io::stderr(), "skipped: {message}");
    None
}

/// The rows of one wire format.
fn rows(corpus: &Path, wire_format: &str) -> Vec<Value> {
    let manifest = fs::read_to_string(corpus.join("MANIFEST.jsonl")).unwrap();
    let rows = manifest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["wire_format"] == wire_format).collect();
    assert!(!rows.is_empty(), "no row of {wire_format}");
    rows
}

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamItem> {
    let (mut decoder, mut out) = (ChatDecoder::new("p"), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done());
    out
}

/// What an independent reader made of the body, in its words.
fn check(name: &str, items: &[StreamItem], expected: &Value, groq_usage: bool) {
    let mut assembler = Assembler::new();
    let mut terminals = 0;
    for item in items {
        assert_eq!(terminals, 0, "{name}: nothing follows the terminal event");
        if let StreamItem::Event(event) = item {
            terminals += usize::from(event.is_terminal());
            assembler.feed(event.clone());
        }
    }
    assert_eq!(terminals, 1, "{name}");
    let response = assembler.finish();
    let words = |field: &str| expected[field].as_str().unwrap_or_default();
    assert_eq!(response.text(), format!("{}{}", words("text"), words("refusal")), "{name}: text");
    assert_eq!(response.reasoning(), words("reasoning"), "{name}: reasoning");
    assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
    check_usage(name, &response, expected, groq_usage);
    let cut = expected["finish_reason"].is_null() && name.contains("--cut-");
    if cut {
        let kind = response.error.as_ref().map(|e| e.kind);
        assert_eq!(kind, Some(ErrorKind::Truncated), "{name}");
    } else {
        assert_eq!(response.error, None, "{name}");
        assert!(response.finish_reason.is_some(), "{name}");
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
        let id = expected["id"].as_str();
        assert!(id.is_none() || response.response_id.as_deref() == id, "{name}: id");
    }
    check_calls(name, items, &response, expected, cut);
}

fn check_calls(name: &str, items: &[StreamItem], response: &LlmResponse, expected: &Value, cut: bool) {
    let complete = response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone()));
    let mut complete: Vec<_> = complete.collect();
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                let call = shown.iter_mut().find(|(shown, ..)| *shown == id.to_string());
                call.unwrap_or_else(|| panic!("{name}: {id} before its start")).2.push_str(fragment);
            }
            _ => {}
        }
    }
    if cut {
        assert!(complete.is_empty(), "{name}: a cut call is not complete");
        complete = shown;
    } else {
        complete.sort();
        shown.sort();
        assert_eq!(complete, shown, "{name}: the progress lane");
        complete =
            response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone())).collect();
    }
    let calls = expected["tool_calls"].as_array().unwrap();
    assert_eq!(complete.len(), calls.len(), "{name}: {complete:?}");
    for ((id, tool, arguments), call) in complete.iter().zip(calls) {
        assert_eq!(
            (Some(tool.as_str()), Some(id.as_str())),
            (call["name"].as_str(), call["id"].as_str()),
            "{name}"
        );
        match call.get("arguments_raw") {
            Some(raw) => assert_eq!(raw.as_str().unwrap_or_default(), arguments, "{name}"),
            None => {
                assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), call["arguments"], "{name}");
            }
        }
    }
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
fn every_recorded_chat_stream_decodes_to_what_an_independent_reader_found() {
    let Some(corpus) = corpus() else { return };
    let random = SeededRandom::new(1);
    let mut checked = 0;
    for row in rows(&corpus, "openai-chat") {
        let (name, Some(expected)) = (row["path"].as_str().unwrap(), row["expected"].as_str()) else {
            continue;
        };
        let expected: Value = serde_json::from_slice(&fs::read(corpus.join(expected)).unwrap()).unwrap();
        let body = fs::read(corpus.join(name)).unwrap();
        let whole = decode([&body[..]]);
        let text = String::from_utf8_lossy(&body);
        let groq =
            text.split("\"x_groq\":").skip(1).any(|x| x.split("}}").next().unwrap().contains("\"usage\""));
        check(name, &whole, &expected, groq);
        assert!(decode(body.chunks(1)) == whole, "{name}: one byte at a time");
        for _ in 0..20 {
            let at = usize::try_from(random.next_u64()).unwrap() % (body.len() + 1);
            let (a, b) = body.split_at(at);
            assert!(decode([a, b]) == whole, "{name}: split at {at}");
        }
        checked += 1;
    }
    assert!(checked >= 70, "{checked} files");
}

#[test]
fn every_recorded_error_body_is_classified() {
    let Some(corpus) = corpus() else { return };
    for row in rows(&corpus, "error-body") {
        let name = row["path"].as_str().unwrap();
        let status = u16::try_from(row["http_status"].as_u64().unwrap()).unwrap();
        let body = fs::read(corpus.join(name)).unwrap();
        let error = HttpFailure {
            provider: "p",
            status,
            content_type: Some("application/json"),
            retry_after: None,
            retry_after_ms: None,
            body: &body,
            secrets: &Secrets::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
        .classify();
        let expected = match status {
            400 if name.contains("handles-context") || name.contains("overflow") => {
                ErrorKind::ContextOverflow
            }
            400 if name.contains("api-key") || name.contains("authentication") => ErrorKind::Authentication,
            400 | 501 => ErrorKind::InvalidRequest,
            401 => ErrorKind::Authentication,
            403 => ErrorKind::PermissionDenied,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::RateLimited,
            _ => ErrorKind::Server,
        };
        assert_eq!(error.kind, expected, "{name}: {error}");
        assert!(!error.message.is_empty() && !error.message.contains("\"error\""), "{name}: {error}");
    }
}

#[test]
fn the_events_of_every_recorded_stream_survive_json() {
    let Some(corpus) = corpus() else { return };
    for row in rows(&corpus, "openai-chat") {
        let body = fs::read(corpus.join(row["path"].as_str().unwrap())).unwrap();
        for item in decode([&body[..]]) {
            let StreamItem::Event(event) = item else { continue };
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<LlmEvent>(&json).unwrap(), event);
        }
    }
}
