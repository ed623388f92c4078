//! Calls, under all the labels that servers give them.

use std::sync::Arc;

use turnwright_core::{Message, MessageId, Role, ToolCall};

use super::*;

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments })
}

fn piece(labels: Value, delta: &str) -> String {
    let mut fields = labels;
    fields["delta"] = delta.into();
    event("response.function_call_arguments.delta", fields)
}

fn calls(response: &LlmResponse) -> Vec<(String, String, String)> {
    response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone())).collect()
}

fn expected(calls: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    calls
        .iter()
        .map(|(id, name, arguments)| (id.to_string(), name.to_string(), arguments.to_string()))
        .collect()
}

/// What the progress lane shows: calls begin before their fragments, which are their arguments.
fn shown(items: &[StreamItem]) -> Vec<(String, String, String)> {
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                assert!(!fragment.is_empty());
                shown.iter_mut().find(|c| c.0 == id.to_string()).expect("begun").2.push_str(fragment);
            }
            StreamItem::Event(_) => {}
        }
    }
    shown
}

#[test]
fn fault_r1_1_r1_3_fragments_are_shown_after_the_name_and_come_to_the_arguments() {
    let body = created()
        + &added(0, call("c1", "f", ""))
        + &piece(json!({ "output_index": 0, "item_id": "fc_c1" }), "{\"a\"")
        + &piece(json!({ "output_index": 0, "item_id": "fc_c1" }), ":1}")
        + &event(
            "response.function_call_arguments.done",
            json!({ "output_index": 0, "arguments": "{\"a\":1}" }),
        )
        + &done(0, call("c1", "f", "{\"a\":1}"))
        + &completed(json!([call("c1", "f", "{\"a\":1}")]));
    let items = items(&body);
    let id = || turnwright_core::CallId::from("c1");
    let fragment =
        |text: &str| StreamItem::Progress(ToolProgress::Arguments { id: id(), fragment: text.into() });
    assert_eq!(
        items[..3],
        [
            StreamItem::Progress(ToolProgress::Started { id: id(), name: "f".into() }),
            fragment("{\"a\""),
            fragment(":1}"),
        ]
    );
    assert_eq!(items[3], LlmEvent::ToolCallComplete(Box::new(ToolCall::new("c1", "f", "{\"a\":1}"))).into());
    assert_eq!(items.len(), 5, "and it is complete once");
    let response = assemble(items);
    assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "E27: the calls decide, not the label");
    assert!(response.calls_may_run().is_ok());
}

#[test]
fn fault_e15_r1_26_pieces_find_their_call_under_any_labels() {
    let two = expected(&[("c1", "f", "{\"a\":1}"), ("c2", "g", "{\"b\":2}")]);
    let (first, second) = (call("c1", "f", "{\"a\":1}"), call("c2", "g", "{\"b\":2}"));
    let by_index = |index: u64| json!({ "output_index": index });
    let by_id = |id: &str| json!({ "item_id": id });
    let all_zero = |id: &str| json!({ "output_index": 0, "item_id": id });
    let strange = |index: u64, id: &str| json!({ "output_index": index, "item_id": id });
    let added_without = |item: Value| event("response.output_item.added", json!({ "item": item }));
    let done_without = |item: Value| event("response.output_item.done", json!({ "item": item }));
    let pieces = |first: &Value, second: &Value| {
        piece(first.clone(), "{\"a\"")
            + &piece(second.clone(), "{\"b\"")
            + &piece(first.clone(), ":1}")
            + &piece(second.clone(), ":2}")
    };
    let (begin, begin_2) = (call("c1", "f", ""), call("c2", "g", ""));
    for body in [
        added(0, begin.clone())
            + &added(1, begin_2.clone())
            + &pieces(&by_index(0), &by_index(1))
            + &done(0, first.clone())
            + &done(1, second.clone()),
        // No index.
        added_without(begin.clone())
            + &added_without(begin_2.clone())
            + &pieces(&by_id("fc_c1"), &by_id("fc_c2"))
            + &done_without(first.clone())
            + &done_without(second.clone()),
        // One index for all.
        added(0, begin.clone())
            + &added(0, begin_2.clone())
            + &pieces(&all_zero("fc_c1"), &all_zero("fc_c2"))
            + &done(0, first.clone())
            + &done(0, second.clone()),
        // Another id on each event.
        added(0, begin.clone())
            + &added(1, begin_2.clone())
            + &pieces(&strange(0, "x"), &strange(1, "y"))
            + &done(0, {
                let mut c = first.clone();
                c["id"] = json!("z");
                c
            })
            + &done(1, second.clone()),
        // No labels, one call after the other.
        added_without(begin.clone())
            + &piece(json!({}), "{\"a\":1}")
            + &done_without(first.clone())
            + &added_without(begin_2.clone())
            + &piece(json!({}), "{\"b\":2}")
            + &done_without(second.clone()),
        // Never begun, so that the name comes last.
        pieces(&by_index(0), &by_index(1)) + &done(0, first.clone()) + &done(1, second.clone()),
        // No pieces, or nothing but the end.
        added(0, begin.clone()) + &done(0, first.clone()) + &done(1, second.clone()),
        String::new(),
        // The items never end.
        added(0, begin) + &added(1, begin_2) + &pieces(&by_index(0), &by_index(1)),
    ] {
        for output in [json!([first, second]), json!([])] {
            if body.is_empty() && output == json!([]) {
                continue;
            }
            let items = items(&(body.clone() + &completed(output)));
            assert_eq!(shown(&items), two, "{body}");
            let response = assemble(items);
            assert_eq!((calls(&response), response.error), (two.clone(), None), "{body}");
        }
    }
}

