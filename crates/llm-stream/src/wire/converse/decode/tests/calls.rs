//! Tool calls.

use super::*;

fn calls(response: &LlmResponse) -> Vec<(&str, &str, &str)> {
    response.tool_calls().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect()
}

#[test]
fn fault_r1_1_r1_3_a_call_begins_before_its_fragments_and_they_are_its_arguments() {
    let events = [tool_start(1, "x", "f"), input(1, ""), input(1, "{\"a\""), input(1, ":1}"), block_stop(1)];
    let items = items(&finished(&events, "tool_use"));
    let progress: Vec<_> = items.iter().filter(|i| matches!(i, StreamItem::Progress(_))).cloned().collect();
    let fragment = |fragment: &str| {
        StreamItem::Progress(ToolProgress::Arguments { id: "x".into(), fragment: fragment.into() })
    };
    let started = StreamItem::Progress(ToolProgress::Started { id: "x".into(), name: "f".into() });
    assert_eq!(progress, [started, fragment("{\"a\""), fragment(":1}")]);
    let response = assemble(items);
    assert_eq!(calls(&response), [("x", "f", "{\"a\":1}")]);
    assert_eq!(response.calls_may_run(), Ok(()));
}

#[test]
fn fault_e17_a_call_without_arguments_is_a_call() {
    let response = answer(&finished(&[tool_start(0, "x", "f"), block_stop(0)], "tool_use"));
    assert_eq!(calls(&response), [("x", "f", "")]);
    assert_eq!(response.tool_calls().next().unwrap().arguments_value(), Ok(json!({})));
}

#[test]
fn fault_e27_complete_calls_count_whatever_the_label_says() {
    let events = [tool_start(0, "x", "f"), input(0, "{}"), block_stop(0)];
    let response = answer(&finished(&events, "end_turn"));
    assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("end_turn"));
}

#[test]
fn fault_r2_36_calls_of_an_answer_that_was_cut_do_not_run() {
    let events = [tool_start(0, "x", "f"), input(0, "{\"a\":"), block_stop(0)];
    for reason in ["max_tokens", "guardrail_intervened", "malformed_tool_use"] {
        let response = answer(&finished(&events, reason));
        assert_eq!(calls(&response), [("x", "f", "{\"a\":")]);
        assert!(response.calls_may_run().is_err(), "{reason}");
    }
}

#[test]
fn a_call_that_was_cut_though_nobody_says_so_does_not_run() {
    let events = [tool_start(0, "x", "f"), input(0, "{\"a\":"), block_stop(0)];
    let response = answer(&finished(&events, "end_turn"));
    assert_eq!(response.finish_reason, Some(FinishReason::Length));
    assert!(response.calls_may_run().is_err());
}

#[test]
fn fault_e15_r1_26_fragments_go_by_the_index_of_their_block() {
    let events = [
        tool_start(1, "x", "f"),
        tool_start(2, "y", "g"),
        input(2, "{\"b\""),
        input(1, "{}"),
        input(2, ":2}"),
        block_stop(2),
        block_stop(1),
        // An index that is used again.
        tool_start(1, "z", "h"),
        input(1, "{\"c\":3}"),
        // And one whose block was not ended.
        tool_start(1, "v", "i"),
    ];
    let response = answer(&finished(&events, "tool_use"));
    let expected = [("x", "f", "{}"), ("y", "g", "{\"b\":2}"), ("z", "h", "{\"c\":3}"), ("v", "i", "")];
    assert_eq!(calls(&response), expected);
}

#[test]
fn fault_r1_26_fragments_for_a_block_that_never_began_are_an_error() {
    for events in [vec![input(3, "{}")], vec![tool_start(1, "x", "f"), block_stop(1), input(1, "{}")]] {
        let response = answer(&finished(&events, "tool_use"));
        assert_eq!(kind_of(&response), Some(ErrorKind::Protocol));
        assert_eq!(response.tool_calls().count(), 0);
    }
}

#[test]
fn parts_keep_the_order_of_their_blocks() {
    let events = [
        text("a"),
        block_stop(0),
        tool_start(1, "x", "f"),
        input(1, "{}"),
        block_stop(1),
        tool_start(2, "y", "f"),
        block_stop(2),
        delta(3, &json!({ "text": "b" })),
        block_stop(3),
        tool_start(4, "z", "f"),
        block_stop(4),
    ];
    let response = answer(&finished(&events, "tool_use"));
    let order: Vec<&str> = response
        .parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => text,
            Part::ToolCall(call) => call.id.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, ["a", "x", "y", "b", "z"]);
}

