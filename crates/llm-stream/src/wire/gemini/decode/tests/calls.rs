//! Calls: whole, in pieces, cut.

use super::*;
use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};

fn call(function: Value) -> Value {
    Value::from_iter([Value::from_iter([("functionCall", function)])])
}

/// The calls of an answer, which the progress lane must agree with.
fn calls(body: &str) -> Vec<(String, String, String)> {
    let items = items(body);
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in &items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                shown.iter_mut().find(|call| call.0 == id.as_str()).unwrap().2.push_str(fragment);
            }
            StreamItem::Event(_) => {}
        }
    }
    let response = assemble(items);
    let complete = response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone()));
    assert_eq!(complete.collect::<Vec<_>>(), shown);
    shown
}

fn expected(calls: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    calls.iter().map(|&(id, name, arguments)| (id.into(), name.into(), arguments.into())).collect()
}

#[test]
fn fault_r1_18_b15_two_calls_in_one_chunk_are_two_with_ids_of_their_own() {
    let parts = json!([
        { "functionCall": { "name": "f", "args": { "a": 1 } } },
        { "functionCall": { "name": "f", "args": { "a": 1 } } },
        { "functionCall": { "name": "g", "id": "x" } },
        { "functionCall": { "name": "g", "id": "x", "args": null } },
        { "functionCall": { "name": "g", "id": "", "args": {}, "willContinue": false } },
    ]);
    let body = finished(&[parts], "STOP");
    let arguments = r#"{"a":1}"#;
    let found = [
        ("call_1", "f", arguments),
        ("call_2", "f", arguments),
        ("x", "g", "{}"),
        ("x_2", "g", "{}"),
        ("call_5", "g", "{}"),
    ];
    assert_eq!(calls(&body), expected(&found));
    let response = answer(&body);
    assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "E27: calls count, not the label");
    assert_eq!(response.raw_finish_reason.as_deref(), Some("STOP"));
}

#[test]
fn ids_of_the_conversation_are_not_given_again() {
    use turnwright_core::{Message, MessageId, Role, ToolCall};
    let earlier = vec![Part::ToolCall(ToolCall::new("call_1", "f", "{}"))];
    let message = Message::new(MessageId::from_uuid(Default::default()), Role::Assistant, earlier);
    let request = LlmRequest { messages: vec![message.into()], ..LlmRequest::default() };
    let body = finished(&[call(json!({ "name": "f" }))], "STOP");
    let response = assemble(decode_with(GeminiDecoder::for_request("p", &request), [body.as_bytes()]));
    assert_eq!(response.tool_calls().next().unwrap().id.as_str(), "call_1_2");
}

#[test]
fn arguments_in_pieces_are_put_together_whatever_ends_the_call() {
    let piece = |path: &str, text: &str, goes_on: bool| {
        let piece = json!({ "jsonPath": path, "stringValue": text, "willContinue": true });
        call(json!({ "partialArgs": [piece], "willContinue": goes_on }))
    };
    let begin = || call(json!({ "name": "f", "willContinue": true }));
    let end = || call(json!({}));
    let (one, two) = (r#"{"a":"xy"}"#, r#"{"a":"z"}"#);
    let both = expected(&[("call_1", "f", one), ("call_2", "f", two)]);
    let (x, y, z) = (piece("$.a", "x", true), piece("$.a", "y", true), piece("$.a", "z", true));
    for lists in [
        vec![begin(), x.clone(), y.clone(), end(), begin(), z.clone(), end(), end()],
        // The end marks are missing: the next call ends the first, the finish the second.
        vec![begin(), x.clone(), y.clone(), begin(), z.clone(), json!([{ "text": "" }])],
        // The last piece says that it is the last.
        vec![begin(), x.clone(), piece("$.a", "y", false), begin(), piece("$.a", "z", false)],
    ] {
        assert_eq!(calls(&finished(&lists, "STOP")), both, "{lists:?}");
    }
    // What is there from the start stays.
    let start = call(json!({ "name": "f", "id": "i", "args": { "b": [1] }, "willContinue": true }));
    let body = finished(&[start, piece("$.b[1]", "x", false)], "STOP");
    assert_eq!(calls(&body), expected(&[("i", "f", r#"{"b":[1,"x"]}"#)]));
}

#[test]
fn fault_r2_36_a_call_that_was_cut_is_never_taken_for_whole() {
    let begin = json!([{ "functionCall": { "name": "f", "willContinue": true }, "thoughtSignature": "s" }]);
    let piece = json!({ "jsonPath": "$.a", "stringValue": "x", "willContinue": true });
    let more = call(json!({ "partialArgs": [piece], "willContinue": true }));
    for reason in ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"] {
        let body = finished(&[begin.clone(), more.clone()], reason);
        assert_eq!(calls(&body), expected(&[("call_1", "f", r#"{"a":"x""#)]), "{reason}");
    }
    let cut = sse(&[chunk(&begin, None), chunk(&more, None)]);
    let response = answer(&cut);
    assert_eq!((response.tool_calls().count(), response.error.unwrap().kind), (0, ErrorKind::Truncated));
}

#[test]
fn calls_of_no_known_shape_are_errors() {
    for odd in [
        json!({ "args": { "a": 1 } }),
        json!({ "name": "", "args": {} }),
        json!({ "partialArgs": [{ "jsonPath": "$.a", "stringValue": "x" }] }),
        json!({ "name": "f", "partialArgs": [{ "jsonPath": "$.l[7]", "stringValue": "x" }] }),
        json!("f"),
    ] {
        assert_eq!(error_kind(&finished(&[call(odd.clone())], "STOP")), ErrorKind::Protocol, "{odd}");
    }
}

#[test]
fn calls_and_lists_have_caps() {
    let kind = |body: &str| {
        assemble(decode_with(GeminiDecoder::new("p"), [body.as_bytes()])).error.map(|error| error.kind)
    };
    let many = |part: &Value, count: usize| finished(&[vec![part.clone(); count].into()], "STOP");
    let text = json!({ "text": "" });
    assert_eq!((kind(&many(&text, 4096)), kind(&many(&text, 4097))), (None, Some(ErrorKind::TooLarge)));
    let f = json!({ "functionCall": { "name": "f" } });
    assert_eq!(kind(&many(&f, MAX_CALLS)), None);
    assert_eq!(kind(&many(&f, MAX_CALLS + 1)), Some(ErrorKind::TooLarge));
    for (name, id) in [(MAX_LABEL_BYTES + 1, 1), (1, MAX_LABEL_BYTES + 1)] {
        let long = call(json!({ "name": "x".repeat(name), "id": "x".repeat(id) }));
        assert_eq!(kind(&finished(&[long], "STOP")), Some(ErrorKind::TooLarge));
    }
    let half = "x".repeat(MAX_ARGUMENT_BYTES / 2);
    let lists = [0, 1].map(|_| call(json!({ "name": "f", "args": { "a": half } })));
    assert_eq!(kind(&finished(&lists[..1], "STOP")), None);
    assert_eq!(kind(&finished(&lists, "STOP")), Some(ErrorKind::TooLarge));
    let piece = json!({ "jsonPath": "$.a", "numberValue": 1 });
    let pieces = call(json!({ "name": "f", "partialArgs": vec![piece; 4097] }));
    assert_eq!(kind(&finished(&[pieces], "STOP")), Some(ErrorKind::TooLarge));
}
