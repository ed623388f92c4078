//! The recordings in the Responses format.

use turnwright_llm_stream::{LlmRequest, wire::responses::ResponsesDecoder};

use super::*;

#[test]
fn a_real_servers_responses_decode_to_what_another_reader_found_at_any_split() {
    agrees_with_another_reader("responses", || ResponsesDecoder::new("p"));
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
        let alone = assembled(&decode_with(ResponsesDecoder::new("p"), &[&body])).finish_reason.unwrap();
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
