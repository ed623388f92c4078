//! Request bodies, and the histories they mend.

use std::sync::Arc;

use turnwright_core::{ImageRef, Interrupted, Message, Part, Role, ToolCall, ToolResult};

use super::*;
use crate::wire::testing::{answered, assistant, call, calls, full, id, image, reasoning, user};
use crate::{
    Assembler, StreamItem,
    wire::{WireDecoder, chat::ChatDecoder, messages::MessagesDecoder, responses::ResponsesDecoder},
};

mod heard;
mod mended;

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&messages_body(request).unwrap()).unwrap()
}

fn body_of(messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { model: "m".into(), messages, ..LlmRequest::default() })
}

fn sent(messages: Vec<Message>) -> Value {
    body_of(messages)["messages"].take()
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn called(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "t", "input": {} })
}

fn result(id: &str, content: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": content })
}

fn turn(role: &str, content: Value) -> Value {
    Value::from_iter([("role", role.into()), ("content", content)])
}

#[test]
fn fault_r1_28_equal_requests_give_equal_bytes_in_a_fixed_order() {
    let bytes = messages_body(&full()).unwrap();
    assert_eq!(bytes, messages_body(&full().clone()).unwrap());
    let expected = concat!(
        r#"{"model":"m","max_tokens":9,"system":"be brief","messages":[{"role":"user","content":"hi"}],"#,
        r#""tools":[{"name":"t","description":"does it","input_schema":"#,
        r#"{"properties":{"a":{},"b":{}},"type":"object"}}],"#,
        r#""tool_choice":{"name":"t","type":"tool"},"temperature":0.5,"stop_sequences":["END"],"stream":true}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn what_is_not_asked_for_is_not_sent_but_the_figure_that_the_format_demands() {
    let expected = json!({ "model": "m", "max_tokens": DEFAULT_MAX_TOKENS, "stream": true,
        "messages": [turn("user", "hi".into())] });
    assert_eq!(body_of(vec![user("hi")]), expected);
}

#[test]
fn extra_fields_come_last_and_win() {
    let Value::Object(extra) = json!({ "max_tokens": 5, "thinking": { "type": "adaptive" } }) else {
        unreachable!()
    };
    let text = String::from_utf8(messages_body(&LlmRequest { extra, ..full() }).unwrap()).unwrap();
    assert!(text.ends_with(r#""stream":true,"max_tokens":5,"thinking":{"type":"adaptive"}}"#), "{text}");
    assert_eq!(text.matches("\"max_tokens\"").count(), 1);
}

#[test]
fn without_tools_there_is_no_choice_and_auto_says_nothing() {
    let request = LlmRequest { tools: [].into(), ..full() };
    assert_eq!((body(&request).get("tools"), body(&request).get("tool_choice")), (None, None));
    let choices = [
        (ToolChoice::Auto, None),
        (ToolChoice::None, Some(json!({ "type": "none" }))),
        (ToolChoice::Required, Some(json!({ "type": "any" }))),
    ];
    for (tool_choice, expected) in choices {
        assert_eq!(body(&LlmRequest { tool_choice, ..full() }).get("tool_choice"), expected.as_ref());
    }
}

#[test]
fn parts_keep_their_order_and_results_hold_their_images() {
    let mut seen = ToolResult::ok(&call("c1"), "one");
    seen.images = vec![image("https://x/i.png"), image("blob/7")];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let messages = vec![
        Message::new(id(), Role::User, vec![Part::text("a"), Part::Image(image("data:image/png;base64,AA"))]),
        assistant(vec![Part::text("first"), Part::ToolCall(call("c1")), Part::ToolCall(call("c2"))]),
        Message::tool(id(), seen),
        Message::tool(id(), ToolResult::error(&call("c2"), error)),
        assistant(vec![Part::text("done")]),
        Message::new(
            id(),
            Role::User,
            vec![
                Part::Image(image("data:,x")),
                Part::Image(image("data:;base64,AA")),
                Part::Image(ImageRef { uri: "data:;base64,AA".into(), media_type: Some("image/gif".into()) }),
                Part::Image(image("data:image/png;name=a;base64,BB")),
            ],
        ),
    ];
    let source = |source: Value| Value::from_iter([("type", "image".into()), ("source", source)]);
    let shown = json!([
        words("one"),
        source(json!({ "type": "url", "url": "https://x/i.png" })),
        words("[image blob/7]")
    ]);
    let inline = |media_type: &str, data: &str| {
        source(json!({ "type": "base64", "media_type": media_type, "data": data }))
    };
    let unreadable = words("[image in an encoding that cannot be sent]");
    let failed =
        json!({ "type": "tool_result", "tool_use_id": "c2", "content": "no luck", "is_error": true });
    let expected = json!([
        turn("user", json!([words("a"), inline("image/png", "AA")])),
        turn("assistant", json!([words("first"), called("c1"), called("c2")])),
        turn("user", json!([{ "type": "tool_result", "tool_use_id": "c1", "content": shown }, failed])),
        turn("assistant", "done".into()),
        turn("user", json!([unreadable, unreadable, inline("image/gif", "AA"), inline("image/png", "BB")])),
    ]);
    assert_eq!(sent(messages), expected);
}
