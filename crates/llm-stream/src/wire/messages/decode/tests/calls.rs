//! Calls, whatever their blocks look like.

use super::*;

fn tool(id: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "t", "input": input })
}

fn piece(index: u64, piece: &str) -> String {
    delta(index, "input_json_delta", "partial_json", piece)
}

fn calls(response: &LlmResponse) -> Vec<(&str, &str, &str)> {
    response.tool_calls().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect()
}

#[test]
fn fault_r1_1_r1_3_r1_6_a_call_is_shown_as_it_comes_and_is_complete_with_its_block() {
    let body = started()
        + &begin(0, tool("c", &json!({})))
        + &piece(0, "")
        + &piece(0, "{\"a\"")
        + &piece(0, ": \"é\"}")
        + &end(0);
    let id = || turnwright_core::CallId::from("c");
    let shown = |fragment: &str| {
        StreamItem::Progress(ToolProgress::Arguments { id: id(), fragment: fragment.to_owned() })
    };
    let call = turnwright_core::ToolCall::new("c", "t", "{\"a\": \"é\"}");
    let expected = [
        StreamItem::Progress(ToolProgress::Started { id: id(), name: "t".into() }),
        shown("{\"a\""),
        shown(": \"é\"}"),
        LlmEvent::ToolCallComplete(Box::new(call)).into(),
    ];
    let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
    decoder.feed(body.as_bytes(), &mut out);
    assert_eq!(out, expected, "before the answer ends");
}

#[test]
fn fault_e17_arguments_may_stand_at_the_begin_or_be_none() {
    for (input, pieces, expected) in [
        (json!({}), vec![], "{}"),
        (json!({}), vec!["", ""], "{}"),
        (json!({ "a": 1 }), vec![], "{\"a\":1}"),
        (json!({ "a": 1 }), vec![""], "{\"a\":1}"),
        (json!({ "a": 1 }), vec!["{\"b\":", "null", "}"], "{\"b\":null}"),
        (Value::Null, vec![], ""),
        (Value::Null, vec!["{}"], "{}"),
    ] {
        let pieces: String = pieces.into_iter().map(|p| piece(0, p)).collect();
        for end in [end(0), String::new()] {
            let body =
                started() + &begin(0, tool("c", &input)) + &pieces + &end + &stopped("tool_use") + &over();
            let response = answer(&body);
            assert_eq!(calls(&response), [("c", "t", expected)]);
            assert_eq!(response.calls_may_run(), Ok(()));
        }
    }
    // The JSON itself, where a server forgot to make it a string.
    let object = event(
        "content_block_delta",
        json!({ "index": 0, "delta": { "type": "input_json_delta", "partial_json": { "a": 1 } } }),
    );
    let body =
        started() + &begin(0, tool("c", &json!({}))) + &object + &end(0) + &stopped("tool_use") + &over();
    assert_eq!(calls(&answer(&body)), [("c", "t", "{\"a\":1}")]);
}

#[test]
fn a_call_that_was_cut_is_told_with_the_finish_and_does_not_run() {
    let cut = |end_of_block: &str, reason: &str| {
        started()
            + &begin(0, tool("c1", &json!({})))
            + &piece(0, "{\"a\":1}")
            + &end(0)
            + &begin(1, tool("c2", &json!({})))
            + &piece(1, "{\"a\":[\"x\"")
            + end_of_block
            + &stopped(reason)
            + &over()
    };
    for end_of_block in [end(1), String::new()] {
        // Also where nobody says so.
        for reason in ["max_tokens", "end_turn"] {
            let response = answer(&cut(&end_of_block, reason));
            assert_eq!(calls(&response), [("c1", "t", "{\"a\":1}"), ("c2", "t", "{\"a\":[\"x\"")]);
            assert_eq!(response.finish_reason, Some(FinishReason::Length));
            assert!(response.calls_may_run().is_err());
        }
        let body = cut(&end_of_block, "tool_use");
        let broken = &body[..body.find("event: message_delta").unwrap()];
        let response = answer(broken);
        assert_eq!(calls(&response), [("c1", "t", "{\"a\":1}")], "in a broken stream it is never complete");
        assert!(response.calls_may_run().is_err());
    }
}

