//! Request bodies, and the histories they mend.

use std::sync::Arc;

use serde_json::json;
use turnwright_core::{
    Concurrency, Interrupted, Message, Part, Reasoning, Role, ToolCall, ToolDefinition, ToolResult,
};

use super::*;
use crate::wire::testing::{assistant, id, image};
use crate::{
    Assembler, StreamItem,
    wire::{WireDecoder, chat::ChatDecoder, ollama::OllamaDecoder},
};

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&ollama_body(request).unwrap()).unwrap()
}

fn messages(messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { model: "m".into(), messages, ..LlmRequest::default() })["messages"].take()
}

fn decoded(mut decoder: impl WireDecoder, body: &str) -> Message {
    let (mut out, mut assembler) = (Vec::new(), Assembler::new());
    decoder.feed(body.as_bytes(), &mut out);
    decoder.end(&mut out);
    for item in out {
        if let StreamItem::Event(event) = item {
            assembler.feed(event);
        }
    }
    let response = assembler.finish();
    assert_eq!(response.error, None);
    assistant(response.parts)
}

fn full() -> LlmRequest {
    let tool = ToolDefinition {
        name: "t".into(),
        description: "does it".into(),
        parameters: json!({ "type": "object" }),
        source: "local".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    };
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(Message::user(id(), "hi"))],
        tools: [Arc::new(tool)].into(),
        temperature: Some(0.5),
        max_output_tokens: Some(9),
        stop: vec!["END".into()],
        ..LlmRequest::default()
    }
}

#[test]
fn fault_r1_28_equal_requests_give_equal_bytes_in_a_fixed_order() {
    let bytes = ollama_body(&full()).unwrap();
    assert_eq!(bytes, ollama_body(&full().clone()).unwrap());
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"#,
        r#""tools":[{"type":"function","function":{"name":"t","description":"does it","parameters":{"type":"object"}}}],"#,
        r#""options":{"num_predict":9,"stop":["END"],"temperature":0.5},"stream":true}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn extra_fields_win_and_those_of_the_options_one_by_one() {
    let extra = json!({ "options": { "num_predict": 5, "num_ctx": 4096 }, "think": true, "stream": false });
    let Value::Object(extra) = extra else { unreachable!() };
    let request = LlmRequest { extra, ..full() };
    let bytes = String::from_utf8(ollama_body(&request).unwrap()).unwrap();
    assert_eq!((bytes.matches("options").count(), bytes.matches("stream").count()), (1, 1));
    let sent = body(&request);
    let options = json!({ "num_predict": 5, "num_ctx": 4096, "temperature": 0.5, "stop": ["END"] });
    assert_eq!((&sent["options"], &sent["think"], &sent["stream"]), (&options, &json!(true), &json!(false)));
}

#[test]
fn a_choice_that_the_format_cannot_express_is_refused_with_a_hint() {
    for tool_choice in [ToolChoice::Required, ToolChoice::Tool("t".into())] {
        let request = LlmRequest { tool_choice: tool_choice.clone(), ..full() };
        let error = ollama_body(&request).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains("`output`"), "{error}");
        assert!(ollama_body(&LlmRequest { tools: [].into(), ..request }).is_ok());
    }
    let none = body(&LlmRequest { tool_choice: ToolChoice::None, ..full() });
    assert_eq!(none.get("tools"), None);
}

