//! Request bodies, and the histories they mend.

use std::sync::Arc;

use serde_json::Map;
use turnwright_core::{Interrupted, Message, Part, Role, ToolCall, ToolResult};

use super::*;
use crate::wire::testing::{assistant, full, id, image, reasoning};
use crate::{
    Assembler, StreamItem,
    wire::{WireDecoder, chat::ChatDecoder, responses::ResponsesDecoder},
};

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&responses_body(request).unwrap()).unwrap()
}

fn input_of(messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { model: "m".into(), messages, ..LlmRequest::default() })["input"].take()
}

fn said(text: &str) -> Value {
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
}

fn called(id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": "t", "arguments": arguments })
}

/// What a decoder made of a body, as the message that history will have.
fn heard(mut decoder: impl WireDecoder, body: &str) -> Message {
    let mut out = Vec::new();
    decoder.feed(body.as_bytes(), &mut out);
    decoder.end(&mut out);
    let mut assembler = Assembler::new();
    for item in out {
        if let StreamItem::Event(event) = item {
            assembler.feed(event);
        }
    }
    let response = assembler.finish();
    assert_eq!(response.error, None);
    assistant(response.parts)
}

#[test]
fn fault_r1_28_equal_requests_give_equal_bytes_in_a_fixed_order() {
    let bytes = responses_body(&full()).unwrap();
    assert_eq!(bytes, responses_body(&full().clone()).unwrap());
    let expected = concat!(
        r#"{"model":"m","instructions":"be brief","input":[{"content":"hi","role":"user"}],"#,
        r#""tools":[{"type":"function","name":"t","description":"does it","parameters":"#,
        r#"{"properties":{"a":{},"b":{}},"type":"object"},"strict":false}],"#,
        r#""tool_choice":{"name":"t","type":"function"},"max_output_tokens":9,"temperature":0.5,"#,
        r#""stop":["END"],"store":false,"include":["reasoning.encrypted_content"],"stream":true}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn extra_fields_come_last_and_win() {
    let Value::Object(extra) = json!({ "include": [], "reasoning": { "effort": "low" } }) else {
        unreachable!()
    };
    let text = String::from_utf8(responses_body(&LlmRequest { extra, ..full() }).unwrap()).unwrap();
    assert!(text.ends_with(r#""stream":true,"include":[],"reasoning":{"effort":"low"}}"#), "{text}");
    assert_eq!(text.matches("\"include\"").count(), 1);
}

#[test]
fn a_model_that_does_not_reason_is_not_asked_for_its_reasoning() {
    for (model, asked) in [
        ("gpt-4o-mini", false),
        ("openai/gpt-4.1", false),
        ("gpt-5-chat-latest", false),
        ("gpt-5-mini", true),
        ("o4-mini", true),
        ("my-deployment", true),
    ] {
        let body = body(&LlmRequest { model: model.into(), ..full() });
        assert_eq!(body.get("include").is_some(), asked, "{model}");
    }
}

#[test]
fn every_message_of_the_model_has_an_id_which_strict_servers_demand() {
    let answer =
        || assistant(vec![Part::text("a"), Part::ToolCall(ToolCall::new("c", "t", "{}")), Part::text("b")]);
    let mut cut = assistant(vec![]);
    cut.interrupted = Some(Interrupted { reason: "error".into(), pending_tools: vec![] });
    let sent = input_of(vec![answer(), Message::user(id(), "u"), cut, answer()]);
    let ids = sent.as_array().unwrap().iter().filter_map(|item| item.get("id")?.as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["msg_1", "msg_2", "msg_3", "msg_4", "msg_5"]);
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
    for (arguments, expected) in [
        ("", "{}"),
        (r#"{"a": 1 }"#, r#"{"a": 1 }"#),
        (r#"{"a":"#, r#"{"invalid_arguments":"{\"a\":"}"#),
        ("[1]", r#"{"invalid_arguments":"[1]"}"#),
    ] {
        let sent = input_of(vec![assistant(vec![Part::ToolCall(ToolCall::new("c", "t", arguments))])]);
        assert_eq!(sent, json!([called("c", expected)]));
    }
}

#[test]
fn parts_keep_their_order_and_results_hold_their_images() {
    let calls = [ToolCall::new("c1", "t", "{}"), ToolCall::new("c2", "t", "{}")];
    let mut seen = ToolResult::ok(&calls[0], "one");
    seen.images = vec![image("https://x/i.png"), image("blob/7")];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let sent = input_of(vec![
        Message::system(id(), "s"),
        Message::new(id(), Role::User, vec![Part::text("a"), Part::text("b")]),
        Message::new(id(), Role::User, vec![Part::text("a"), Part::Image(image("data:image/png;base64,AA"))]),
        assistant(vec![
            Part::text("first"),
            Part::ToolCall(calls[0].clone()),
            Part::ToolCall(calls[1].clone()),
        ]),
        Message::tool(id(), seen),
        Message::tool(id(), ToolResult::error(&calls[1], error)),
        assistant(vec![]),
    ]);
    let picture = |uri: &str| json!({ "type": "input_image", "image_url": uri, "detail": "auto" });
    let words = |text: &str| json!({ "type": "input_text", "text": text });
    let shown = json!([words("one"), picture("https://x/i.png"), words("[image blob/7]")]);
    let expected = json!([
        { "role": "system", "content": "s" },
        { "role": "user", "content": "a\nb" },
        { "role": "user", "content": [words("a"), picture("data:image/png;base64,AA")] },
        said("first"),
        called("c1", "{}"),
        called("c2", "{}"),
        { "type": "function_call_output", "call_id": "c1", "output": shown },
        { "type": "function_call_output", "call_id": "c2", "output": "no luck" },
    ]);
    assert_eq!(sent, expected, "and an empty answer is left out");
}

#[test]
fn an_interrupted_answer_says_so_once_and_is_escaped() {
    let call = Part::ToolCall(ToolCall::new("c", "t", "{}"));
    let mut message = assistant(vec![Part::text("a <"), call.clone(), Part::text(" b")]);
    message.interrupted = Some(Interrupted { reason: "user_stop".into(), pending_tools: vec!["<x>".into()] });
    let expected = concat!(
        r#"<interrupted_response reason="user_stop"><content>a &lt; b</content>"#,
        r#"<pending_tools><tool name="&lt;x&gt;"/></pending_tools></interrupted_response>"#,
    );
    assert_eq!(input_of(vec![message.clone()]), json!([said(expected), called("c", "{}")]));
    let expected = r#"<interrupted_response reason="error"></interrupted_response>"#;
    message.interrupted = Some(Interrupted { reason: "error".into(), pending_tools: vec![] });
    message.parts = vec![call];
    assert_eq!(input_of(vec![message.clone()]), json!([said(expected), called("c", "{}")]));
    message.parts = vec![];
    assert_eq!(input_of(vec![message]), json!([said(expected)]));
}

#[test]
fn nothing_stands_between_the_calls_of_another_format_and_their_results() {
    let call = |id: &str| Part::ToolCall(ToolCall::new(id, "t", "{}"));
    let answer = assistant(vec![call("c1"), Part::text("a"), call("c2")]);
    assert_eq!(input_of(vec![answer]), json!([said("a"), called("c1", "{}"), called("c2", "{}")]));
}

#[test]
fn fault_r1_12_what_the_decoder_heard_goes_back_unchanged() {
    let item = |id: &str, encrypted: &str| {
        json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": "hm" }],
            "encrypted_content": encrypted, "of_later": 1.5 })
    };
    let call = |id: &str| json!({ "type": "function_call", "id": "fc", "call_id": id, "name": "t", "arguments": "{}" });
    let message =
        json!({ "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "x" }] });
    let output = json!([item("rs_1", "A=="), call("c1"), item("rs_2", "B=="), call("c2"), message]);
    let response = json!({ "object": "response", "status": "completed", "output": output });
    let heard = heard(ResponsesDecoder::new("p"), &response.to_string());
    let expected =
        json!([item("rs_1", "A=="), called("c1", "{}"), item("rs_2", "B=="), called("c2", "{}"), said("x")]);
    assert_eq!(input_of(vec![heard]), expected);
}

#[test]
fn reasoning_that_the_server_could_not_read_stays_here() {
    let opaque = |item: Value| json!({ "responses_item": item });
    let only_id = opaque(json!({ "type": "reasoning", "id": "rs", "summary": [], "content": [] }));
    let clear =
        json!({ "type": "reasoning", "id": "rs", "content": [{ "type": "reasoning_text", "text": "hm" }] });
    let parts = vec![
        reasoning("unsigned", json!({})),
        reasoning("foreign", json!({ "reasoning_details": [{ "signature": "s" }] })),
        reasoning("", only_id.clone()),
        reasoning("hm", opaque(clear.clone())),
        Part::text("a"),
        reasoning("belongs to nothing", opaque(clear.clone())),
    ];
    assert_eq!(input_of(vec![assistant(parts)]), json!([clear, said("a")]));
    // A server that stores its answers knows the item by its id.
    let messages = vec![Arc::new(assistant(vec![reasoning("", only_id.clone()), Part::text("a")]))];
    let extra = Map::from_iter([("store".to_owned(), json!(true))]);
    let sent = body(&LlmRequest { messages, extra, ..LlmRequest::default() });
    assert_eq!(sent["input"], json!([only_id["responses_item"], said("a")]));
}

#[test]
fn a_history_that_chat_completions_made_is_accepted() {
    let delta = json!({ "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "s" }],
        "content": "a", "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "t", "arguments": "" } }] });
    let chunk = json!({ "id": "r", "choices": [{ "delta": delta, "finish_reason": "tool_calls" }] });
    let heard = heard(ChatDecoder::new("p"), &format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    assert!(heard.parts.iter().any(|part| matches!(part, Part::Reasoning(_))));
    assert_eq!(input_of(vec![heard]), json!([said("a"), called("c", "{}")]));
}

#[test]
fn ids_that_are_too_long_for_the_format_are_shortened_alike_in_call_and_result() {
    let (long, longer, fits) = ("x".repeat(65), "x".repeat(66), "y".repeat(64));
    let calls = [&long, &fits, &longer].map(|id| ToolCall::new(id.as_str(), "t", "{}"));
    let mut messages = vec![assistant(calls.iter().cloned().map(Part::ToolCall).collect())];
    messages.extend(calls.iter().map(|call| Message::tool(id(), ToolResult::ok(call, "r"))));
    let ids = |sent: &Value| -> Vec<String> {
        sent.as_array().unwrap().iter().map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let sent = input_of(messages.clone());
    assert_eq!(ids(&sent), ["call_long", &fits, "call_long_2", "call_long", &fits, "call_long_2"]);
    messages.push(assistant(vec![Part::ToolCall(ToolCall::new("z".repeat(99), "t", "{}"))]));
    assert_eq!(ids(&input_of(messages))[..6], ids(&sent), "a longer history begins as before");
}

#[test]
fn a_name_that_a_model_made_up_is_spelled_as_the_format_allows() {
    let call = |name: &str| Arc::new(assistant(vec![Part::ToolCall(ToolCall::new("c", name, "{}"))]));
    let mut request = full();
    Arc::make_mut(&mut Arc::make_mut(&mut request.tools)[0]).name = "a.tool".into();
    request.messages = vec![call("multi_tool_use.parallel"), call("a.tool"), call("")];
    let names = body(&request)["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].clone())
        .collect::<Vec<_>>();
    assert_eq!(names, ["multi_tool_use_parallel", "a.tool", "_"]);
}
