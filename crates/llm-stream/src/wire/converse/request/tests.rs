//! Request bodies, and the histories they mend.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use turnwright_core::{ImageRef, Interrupted, Message, Part, Role, ToolCall, ToolDefinition, ToolResult};

use super::*;
use crate::wire::testing::{answered, assistant, call, calls, full, id, image, reasoning, user};
use crate::{
    Assembler, StreamItem, ToolChoice,
    wire::{WireDecoder, chat::ChatDecoder, converse::ConverseDecoder, messages::MessagesDecoder},
};

mod arbitrary;
mod heard;
mod mended;

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&converse_body(request).unwrap()).unwrap()
}

/// What goes out of a history, of a request that names tools.
fn sent(messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { messages, ..full() })["messages"].take()
}

fn words(text: &str) -> Value {
    json!({ "text": text })
}

fn called(id: &str) -> Value {
    json!({ "toolUse": { "toolUseId": id, "name": "t", "input": {} } })
}

fn result(id: &str, content: &str) -> Value {
    json!({ "toolResult": { "toolUseId": id, "content": [words(content)] } })
}

fn turn<const N: usize>(role: &str, content: [Value; N]) -> Value {
    Value::from_iter([("role", role.into()), ("content", content.into_iter().collect::<Value>())])
}