#[test]
fn fault_b15_ids_are_unique_in_the_answer_and_beside_the_conversation() {
    let events = [tool_start(0, "x", "f"), block_stop(0), tool_start(1, "x", "f"), tool_start(2, "", "f")];
    let body = finished(&events, "tool_use");
    assert_eq!(calls(&answer(&body)), [("x", "f", ""), ("x_2", "f", ""), ("call_3", "f", "")]);
    let id = MessageId::from_uuid(Default::default());
    let earlier = vec![Part::ToolCall(ToolCall::new("x", "f", "{}"))];
    let messages = vec![Arc::new(Spoken::new(id, Role::Assistant, earlier))];
    let request = LlmRequest { messages, ..LlmRequest::default() };
    let response = assemble(decode_with(ConverseDecoder::for_request("p", &request), [&body[..]]));
    assert_eq!(response.tool_calls().next().unwrap().id.as_str(), "x_2");
}

#[test]
fn fault_r1_6_tools_that_the_provider_runs_itself_are_skipped_with_their_results() {
    let block = |index: u64, start: Value| {
        event("contentBlockStart", &json!({ "contentBlockIndex": index, "start": start }))
    };
    let server = json!({ "toolUse": { "toolUseId": "s", "name": "code", "type": "server_tool_use" } });
    let result = json!({ "toolResult": { "toolUseId": "s", "status": "success", "type": "code_result" } });
    let ours = json!({ "toolUse": { "toolUseId": "x", "name": "f", "type": "tool_use" } });
    let events = [
        block(0, server),
        input(0, "{\"snippet\":\"1\"}"),
        block_stop(0),
        block(1, result),
        delta(1, &json!({ "toolResult": [{ "json": { "stdOut": "1" } }] })),
        block_stop(1),
        block(2, ours),
        input(2, "{}"),
        block_stop(2),
    ];
    let items = items(&finished(&events, "tool_use"));
    let progress = items.iter().filter(|i| matches!(i, StreamItem::Progress(_))).count();
    assert_eq!(progress, 2, "only of our own call");
    assert_eq!(calls(&assemble(items)), [("x", "f", "{}")]);
}

#[test]
fn arguments_that_are_no_string_are_taken_as_json() {
    let raw = |input: &str| {
        let payload = format!("{{\"contentBlockIndex\":0,\"delta\":{{\"toolUse\":{{\"input\":{input}}}}}}}");
        event_bytes("contentBlockDelta", payload.as_bytes())
    };
    let response = answer(&finished(&[tool_start(0, "x", "f"), raw("null"), raw("{\"a\": 1}")], "tool_use"));
    assert_eq!(calls(&response), [("x", "f", "{\"a\": 1}")]);
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let response = answer(&finished(&[text("a"), tool_start(1, "x", "")], "tool_use"));
    assert_eq!((kind_of(&response), response.text().as_str()), (Some(ErrorKind::Protocol), "a"));
}

#[test]
fn calls_labels_arguments_and_open_blocks_are_capped() {
    use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};
    let kind = |events: &[Vec<u8>]| {
        let body = finished(events, "tool_use");
        kind_of(&assemble(decode_with(ConverseDecoder::new("p"), [&body[..]])))
    };
    let long = |n| "x".repeat(n);
    assert_eq!(kind(&[tool_start(0, &long(MAX_LABEL_BYTES), "f")]), None);
    assert_eq!(kind(&[tool_start(0, &long(MAX_LABEL_BYTES + 1), "f")]), Some(ErrorKind::TooLarge));
    assert_eq!(kind(&[tool_start(0, "x", &long(MAX_LABEL_BYTES + 1))]), Some(ErrorKind::TooLarge));
    let many = |count: usize| -> Vec<_> { (0..count).map(|_| tool_start(0, "x", "f")).collect() };
    assert_eq!(kind(&many(MAX_CALLS)), None);
    assert_eq!(kind(&many(MAX_CALLS + 1)), Some(ErrorKind::TooLarge));
    let skipped = json!({ "start": { "image": {} } });
    let open = |count: u64| -> Vec<_> {
        let block =
            |index| event("contentBlockStart", &json!({ "contentBlockIndex": index, "start": skipped }));
        (0..count).map(block).collect()
    };
    assert_eq!(kind(&open(MAX_CALLS as u64)), None);
    assert_eq!(kind(&open(MAX_CALLS as u64 + 1)), Some(ErrorKind::TooLarge));
    let piece = long(MAX_ARGUMENT_BYTES / 4);
    let mut events = vec![tool_start(0, "x", "f"), tool_start(1, "y", "f")];
    events.extend([0, 1, 0, 1].map(|index| input(index, &piece)));
    assert_eq!(kind(&events), None);
    events.push(input(0, "x"));
    assert_eq!(kind(&events), Some(ErrorKind::TooLarge));
}