#[test]
fn fault_e27_calls_count_more_than_the_label() {
    let body =
        |reason: &str| started() + &begin(0, tool("c", &json!({}))) + &end(0) + &stopped(reason) + &over();
    for (reason, expected) in [
        ("end_turn", FinishReason::ToolCalls),
        ("stop_sequence", FinishReason::ToolCalls),
        ("refusal", FinishReason::Refusal),
        ("max_tokens", FinishReason::Length),
        ("pause_turn", FinishReason::Other),
    ] {
        let response = answer(&body(reason));
        assert_eq!(response.finish_reason, Some(expected));
        assert_eq!(response.raw_finish_reason.as_deref(), Some(reason));
        assert_eq!(response.calls_may_run().is_ok(), expected == FinishReason::ToolCalls);
    }
}

#[test]
fn fault_e15_an_index_that_begins_anew_is_another_call() {
    let body = started()
        + &begin(0, tool("c1", &json!({})))
        + &piece(0, "{\"a\":1}")
        + &begin(0, tool("c2", &json!({})))
        + &piece(0, "{\"a\":2}")
        + &stopped("tool_use")
        + &over();
    assert_eq!(calls(&answer(&body)), [("c1", "t", "{\"a\":1}"), ("c2", "t", "{\"a\":2}")]);
    let all = items(&body);
    let place = |found: &dyn Fn(&StreamItem) -> bool| all.iter().position(found).unwrap();
    let is_complete = |item: &StreamItem| matches!(item, StreamItem::Event(LlmEvent::ToolCallComplete(_)));
    let second = |item: &StreamItem| matches!(item, StreamItem::Progress(ToolProgress::Started { id, .. }) if id.as_str() == "c2");
    assert!(place(&is_complete) < place(&second), "the first one is complete then");
}

#[test]
fn blocks_without_an_index_are_the_last_that_began() {
    let strip = |event: String| event.replace("\"index\":0,", "").replace("\"index\":0", "\"x\":0");
    let body = started()
        + &strip(begin(0, tool("c1", &json!({}))))
        + &strip(piece(0, "{\"a\":1}"))
        + &strip(end(0))
        + &strip(begin(0, tool("c2", &json!({}))))
        + &strip(end(0))
        + &strip(begin(0, json!({ "type": "text", "text": "" })))
        + &strip(text(0, "x"))
        + &stopped("tool_use")
        + &over();
    let response = answer(&body);
    assert_eq!(calls(&response), [("c1", "t", "{\"a\":1}"), ("c2", "t", "{}")]);
    assert_eq!(response.text(), "x");
}

#[test]
fn ids_are_unique_in_the_conversation() {
    let message = |id: &str| begin(0, tool(id, &json!({}))) + &end(0);
    let body =
        started() + &message("c") + &message("c") + &message("") + &message("old") + &stopped("tool_use");
    let earlier = Part::ToolCall(turnwright_core::ToolCall::new("old", "t", "{}"));
    let id = turnwright_core::MessageId::from_uuid(Default::default());
    let history = turnwright_core::Message::new(id, turnwright_core::Role::Assistant, vec![earlier]);
    let request = LlmRequest { messages: vec![history.into()], ..LlmRequest::default() };
    let decoder = MessagesDecoder::for_request("p", &request);
    let response = assemble(decode_with(decoder, [body.as_bytes()]));
    let ids: Vec<_> = response.tool_calls().map(|c| c.id.to_string()).collect();
    assert_eq!(ids, ["c", "c_2", "call_3", "old_2"]);
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let nameless = json!({ "type": "tool_use", "id": "c", "name": "", "input": {} });
    assert_eq!(error_kind(&(started() + &begin(0, nameless))), ErrorKind::Protocol);
}
