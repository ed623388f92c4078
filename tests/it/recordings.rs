//! Our own recordings of a real server in three wire formats: `recordings/smollm2`, which says how they were made.
//!
//! What each says was read by another reader when it was recorded, and stands in `expected.json`.

use std::{fs, path::PathBuf};

use serde_json::Value;
use turnwright_core::{ErrorKind, RandomSource, TokenUsage, clock::SeededRandom};
use turnwright_llm_stream::{
    Assembler, FinishReason, LlmEvent, LlmResponse, StreamItem, ToolProgress,
    classify::{HttpFailure, Secrets},
    sse::{Frame, SseFramer},
    wire::{WireDecoder, chat::ChatDecoder},
};
use turnwright_testkit::check::stream;

mod messages;
mod responses;

struct Recording {
    name: String,
    format: String,
    body: Vec<u8>,
    expected: Value,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/smollm2")
}

fn recordings() -> Vec<Recording> {
    let expected: Value = serde_json::from_slice(&fs::read(folder().join("expected.json")).unwrap()).unwrap();
    let all = expected.as_object().unwrap().iter().map(|(name, expected)| Recording {
        name: name.clone(),
        format: expected["format"].as_str().unwrap().to_owned(),
        body: fs::read(folder().join(expected["file"].as_str().unwrap())).unwrap(),
        expected: expected.clone(),
    });
    all.collect()
}

/// Streamed ones of one format, or of all.
fn streams(format: Option<&str>) -> Vec<Recording> {
    let mut all = recordings();
    all.retain(|r| r.expected["status"] == 200 && format.is_none_or(|f| r.format == f));
    assert_eq!(all.len(), if format.is_some() { 5 } else { 15 });
    all
}

/// The body in one piece, in bytes, and cut at random places in several ways.
fn splits(body: &[u8]) -> Vec<Vec<&[u8]>> {
    let random = SeededRandom::new(1);
    let below = |n: usize| usize::try_from(random.next_u64() % n as u64).unwrap();
    let mut all = vec![vec![body], body.chunks(1).collect()];
    for _ in 0..40 {
        let (mut rest, mut chunks) = (body, Vec::new());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(1 + below(rest.len().min(400)));
            chunks.push(chunk);
            rest = after;
        }
        all.push(chunks);
    }
    all
}

fn decode_with(mut decoder: impl WireDecoder, chunks: &[&[u8]]) -> Vec<StreamItem> {
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done());
    out
}

/// Every answer in this format says what the other reader found, at any split.
fn agrees_with_another_reader<D: WireDecoder>(format: &str, new: impl Fn() -> D) {
    for Recording { name, body, expected, .. } in streams(Some(format)) {
        let items = decode_with(new(), &[&body]);
        for chunks in splits(&body) {
            let lengths = || chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
            assert!(decode_with(new(), &chunks) == items, "{name}: {:?}", lengths());
        }
        let response = assembled(&items);
        assert_eq!(response.error, None, "{name}");
        assert_eq!(response.text(), expected["text"].as_str().unwrap(), "{name}");
        assert_eq!(response.raw_finish_reason.as_deref(), expected["finish"].as_str(), "{name}");
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}");
        assert_eq!(response.response_id.as_deref(), expected["id"].as_str(), "{name}");
        let TokenUsage { input_tokens, output_tokens, cache_read_input_tokens, partial, .. } = response.usage;
        let counted = ["input", "output", "cached"].map(|field| expected["usage"][field].as_u64());
        assert_eq!([input_tokens, output_tokens, cache_read_input_tokens], counted, "{name}");
        assert!(!partial, "{name}");

        let calls = expected_calls(&expected);
        let (shown, fragments) = shown_calls(&items);
        assert_eq!(shown, calls, "{name}: the progress lane");
        assert!(fragments >= 3 * calls.len(), "{name}: {fragments} fragments");
        let complete = response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone()));
        assert_eq!(complete.collect::<Calls>(), calls, "{name}");
    }
}

/// Names and data of all frames.
fn frames(chunks: &[&[u8]]) -> Vec<(String, String)> {
    let (mut framer, mut out) = (SseFramer::new(), Vec::new());
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().to_owned();
    let mut take = |frame: Frame<'_>| match frame {
        Frame::Event { name, data } => out.push((text(name), text(data))),
        Frame::Bare(bare) => panic!("no SSE: {:?}", String::from_utf8_lossy(bare)),
    };
    for chunk in chunks {
        framer.feed(chunk, &mut take).unwrap();
    }
    framer.end(&mut take).unwrap();
    out
}

/// Calls as `expected.json` has them.
type Calls = Vec<(String, String, String)>;

fn expected_calls(expected: &Value) -> Calls {
    let word = |call: &Value, field: &str| call[field].as_str().unwrap().to_owned();
    let calls = expected["calls"].as_array().unwrap().iter();
    calls.map(|c| (word(c, "id"), word(c, "name"), word(c, "arguments"))).collect()
}

/// What the progress lane showed of the calls, and in how many fragments.
fn shown_calls(items: &[StreamItem]) -> (Calls, usize) {
    let (mut calls, mut fragments) = (Calls::new(), 0);
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                calls.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                fragments += 1;
                calls.iter_mut().find(|c| c.0 == id.to_string()).unwrap().2.push_str(fragment);
            }
            _ => {}
        }
    }
    (calls, fragments)
}

