//! The recordings in the Responses format.

use turnwright_core::TokenUsage;
use turnwright_llm_stream::{LlmRequest, wire::responses::ResponsesDecoder};

use super::*;

fn decode(chunks: &[&[u8]]) -> Vec<StreamItem> {
    decode_with(ResponsesDecoder::new("p"), chunks)
}

fn decode_with(mut decoder: ResponsesDecoder, chunks: &[&[u8]]) -> Vec<StreamItem> {
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done());
    out
}

#[test]
fn a_real_servers_responses_decode_to_what_another_reader_found_at_any_split() {
    for Recording { name, body, expected, .. } in streams(Some("responses")) {
        let items = decode(&[&body]);
        for chunks in splits(&body) {
            assert!(decode(&chunks) == items, "{name}: {} chunks", chunks.len());
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

/// The server calls every answer complete. Broken arguments tell that one was cut, and the limit that was asked for.
#[test]
fn a_response_that_was_cut_is_known_and_runs_no_call() {
    let mut seen = Vec::new();
    for Recording { name, body, .. } in streams(Some("responses")) {
        let file = fs::read(folder().join(format!("{name}.request.json"))).unwrap();
        let sent: Value = serde_json::from_slice(&file).unwrap();
        let max_output_tokens = sent["body"]["max_output_tokens"].as_u64();
        assert!(max_output_tokens.is_some(), "{name}");
        let request = LlmRequest { max_output_tokens, ..LlmRequest::default() };
        let alone = assembled(&decode(&[&body])).finish_reason.unwrap();
        let response = assembled(&decode_with(ResponsesDecoder::for_request("p", &request), &[&body]));
        seen.push((name, alone, response.finish_reason.unwrap(), response.calls_may_run().is_ok()));
    }
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let seen: Vec<_> =
        seen.iter().map(|(name, alone, told, may)| (name.as_str(), *alone, *told, *may)).collect();
    let expected = [
        ("responses-calls", FinishReason::ToolCalls, FinishReason::ToolCalls, true),
        ("responses-cut", FinishReason::Stop, FinishReason::Length, false),
        ("responses-cut-call", FinishReason::Length, FinishReason::Length, false),
        ("responses-plain", FinishReason::Stop, FinishReason::Stop, true),
        ("responses-tool", FinishReason::ToolCalls, FinishReason::ToolCalls, true),
    ];
    assert_eq!(seen, expected);
}
