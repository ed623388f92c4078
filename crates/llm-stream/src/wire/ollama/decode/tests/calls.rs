//! Calls: with and without ids, and their caps.

use super::*;
use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};

fn calling(calls: Value) -> Value {
    Value::from_iter([("content", json!("")), ("tool_calls", calls)])
}

#[test]
fn fault_r1_17_r1_18_every_call_is_one_with_an_id_of_its_own() {
    let f = |arguments: &Value| json!({ "function": { "name": "f", "arguments": arguments } });
    let with_id = |id: &str| json!({ "id": id, "function": { "index": 0, "name": "g", "arguments": { "b": 1, "a": 2 } } });
    let body = finished(
        &[
            calling(json!([f(&json!({ "x": 1 })), f(&json!({ "x": 1 }))])),
            calling(json!([with_id("call_9")])),
            calling(json!([with_id("call_9"), with_id("")])),
            calling(
                json!([f(&json!({})), f(&json!(null)), f(&json!("{\"y\":2}")), { "function": { "name": "h" } }]),
            ),
        ],
        "stop",
    );
    let items = items(&body);
    let mut shown: Vec<[String; 3]> = Vec::new();
    for item in &items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push([id.to_string(), name.clone(), String::new()]);
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                shown.iter_mut().find(|call| call[0] == id.as_str()).unwrap()[2].push_str(fragment);
            }
            StreamItem::Event(_) => {}
        }
    }
    let response = assemble(items);
    let complete = response.tool_calls().map(|c| [c.id.to_string(), c.name.clone(), c.arguments.clone()]);
    assert_eq!(complete.collect::<Vec<_>>(), shown);
    let g = r#"{"a":2,"b":1}"#;
    let expected = [
        ["call_1", "f", r#"{"x":1}"#],
        ["call_2", "f", r#"{"x":1}"#],
        ["call_9", "g", g],
        ["call_9_2", "g", g],
        ["call_5", "g", g],
        ["call_6", "f", "{}"],
        ["call_7", "f", "{}"],
        ["call_8", "f", r#"{"y":2}"#],
        ["call_9_3", "h", "{}"],
    ];
    assert_eq!(shown, expected);
    assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "E27: calls count, not the label");
    assert_eq!(response.raw_finish_reason.as_deref(), Some("stop"));
}

#[test]
fn ids_of_the_conversation_are_not_given_again() {
    use turnwright_core::{Message, MessageId, Role, ToolCall};
    let earlier = vec![Part::ToolCall(ToolCall::new("call_1", "f", "{}"))];
    let message = Message::new(MessageId::from_uuid(Default::default()), Role::Assistant, earlier);
    let request = LlmRequest { messages: vec![message.into()], ..LlmRequest::default() };
    let body = finished(&[calling(json!([{ "function": { "name": "f" } }]))], "stop");
    let response = assemble(decode_with(OllamaDecoder::for_request("p", &request), [body.as_bytes()]));
    assert_eq!(response.tool_calls().next().unwrap().id.as_str(), "call_1_2");
}

#[test]
fn calls_of_no_known_shape_are_errors() {
    for odd in
        [json!("f"), json!({}), json!({ "function": null }), json!({ "function": { "arguments": {} } })]
    {
        assert_eq!(error_kind(&finished(&[calling(json!([odd]))], "stop")), ErrorKind::Protocol, "{odd}");
    }
}

#[test]
fn calls_and_lists_have_caps() {
    let kind = |messages: &[Value]| {
        let body = finished(messages, "stop");
        assemble(decode_with(OllamaDecoder::new("p"), [body.as_bytes()])).error.map(|error| error.kind)
    };
    let f = json!({ "function": { "name": "f" } });
    assert_eq!(kind(&[calling(vec![f.clone(); MAX_CALLS].into())]), None);
    assert_eq!(kind(&[calling(vec![f; MAX_CALLS + 1].into())]), Some(ErrorKind::TooLarge));
    assert_eq!(kind(&[calling(vec![Value::Null; 4096].into())]), None);
    assert_eq!(kind(&[calling(vec![Value::Null; 4097].into())]), Some(ErrorKind::TooLarge));
    for (name, id) in [(MAX_LABEL_BYTES + 1, 1), (1, MAX_LABEL_BYTES + 1)] {
        let long = json!({ "id": "x".repeat(id), "function": { "name": "x".repeat(name) } });
        assert_eq!(kind(&[calling(json!([long]))]), Some(ErrorKind::TooLarge));
    }
    let half =
        json!({ "function": { "name": "f", "arguments": { "a": "x".repeat(MAX_ARGUMENT_BYTES / 2) } } });
    let half = calling(json!([half]));
    assert_eq!(kind(std::slice::from_ref(&half)), None);
    assert_eq!(kind(&[half.clone(), half]), Some(ErrorKind::TooLarge));
}