#[test]
fn fault_b16_results_follow_their_calls_and_images_follow_all_results() {
    let calls = [ToolCall::new("c1", "t", r#"{"b":1,"a":2}"#), ToolCall::new("c2", "u", "")];
    let mut first = ToolResult::ok(&calls[0], "one");
    first.images = vec![image("data:image/png;base64,AA=="), image("https://x/i.png")];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let sent = messages(vec![
        Message::system(id(), "s"),
        assistant(calls.iter().cloned().map(Part::ToolCall).collect()),
        Message::tool(id(), first),
        Message::tool(id(), ToolResult::error(&calls[1], error)),
        Message::user(id(), "go on"),
        assistant(vec![]),
    ]);
    let expected = json!([
        { "role": "system", "content": "s" },
        { "role": "assistant", "content": "", "tool_calls": [
            { "id": "c1", "function": { "name": "t", "arguments": { "b": 1, "a": 2 } } },
            { "id": "c2", "function": { "name": "u", "arguments": {} } },
        ] },
        { "role": "tool", "content": "one", "tool_name": "t", "tool_call_id": "c1" },
        { "role": "tool", "content": "no luck", "tool_name": "u", "tool_call_id": "c2" },
        { "role": "user", "content": "Images in the result of t (c1):\n[image https://x/i.png]", "images": ["AA=="] },
        { "role": "user", "content": "go on" },
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn images_go_as_data_or_as_words() {
    let parts = vec![
        Part::text("a"),
        Part::Image(image("data:image/png;base64,AA==")),
        Part::text("b"),
        Part::Image(image("data:image/svg+xml,<svg/>")),
        Part::Image(image("blob/7")),
    ];
    let sent = messages(vec![Message::new(id(), Role::User, parts)]);
    let content = "a\nb\n[an image that cannot be sent]\n[image blob/7]";
    assert_eq!(sent, json!([{ "role": "user", "content": content, "images": ["AA=="] }]));
}

#[test]
fn fault_b12_e17_arguments_always_go_out_as_an_object_as_they_were() {
    for (arguments, expected) in [
        (" ", r#""arguments":{}"#),
        (r#"{"b": 1, "a":2 }"#, r#""arguments":{"b": 1, "a":2 }"#),
        (r#"{"a":"#, r#""arguments":{"invalid_arguments":"{\"a\":"}"#),
        ("[1]", r#""arguments":{"invalid_arguments":"[1]"}"#),
    ] {
        let call = Part::ToolCall(ToolCall::new("c", "t", arguments));
        let messages = vec![Arc::new(assistant(vec![call]))];
        let bytes = ollama_body(&LlmRequest { messages, ..LlmRequest::default() }).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn fault_r1_12_thoughts_of_this_format_go_back_and_no_others() {
    let line = |message: Value| json!({ "message": message, "done": false }).to_string();
    let stream = [
        line(json!({ "content": "", "thinking": "h" })),
        line(json!({ "content": "", "thinking": "m" })),
        line(json!({ "content": "ok" })),
        line(json!({ "content": "", "thinking": " so" })),
        line(json!({ "tool_calls": [{ "id": "x", "function": { "name": "t", "arguments": { "a": 1 } } }] })),
        json!({ "done": true, "done_reason": "stop" }).to_string(),
    ];
    let mut message = decoded(OllamaDecoder::new("p"), &stream.join("\n"));
    message.parts.push(Part::Reasoning(Reasoning { text: "foreign".into(), ..Reasoning::default() }));
    let call = json!({ "id": "x", "function": { "name": "t", "arguments": { "a": 1 } } });
    let expected = json!({ "role": "assistant", "content": "ok", "thinking": "hm so", "tool_calls": [call] });
    assert_eq!(messages(vec![message.clone()]), json!([expected]));
    message.interrupted = Some(Interrupted { reason: "timeout".into(), pending_tools: vec![] });
    let marked = "<interrupted_response reason=\"timeout\"><content>ok</content></interrupted_response>";
    let expected = json!({ "role": "assistant", "content": marked, "tool_calls": [call] });
    assert_eq!(messages(vec![message]), json!([expected]));
}

#[test]
fn a_history_made_by_another_format_is_accepted() {
    let piece = json!([{ "index": 0, "id": "abc", "function": { "name": "t", "arguments": "{\"a\":1}" } }]);
    let delta = json!({ "reasoning_content": "hm", "content": "ok", "tool_calls": piece });
    let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": "tool_calls" }] });
    let message = decoded(ChatDecoder::new("p"), &format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    let result = ToolResult::ok(&ToolCall::new("abc", "t", ""), "r");
    let sent = messages(vec![Message::user(id(), "q"), message, Message::tool(id(), result)]);
    let call = json!({ "id": "abc", "function": { "name": "t", "arguments": { "a": 1 } } });
    let expected = json!([
        { "role": "user", "content": "q" },
        { "role": "assistant", "content": "ok", "tool_calls": [call] },
        { "role": "tool", "content": "r", "tool_name": "t", "tool_call_id": "abc" },
    ]);
    assert_eq!(sent, expected);
}
