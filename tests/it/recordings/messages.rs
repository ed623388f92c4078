//! The recordings in the Messages format.

use turnwright_llm_stream::wire::messages::MessagesDecoder;

use super::*;

#[test]
fn a_real_servers_messages_decode_to_what_another_reader_found_at_any_split() {
    agrees_with_another_reader("messages", || MessagesDecoder::new("p"));
}

#[test]
fn a_message_that_was_cut_runs_no_call() {
    let mut seen = Vec::new();
    for Recording { name, body, .. } in streams(Some("messages")) {
        let response = assembled(&decode_with(MessagesDecoder::new("p"), &[&body]));
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