#[test]
fn fault_r1_26_pieces_of_nothing_and_other_ends_are_errors() {
    let of_text = text(0, "a") + &piece(json!({ "output_index": 0 }), "{}");
    let of_ended = done(0, call("c", "f", "{}")) + &piece(json!({ "output_index": 0 }), "{}");
    let nameless = piece(json!({ "output_index": 0 }), "{}") + &completed(json!([]));
    let other_end = piece(json!({ "output_index": 0 }), "{\"a") + &done(0, call("c", "f", "{\"b\":1}"));
    for body in [of_text, of_ended, nameless, other_end] {
        let response = answer(&body);
        assert_eq!(response.error.as_ref().map(|e| e.kind), Some(ErrorKind::Protocol), "{body}");
    }
    let respelled = piece(json!({ "output_index": 0 }), "{\"a\":1}") + &done(0, call("c", "f", "{\"a\": 1}"));
    let response = answer(&(respelled + &completed(json!([]))));
    assert_eq!(calls(&response), expected(&[("c", "f", "{\"a\":1}")]), "what was shown counts");
}

#[test]
fn fault_e17_a_call_may_have_no_arguments() {
    for arguments in [json!(""), json!(null), json!("{}"), json!({})] {
        let mut item = call("c", "f", "");
        item["arguments"] = arguments.clone();
        let response = answer(&(created() + &done(0, item) + &completed(json!([]))));
        let call = response.tool_calls().next().unwrap();
        assert_eq!(call.arguments_json(), "{}", "{arguments}");
    }
}

#[test]
fn a_call_without_an_id_gets_one_and_ids_are_unique_in_the_conversation() {
    let mut nameless = call("", "f", "{}");
    nameless["id"] = Value::Null;
    let body = done(0, nameless) + &done(1, call("call_1", "f", "{}")) + &done(2, call("call_1", "g", "{}"));
    let body = body + &completed(json!([]));
    let ids = |response: &LlmResponse| response.tool_calls().map(|c| c.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(&answer(&body)), ["call_1", "call_1_2", "call_1_3"]);
    let output = completed(json!([call("x", "f", "{}"), call("x", "f", "{}")]));
    assert_eq!(ids(&answer(&output)), ["x", "x_2"], "also where nothing was streamed");
    let twice = done(0, call("x", "f", "{}")) + &done(0, call("x", "f", "{}"));
    assert_eq!(ids(&answer(&(twice + &output))), ["x"], "but an end that is repeated is one end");
    let earlier = Part::ToolCall(ToolCall::new("call_1", "f", "{}"));
    let earlier = Message::new(MessageId::from_uuid(Default::default()), Role::Assistant, vec![earlier]);
    let request = LlmRequest { messages: vec![Arc::new(earlier)], ..LlmRequest::default() };
    let decoder = ResponsesDecoder::for_request("p", &request);
    let response = assemble(decode_with(decoder, [body.as_bytes()]));
    assert_eq!(ids(&response), ["call_1_2", "call_1_3", "call_1_4"]);
}

