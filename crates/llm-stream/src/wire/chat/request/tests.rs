//! Request bodies, and the histories they mend.

use std::sync::Arc;

use turnwright_core::{ImageRef, Interrupted, Message, Part, Reasoning, Role, ToolCall, ToolResult};

use super::*;
use crate::wire::testing::{assistant, id, tool};

mod thoughts;

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&chat_body(request).unwrap()).unwrap()
}

fn messages(messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { model: "m".into(), messages, ..LlmRequest::default() })["messages"].take()
}

fn full() -> LlmRequest {
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(Message::user(id(), "hi"))],
        tools: [tool("t"), tool("u")].into(),
        tool_choice: ToolChoice::Tool("t".into()),
        temperature: Some(0.5),
        max_output_tokens: Some(9),
        stop: vec!["END".into()],
        ..LlmRequest::default()
    }
}

#[test]
fn fault_r1_28_equal_requests_give_equal_bytes_in_a_fixed_order() {
    let bytes = chat_body(&full()).unwrap();
    assert_eq!(bytes, chat_body(&full().clone()).unwrap());
    let text = String::from_utf8(bytes).unwrap();
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"content":"hi","role":"user"}],"#,
        r#""tools":[{"type":"function","function":{"name":"t","description":"does it","parameters":"#,
    );
    assert!(text.starts_with(expected), "{text}");
    let expected = concat!(
        r#""tool_choice":{"function":{"name":"t"},"type":"function"},"max_tokens":9,"temperature":0.5,"#,
        r#""stop":["END"],"stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn extra_fields_come_last_and_win() {
    let extra = json!({ "max_tokens": null, "top_p": 0.1, "stream_options": { "x": 1 } });
    let Value::Object(extra) = extra else { unreachable!() };
    let text = String::from_utf8(chat_body(&LlmRequest { extra, ..full() }).unwrap()).unwrap();
    assert_eq!(text.matches("max_tokens").count(), 1);
    assert!(text.contains(r#""max_tokens":null"#) && text.contains(r#""stream_options":{"x":1}"#), "{text}");
}

#[test]
fn without_tools_there_is_no_choice_and_auto_says_nothing() {
    let request = LlmRequest { tools: [].into(), ..full() };
    assert_eq!(body(&request).get("tool_choice"), None);
    let choices = [
        (ToolChoice::Auto, None),
        (ToolChoice::None, Some(json!("none"))),
        (ToolChoice::Required, Some(json!("required"))),
    ];
    for (tool_choice, expected) in choices {
        assert_eq!(body(&LlmRequest { tool_choice, ..full() }).get("tool_choice"), expected.as_ref());
    }
}

#[test]
fn fault_b12_e17_arguments_always_go_out_as_a_json_object() {
    let table = [
        ("", "{}"),
        (" \n", "{}"),
        (r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a": 1 }"#, r#"{"a": 1 }"#),
        (r#"{"a":"#, r#"{"invalid_arguments":"{\"a\":"}"#),
        ("[1]", r#"{"invalid_arguments":"[1]"}"#),
        ("{} {}", r#"{"invalid_arguments":"{} {}"}"#),
    ];
    for (arguments, expected) in table {
        let call = ToolCall::new("c", "t", arguments);
        let sent = messages(vec![assistant(vec![Part::ToolCall(call)])]);
        let function = json!({ "name": "t", "arguments": expected });
        let calls = json!([{ "id": "c", "type": "function", "function": function }]);
        assert_eq!(sent, json!([{ "role": "assistant", "content": null, "tool_calls": calls }]));
    }
}

#[test]
fn fault_b16_results_follow_their_calls_and_images_follow_all_results() {
    let calls = [ToolCall::new("c1", "t", "{}"), ToolCall::new("c2", "u", "{}")];
    let image = |uri: &str| ImageRef { uri: uri.into(), media_type: None };
    let mut first = ToolResult::ok(&calls[0], "one");
    first.images = vec![image("https://x/i.png"), image("blob/7")];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let sent = messages(vec![
        assistant(calls.iter().cloned().map(Part::ToolCall).collect()),
        Message::tool(id(), first),
        Message::tool(id(), ToolResult::error(&calls[1], error)),
        Message::user(id(), "go on"),
    ]);
    assert_eq!(sent[1], json!({ "role": "tool", "tool_call_id": "c1", "content": "one" }));
    assert_eq!(sent[2], json!({ "role": "tool", "tool_call_id": "c2", "content": "no luck" }));
    let parts = json!([
        { "type": "text", "text": "Images in the result of t (c1):" },
        { "type": "image_url", "image_url": { "url": "https://x/i.png" } },
        { "type": "text", "text": "[image blob/7]" },
    ]);
    assert_eq!(sent[3], json!({ "role": "user", "content": parts }));
    assert_eq!(sent[4], json!({ "role": "user", "content": "go on" }));
}

#[test]
fn an_interrupted_answer_says_so_and_is_escaped() {
    let mut message = assistant(vec![Part::text("a < b & \"c\"")]);
    let pending_tools = vec!["weather".into(), "<x>".into()];
    message.interrupted = Some(Interrupted { reason: "user_stop".into(), pending_tools });
    let expected = concat!(
        r#"<interrupted_response reason="user_stop"><content>a &lt; b &amp; &quot;c&quot;</content>"#,
        r#"<pending_tools><tool name="weather"/><tool name="&lt;x&gt;"/></pending_tools></interrupted_response>"#,
    );
    assert_eq!(messages(vec![message])[0]["content"], expected);
    let mut empty = assistant(vec![]);
    empty.interrupted = Some(Interrupted { reason: "error".into(), pending_tools: vec![] });
    let expected = r#"<interrupted_response reason="error"></interrupted_response>"#;
    assert_eq!(messages(vec![empty])[0]["content"], expected);
}

#[test]
fn users_words_are_a_string_and_images_make_a_list() {
    let words = Message::new(id(), Role::User, vec![Part::text("a"), Part::text("b")]);
    let image = Part::Image(ImageRef { uri: "data:image/png;base64,AA".into(), media_type: None });
    let seen = Message::new(id(), Role::User, vec![Part::text("a"), image]);
    let sent = messages(vec![Message::system(id(), "s"), words, seen, assistant(vec![])]);
    let parts = json!([
        { "type": "text", "text": "a" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA" } },
    ]);
    let expected = json!([
        { "role": "system", "content": "s" },
        { "role": "user", "content": "a\nb" },
        { "role": "user", "content": parts },
    ]);
    assert_eq!(sent, expected, "and an empty answer is left out");
}

#[test]
fn fault_r1_12_reasoning_details_go_back_where_they_came_from() {
    let signed = json!({ "reasoning_details": [{ "type": "reasoning.text", "signature": "s", "index": 0 }] });
    let sealed = json!({ "reasoning_details": [
        { "type": "reasoning.summary" }, { "type": "reasoning.encrypted", "data": "d" },
    ] });
    let part = |text: &str, opaque: Value| {
        let Value::Object(opaque) = opaque else { unreachable!() };
        Part::Reasoning(Reasoning { text: text.into(), opaque })
    };
    let sent = messages(vec![assistant(vec![
        part("think", signed),
        part("sum", sealed),
        part("unsigned", json!({})),
        part("foreign", json!({ "thought": "x" })),
        Part::text("done"),
    ])]);
    let details = json!([
        { "type": "reasoning.text", "signature": "s", "index": 0, "text": "think" },
        { "type": "reasoning.summary", "summary": "sum" },
        { "type": "reasoning.encrypted", "data": "d" },
    ]);
    assert_eq!(sent, json!([{ "role": "assistant", "content": "done", "reasoning_details": details }]));
}

#[test]
fn a_name_that_a_model_made_up_is_spelled_as_servers_allow() {
    let call = |name: &str| Arc::new(assistant(vec![Part::ToolCall(ToolCall::new("c", name, "{}"))]));
    let messages = vec![call("multi_tool_use.parallel"), call("a.tool")];
    let sent = body(&LlmRequest { messages, tools: [tool("a.tool")].into(), system: None, ..full() });
    let name = |at: usize| sent["messages"][at]["tool_calls"][0]["function"]["name"].clone();
    assert_eq!((name(0), name(1)), (json!("multi_tool_use_parallel"), json!("a.tool")));
}

#[test]
fn ids_that_are_too_long_for_the_format_are_shortened_alike_in_call_and_result() {
    let calls = ["x".repeat(41), "y".repeat(40)].map(|id| ToolCall::new(id, "t", "{}"));
    let mut history = vec![assistant(calls.iter().cloned().map(Part::ToolCall).collect())];
    history.extend(calls.iter().map(|call| Message::tool(id(), ToolResult::ok(call, "r"))));
    let sent = messages(history);
    let asked = [0, 1].map(|at: usize| sent[0]["tool_calls"][at]["id"].clone());
    let answered = [1, 2].map(|at: usize| sent[at]["tool_call_id"].clone());
    assert_eq!(asked, [json!("call_long"), json!("y".repeat(40))]);
    assert_eq!(answered, asked);
}
