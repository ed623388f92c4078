//! The recordings in the Messages format.

use turnwright_core::TokenUsage;
use turnwright_llm_stream::wire::messages::MessagesDecoder;

use super::*;

fn decode(chunks: &[&[u8]]) -> Vec<StreamItem> {
    let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done());
    out
}

#[test]
fn a_real_servers_messages_decode_to_what_another_reader_found_at_any_split() {
    for Recording { name, body, expected, .. } in streams(Some("messages")) {
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

#[test]
fn a_message_that_was_cut_runs_no_call() {
    let mut seen = Vec::new();
    for Recording { name, body, .. } in streams(Some("messages")) {
        let response = assembled(&decode(&[&body]));
        seen.push((name, response.finish_reason.unwrap(), response.calls_may_run().is_ok()));
    }
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let seen: Vec<_> = seen.iter().map(|(name, reason, may)| (name.as_str(), *reason, *may)).collect();
    let expected = [
        ("messages-calls", FinishReason::ToolCalls, true),
        ("messages-cut", FinishReason::Length, false),
        ("messages-cut-call", FinishReason::Length, false),
        ("messages-plain", FinishReason::Stop, true),
        ("messages-tool", FinishReason::ToolCalls, true),
    ];
    assert_eq!(seen, expected);
}