#[test]
fn free_text_is_the_one_argument_of_a_custom_tool() {
    let item = |input: &str| json!({ "type": "custom_tool_call", "id": "ctc", "call_id": "c", "name": "patch", "input": input });
    let delta = |text: &str| {
        event("response.custom_tool_call_input.delta", json!({ "output_index": 0, "delta": text }))
    };
    let input = "*** \"a\"\n\\é";
    let ended = event("response.custom_tool_call_input.done", json!({ "output_index": 0, "input": input }));
    for body in [
        added(0, item("")) + &delta("*** \"") + &delta("a\"\n\\é") + &ended + &done(0, item(input)),
        added(0, item("")) + &ended,
        done(0, item(input)),
        String::new(),
    ] {
        let items = items(&(body + &completed(json!([item(input)]))));
        let whole = json!({ "input": input }).to_string();
        assert_eq!(shown(&items), expected(&[("c", "patch", &whole)]));
        assert_eq!(calls(&assemble(items)), expected(&[("c", "patch", &whole)]));
    }
}

#[test]
fn fault_r2_36_a_cut_call_does_not_run() {
    let begun = added(0, call("c1", "f", "")) + &piece(json!({ "output_index": 0 }), "{\"a\":");
    let response = answer(&begun);
    assert_eq!(response.error.as_ref().map(|e| e.kind), Some(ErrorKind::Truncated));
    assert_eq!(calls(&response), [], "of an answer that broke off");

    // Not even when the server calls it complete.
    let claimed = done(0, call("c1", "f", "{\"a\":"));
    assert_eq!(calls(&answer(&(begun.clone() + &claimed))), []);
    let incomplete = json!({ "response": { "incomplete_details": { "reason": "max_output_tokens" } } });
    let mut cut = call("c1", "f", "{\"a\":");
    cut["status"] = json!("incomplete");
    for body in [
        begun.clone() + &claimed + &completed(json!([call("c1", "f", "{\"a\":")])),
        begun.clone() + &event("response.incomplete", incomplete.clone()),
        begun + &done(0, cut) + &event("response.incomplete", incomplete),
    ] {
        let whole = done(7, call("c0", "f", "{}"));
        let items = items(&(whole + &body));
        let both = expected(&[("c0", "f", "{}"), ("c1", "f", "{\"a\":")]);
        assert_eq!(shown(&items), both);
        let response = assemble(items);
        assert_eq!(response.finish_reason, Some(FinishReason::Length), "{body}");
        assert_eq!(calls(&response), both, "as in the other formats, each is answered");
        assert!(response.calls_may_run().is_err());
    }
}

#[test]
fn custom_calls_that_the_server_answers_itself_are_skipped() {
    let search = |input: &str| json!({ "type": "custom_tool_call", "id": "ctc", "call_id": "xs", "name": "x_keyword_search", "input": input });
    let piece = |labels: Value| {
        let mut fields = labels;
        fields["delta"] = "q".into();
        event("response.custom_tool_call_input.delta", fields)
    };
    let body = created()
        + &added(0, search(""))
        + &piece(json!({ "output_index": 0, "item_id": "ctc" }))
        + &event("response.custom_tool_call_input.done", json!({ "output_index": 0, "input": "q" }))
        + &done(0, search("q"))
        + &text(1, "found")
        + &completed(json!([search("q")]));
    let found = |extra: Value| {
        let extra = serde_json::from_value(extra).unwrap();
        let request = LlmRequest { extra, ..LlmRequest::default() };
        let response = assemble(decode_with(ResponsesDecoder::for_request("p", &request), [body.as_bytes()]));
        assert_eq!((response.text().as_str(), response.error), ("found", None));
        (response.parts.len(), response.finish_reason)
    };
    assert_eq!(found(json!({ "tools": [{ "type": "x_search" }] })), (1, Some(FinishReason::Stop)));
    let ours = json!({ "tools": [{ "type": "custom", "name": "x_keyword_search" }] });
    assert_eq!(found(ours), (2, Some(FinishReason::ToolCalls)));
    assert_eq!(found(json!({})), (2, Some(FinishReason::ToolCalls)), "nobody knows whose it is");
}
