//! What the server said that must go back, and histories that have nothing of it.

use super::*;

#[test]
fn fault_r1_12_what_was_kept_goes_back_on_its_part() {
    let parts = json!([
        { "text": "hm", "thought": true },
        { "text": "so", "thought": true, "thoughtSignature": "s1" },
        { "text": "a" },
        { "text": "bé", "thoughtSignature": "s2" },
        { "text": "c" },
        { "functionCall": { "id": "w", "name": "t", "args": { "x": 1 } }, "thoughtSignature": "s3" },
        { "functionCall": { "name": "u", "args": {} } },
        { "executableCode": { "code": "1" }, "thoughtSignature": "s4" },
        { "text": "", "thoughtSignature": "s5" },
    ]);
    let chunks =
        parts.as_array().unwrap().iter().map(
            |part| json!({ "candidates": [{ "content": { "parts": [part] }, "finishReason": "STOP" }] }),
        );
    let stream: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
    let answer = assistant(decoded(GeminiDecoder::new("p"), &stream));
    let results: Vec<Message> =
        answer.tool_calls().map(|call| Message::tool(id(), ToolResult::ok(call, "r"))).collect();
    let sent = contents([vec![user("q"), answer], results].concat());
    let mut expected = parts;
    // A thought without a signature is nothing to the server.
    expected.as_array_mut().unwrap().remove(0);
    assert_eq!(sent[1], json!({ "role": "model", "parts": expected }));
    let results = json!([
        { "functionResponse": { "id": "w", "name": "t", "response": { "output": "r" } } },
        { "functionResponse": { "name": "u", "response": { "output": "r" } } },
    ]);
    assert_eq!(sent[2]["parts"], results);
}

#[test]
fn kept_fields_that_fit_no_more_do_no_harm() {
    let keep = |text: &str, fields: Value| {
        let opaque = Map::from_iter([("gemini_part".to_owned(), fields)]);
        Part::Reasoning(Reasoning { text: text.into(), opaque })
    };
    let signed = |of: &str, bytes: u64| json!({ "of": of, "bytes": bytes, "thoughtSignature": "s" });
    let sent = contents(vec![
        user("q"),
        assistant(vec![
            keep("short", signed("thought", 99)),
            keep("é", signed("thought", 1)),
            Part::text("é"),
            keep("", signed("text", 1)),
            keep("", json!({ "of": "functionCall", "thoughtSignature": "s" })),
            Part::text("no call"),
            Part::ToolCall(ToolCall::new("c", "t", "{}")),
            keep("", json!({ "of": "new" })),
            keep("", json!(7)),
        ]),
    ]);
    let expected = json!([
        { "text": "é" },
        { "text": "", "thoughtSignature": "s" },
        { "text": "no call" },
        { "functionCall": { "name": "t", "args": {} } },
    ]);
    assert_eq!(sent[1]["parts"], expected);
}

#[test]
fn a_history_made_by_another_format_is_accepted() {
    let piece = json!([{ "index": 0, "id": "abc", "function": { "name": "t", "arguments": "{\"a\":1}" } }]);
    let details = json!([{ "type": "reasoning.text", "text": "hm", "signature": "x", "index": 0 }]);
    let delta = json!({ "reasoning_details": details, "content": "ok", "tool_calls": piece });
    let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": "tool_calls" }] });
    let parts = decoded(ChatDecoder::new("p"), &format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    let call = ToolCall::new(CallId::from("abc"), "t", "{\"a\":1}");
    let history =
        || vec![user("q"), assistant(parts.clone()), Message::tool(id(), ToolResult::ok(&call, "r"))];
    let call = |signature: Option<&str>| {
        let mut part = json!({ "functionCall": { "name": "t", "args": { "a": 1 } } });
        if let Some(signature) = signature {
            part["thoughtSignature"] = signature.into();
        }
        json!([{ "text": "ok" }, part])
    };
    for (model, signature) in [
        ("gemini-2.5-pro", None),
        ("gemma-3", None),
        ("gemini-3-pro-preview", Some("skip_thought_signature_validator")),
        ("models/gemini-flash-latest", Some("skip_thought_signature_validator")),
    ] {
        let sent = contents_for(model, history());
        assert_eq!(sent[1]["parts"], call(signature), "{model}");
        let result = json!([{ "functionResponse": { "name": "t", "response": { "output": "r" } } }]);
        assert_eq!(sent[2]["parts"], result, "no id that the server does not know");
    }
}
