//! The ConverseStream decoder, and the framer under it.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use turnwright_core::{ErrorKind, Part, TokenUsage};
use turnwright_llm_stream::{
    StreamItem,
    wire::{
        converse::ConverseDecoder,
        eventstream::{EventStreamFramer, Message},
    },
};

use crate::support::{Recorded, assemble, check_calls, check_end, decode, recorded};

/// The messages of a body: the type of each, and its payload.
fn messages(stream: &Recorded) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let mut framer = EventStreamFramer::new();
    for piece in stream.body.chunks(7) {
        let on_message = |message: Message<'_>| {
            let kind = message.text(":event-type").unwrap().to_owned();
            out.push((kind, serde_json::from_slice(message.payload()).unwrap()));
        };
        framer.feed(piece, on_message).unwrap_or_else(|e| panic!("{}: {e}", stream.name));
    }
    out
}

/// Whether the body is of the other endpoint, which wraps what the vendors of the models speak.
fn is_wrapped(stream: &Recorded) -> bool {
    stream.expected.get("payloads").is_some()
}

/// What an independent reader made of the body, in its words.
fn check(stream: &Recorded, items: &[StreamItem]) {
    let (name, expected) = (&stream.name, &stream.expected);
    let response = assemble(name, items);
    assert_eq!(response.text(), expected["text"].as_str().unwrap_or_default(), "{name}: text");
    assert_eq!(response.reasoning(), expected["reasoning"].as_str().unwrap_or_default(), "{name}");
    let cut = name.contains("--cut-");
    if !cut || response.error.is_none() {
        assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
    }
    check_end(name, &response, cut && expected["finish_reason"].is_null());
    let count = |field: &str| expected["usage"][field].as_u64();
    let (read, written) = (count("cacheReadInputTokens"), count("cacheWriteInputTokens"));
    let cached = read.unwrap_or(0) + written.unwrap_or(0);
    let theirs = TokenUsage {
        input_tokens: count("inputTokens").map(|input| input + cached),
        output_tokens: count("outputTokens"),
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
        ..TokenUsage::UNKNOWN
    };
    assert_eq!(TokenUsage { partial: false, ..response.usage }, theirs, "{name}: usage");
    let mut expected = expected.clone();
    // Tools that the provider runs itself are none of ours.
    expected["tool_calls"].as_array_mut().unwrap().retain(|call| call["kind"] != "server_tool_use");
    check_calls(name, items, &response, &expected, response.error.is_some());
    check_redacted(stream, &response.parts);
}

/// The reasoning that cannot be read is kept byte for byte.
fn check_redacted(stream: &Recorded, parts: &[Part]) {
    let sent = messages(stream).into_iter().filter_map(|(_, payload)| {
        let redacted = payload.pointer("/delta/reasoningContent/redactedContent")?;
        Some(redacted.as_str()?.to_owned())
    });
    let kept = parts.iter().filter_map(|part| match part {
        Part::Reasoning(r) => Some(r.opaque["reasoningContent"]["redactedContent"].as_str()?.to_owned()),
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), sent.collect::<Vec<_>>(), "{}", stream.name);
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("bedrock-eventstream");
    let converse: Vec<_> = recorded.iter().filter(|stream| !is_wrapped(stream)).collect();
    for stream in &converse {
        check(stream, &decode(stream, || ConverseDecoder::new("p")));
    }
    assert!(recorded.is_empty() || converse.len() >= 6, "{} files", converse.len());
}

#[test]
fn the_framer_reads_the_streams_of_the_other_endpoint_and_the_decoder_finds_no_answer_in_them() {
    let recorded = recorded("bedrock-eventstream");
    let wrapped: Vec<_> = recorded.iter().filter(|stream| is_wrapped(stream)).collect();
    for stream in &wrapped {
        let payloads: Vec<Value> = messages(stream)
            .into_iter()
            .map(|(kind, payload)| {
                assert_eq!(kind, "chunk", "{}", stream.name);
                serde_json::from_slice(&STANDARD.decode(payload["bytes"].as_str().unwrap()).unwrap()).unwrap()
            })
            .collect();
        assert_eq!(Some(payloads.len() as u64), stream.expected["payloads"].as_u64(), "{}", stream.name);
        assert_eq!(payloads.first(), stream.expected.get("first_payload"), "{}", stream.name);
        assert_eq!(payloads.last(), stream.expected.get("last_payload"), "{}", stream.name);
        let response = assemble(&stream.name, &decode(stream, || ConverseDecoder::new("p")));
        assert_eq!(response.error.map(|error| error.kind), Some(ErrorKind::Truncated), "{}", stream.name);
    }
    assert!(recorded.is_empty() || wrapped.len() >= 2, "{} files", wrapped.len());
}

#[test]
fn a_recorded_stream_cut_at_any_byte_before_its_stop_is_truncated_and_keeps_its_text() {
    for stream in recorded("bedrock-eventstream").iter().filter(|stream| !is_wrapped(stream)) {
        let stop = stream.body.windows(11).position(|bytes| bytes == b"messageStop").unwrap();
        for cut in (0..stop).step_by(97) {
            let cut = Recorded {
                name: format!("{} cut at {cut}", stream.name),
                body: stream.body[..cut].to_vec(),
                expected: Value::Null,
            };
            let response = assemble(&cut.name, &decode(&cut, || ConverseDecoder::new("p")));
            assert_eq!(response.error.as_ref().map(|e| e.kind), Some(ErrorKind::Truncated), "{}", cut.name);
            let text = stream.expected["text"].as_str().unwrap_or_default();
            assert!(text.starts_with(&response.text()), "{}", cut.name);
        }
    }
}