fn assembled(items: &[StreamItem]) -> LlmResponse {
    let events = items.iter().filter_map(|item| match item {
        StreamItem::Event(event) => Some(event.clone()),
        StreamItem::Progress(_) => None,
    });
    let events: Vec<LlmEvent> = events.collect();
    stream(&events).unwrap();
    let mut assembler = Assembler::new();
    events.into_iter().for_each(|event| assembler.feed(event));
    assembler.finish()
}

#[test]
fn a_real_servers_chat_streams_decode_to_what_another_reader_found_at_any_split() {
    agrees_with_another_reader("chat", || ChatDecoder::new("p"));
}

#[test]
fn calls_of_a_real_answer_that_was_cut_do_not_run() {
    let mut seen = Vec::new();
    for Recording { name, body, .. } in streams(Some("chat")) {
        let response = assembled(&decode_with(ChatDecoder::new("p"), &[&body]));
        seen.push((
            name,
            response.finish_reason.unwrap(),
            response.tool_calls().count(),
            response.calls_may_run().is_ok(),
        ));
    }
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let seen: Vec<_> =
        seen.iter().map(|(name, reason, calls, may)| (name.as_str(), *reason, *calls, *may)).collect();
    let expected = [
        ("chat-calls", FinishReason::ToolCalls, 2, true),
        ("chat-cut", FinishReason::Length, 0, false),
        ("chat-cut-call", FinishReason::Length, 2, false),
        ("chat-plain", FinishReason::Stop, 0, true),
        ("chat-tool", FinishReason::ToolCalls, 1, true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_real_servers_bodies_give_the_same_frames_at_any_split() {
    for Recording { name, format, body, .. } in streams(None) {
        let whole = frames(&[&body]);
        for chunks in splits(&body) {
            assert!(
                frames(&chunks) == whole,
                "{name}: {:?}",
                chunks.iter().map(|c| c.len()).collect::<Vec<_>>()
            );
        }
        let (last, before) = whole.split_last().unwrap();
        for (event, data) in before {
            let data: Value = serde_json::from_str(data).unwrap();
            // Two of the formats name each event twice.
            assert_eq!(data["type"].as_str().unwrap_or_default(), event, "{name}");
        }
        match format.as_str() {
            "chat" => assert_eq!((last.0.as_str(), last.1.as_str()), ("", "[DONE]"), "{name}"),
            "responses" => assert_eq!(last.0, "response.completed", "{name}"),
            _ => assert_eq!(
                (last.0.as_str(), before.last().unwrap().0.as_str()),
                ("message_stop", "message_delta")
            ),
        }
    }
}

/// What the decoders of these formats will have to find is in the frames.
#[test]
fn the_frames_of_the_other_formats_hold_what_another_reader_found() {
    for Recording { name, format, body, expected } in streams(None) {
        let (mut text, mut arguments) = (String::new(), String::new());
        for (event, data) in frames(&[&body]) {
            let piece = |field: &str| -> String {
                let data: Value = serde_json::from_str(&data).unwrap();
                data.pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            match event.as_str() {
                "response.output_text.delta" => text += &piece("/delta"),
                "response.function_call_arguments.delta" => arguments += &piece("/delta"),
                "content_block_delta" => {
                    text += &piece("/delta/text");
                    arguments += &piece("/delta/partial_json");
                }
                _ => {}
            }
        }
        if format != "chat" {
            assert_eq!(text, expected["text"].as_str().unwrap(), "{name}");
            let calls: String = expected_calls(&expected).into_iter().map(|call| call.2).collect();
            assert_eq!(arguments, calls, "{name}");
        }
    }
}

#[test]
fn a_real_servers_refusals_are_classified() {
    for (name, kind, words) in [
        ("chat-error", ErrorKind::InvalidRequest, "'messages' is required"),
        ("responses-error", ErrorKind::InvalidRequest, "'input' is required"),
        // This server blames itself for a wrong request in the third format.
        ("messages-error", ErrorKind::Server, "'messages' is required"),
    ] {
        let recording = recordings().into_iter().find(|r| r.name == name).unwrap();
        let error = HttpFailure {
            provider: "p",
            status: u16::try_from(recording.expected["status"].as_u64().unwrap()).unwrap(),
            content_type: Some("application/json; charset=utf-8"),
            retry_after: None,
            retry_after_ms: None,
            error_type: None,
            body: &recording.body,
            secrets: &Secrets::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
        .classify();
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.message.contains(words), "{name}: {error}");
    }
}

#[test]
fn every_recording_is_described_and_has_its_request() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md" && name != "expected.json")
        .collect();
    files.sort();
    let recordings = recordings();
    let described = recordings
        .iter()
        .flat_map(|r| [r.expected["file"].as_str().unwrap().to_owned(), format!("{}.request.json", r.name)]);
    let mut described: Vec<String> = described.collect();
    described.sort();
    assert_eq!(files, described);
    for recording in &recordings {
        let file = folder().join(format!("{}.request.json", recording.name));
        let request: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let path = request["path"].as_str().unwrap().replace("/chat/completions", "/chat");
        assert_eq!(path, format!("/v1/{}", recording.format), "{}", recording.name);
        assert_eq!(request["body"]["stream"], true, "{}", recording.name);
    }
}