#[test]
fn fault_r1_28_equal_requests_give_equal_bytes_in_a_fixed_order() {
    let bytes = converse_body(&full()).unwrap();
    assert_eq!(bytes, converse_body(&full().clone()).unwrap());
    let expected = concat!(
        r#"{"system":[{"text":"be brief"}],"messages":[{"role":"user","content":[{"text":"hi"}]}],"#,
        r#""inferenceConfig":{"maxTokens":9,"stopSequences":["END"],"temperature":0.5},"#,
        r#""toolConfig":{"tools":[{"toolSpec":{"name":"t","description":"does it","inputSchema":{"json":"#,
        r#"{"properties":{"a":{},"b":{}},"type":"object"}}}}],"toolChoice":{"tool":{"name":"t"}}}}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn what_is_not_asked_for_is_not_sent_nor_is_the_model() {
    let request =
        LlmRequest { model: "m".into(), messages: vec![Arc::new(user("hi"))], ..LlmRequest::default() };
    assert_eq!(body(&request), json!({ "messages": [turn("user", [words("hi")])] }));
    let request = LlmRequest { max_output_tokens: Some(1), ..request };
    assert_eq!(body(&request)["inferenceConfig"], json!({ "maxTokens": 1 }));
}

#[test]
fn extra_fields_come_last_and_win() {
    let extra = json!({ "additionalModelRequestFields": { "top_k": 5 }, "system": [], "inferenceConfig": { "maxTokens": 1 } });
    let Value::Object(extra) = extra else { unreachable!() };
    let text = String::from_utf8(converse_body(&LlmRequest { extra, ..full() }).unwrap()).unwrap();
    assert!(text.ends_with(r#","additionalModelRequestFields":{"top_k":5},"system":[]}"#), "{text}");
    let config = r#""inferenceConfig":{"maxTokens":1,"stopSequences":["END"],"temperature":0.5}"#;
    assert!(text.contains(config), "{text}");
    assert_eq!((text.matches("\"inferenceConfig\"").count(), text.matches("\"system\"").count()), (1, 1));
}

#[test]
fn auto_says_nothing_and_an_empty_description_is_left_out() {
    for (tool_choice, expected) in
        [(ToolChoice::Auto, None), (ToolChoice::Required, Some(json!({ "any": {} })))]
    {
        let body = body(&LlmRequest { tool_choice, ..full() });
        assert_eq!(body["toolConfig"].get("toolChoice"), expected.as_ref());
    }
    let mut request = full();
    let tool = ToolDefinition { description: " ".into(), ..ToolDefinition::clone(&request.tools[0]) };
    request.tools = [Arc::new(tool)].into();
    assert_eq!(body(&request)["toolConfig"]["tools"][0]["toolSpec"].get("description"), None);
}

#[test]
fn where_no_tool_may_be_named_calls_and_results_are_words() {
    let mut failed = ToolResult::error(&call("c2"), ErrorInfo::new(ErrorKind::ToolFailed, "no luck"));
    failed.images = vec![image("data:image/png;base64,AA")];
    let messages = vec![user("a"), calls(&["c1", "c2"]), answered("c1", "one"), Message::tool(id(), failed)];
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    let picture = json!({ "image": { "format": "png", "source": { "bytes": "AA" } } });
    let expected = json!([
        turn("user", [words("a")]),
        turn("assistant", [words("[Call of t] {}"), words("[Call of t] {}")]),
        turn(
            "user",
            [
                words("[Result of an earlier call of t] one"),
                words("[Error of an earlier call of t] no luck"),
                picture
            ]
        ),
    ]);
    let forbidden = LlmRequest { messages: messages.clone(), tool_choice: ToolChoice::None, ..full() };
    let without = LlmRequest { messages, tools: [].into(), ..full() };
    for request in [&forbidden, &without] {
        let body = body(request);
        assert_eq!((&body["messages"], body.get("toolConfig")), (&expected, None));
    }
    // Who brings a configuration names tools, and decides.
    let extra = Map::from_iter([("toolConfig".into(), json!({ "tools": [] }))]);
    let body = body(&LlmRequest { extra, ..forbidden });
    assert_eq!(body["messages"][1], turn("assistant", [called("c1"), called("c2")]));
    assert_eq!(body["toolConfig"], json!({ "tools": [] }));
}

#[test]
fn parts_keep_their_order_and_results_hold_their_images() {
    let mut seen = ToolResult::ok(&call("c1"), "one");
    seen.images = vec![image("data:image/JPG;base64,AA"), image("blob/7")];
    let mut shown_only = ToolResult::ok(&call("c2"), "");
    shown_only.images = vec![image("data:image/webp;base64,AA")];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let of_user = [
        image("data:,x"),
        image("data:;base64,AA"),
        ImageRef { uri: "data:;base64,AA".into(), media_type: Some("image/gif".into()) },
        image("data:image/png;name=a;base64,BB"),
        image("data:image/svg+xml;base64,CC"),
        image("https://x/i.png"),
    ];
    let messages = vec![
        Message::new(id(), Role::User, vec![Part::text("a"), Part::Image(image("data:image/png;base64,AA"))]),
        calls(&["c1", "c2", "c3"]),
        Message::tool(id(), seen),
        Message::tool(id(), shown_only),
        Message::tool(id(), ToolResult::error(&call("c3"), error)),
        assistant(vec![Part::text("done")]),
        Message::new(id(), Role::User, of_user.map(Part::Image).into()),
    ];
    let inline =
        |format: &str, data: &str| json!({ "image": { "format": format, "source": { "bytes": data } } });
    let result = |id: &str, content: Value| json!({ "toolResult": { "toolUseId": id, "content": content } });
    let unreadable = words("[image in an encoding that cannot be sent]");
    let failed =
        json!({ "toolResult": { "toolUseId": "c3", "content": [words("no luck")], "status": "error" } });
    let expected = json!([
        turn("user", [words("a"), inline("png", "AA")]),
        turn("assistant", [called("c1"), called("c2"), called("c3")]),
        turn(
            "user",
            [
                result("c1", json!([words("one"), inline("jpeg", "AA"), words("[image blob/7]")])),
                result("c2", json!([inline("webp", "AA")])),
                failed
            ]
        ),
        turn("assistant", [words("done")]),
        turn(
            "user",
            [
                unreadable.clone(),
                unreadable.clone(),
                inline("gif", "AA"),
                inline("png", "BB"),
                unreadable,
                words("[image https://x/i.png]")
            ]
        ),
    ]);
    assert_eq!(sent(messages), expected);
}
