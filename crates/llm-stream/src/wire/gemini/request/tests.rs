//! Request bodies, and the histories they mend.

use std::sync::Arc;

use turnwright_core::{
    CallId, Concurrency, ImageRef, Interrupted, Message, Part, Reasoning, Role, ToolCall, ToolResult,
};

use super::*;
use crate::wire::testing::{assistant, id, user};
use crate::{
    Assembler, StreamItem,
    wire::{WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder},
};
use serde_json::Map;

mod kept;

fn body(request: &LlmRequest) -> Value {
    serde_json::from_slice(&gemini_body(request).unwrap()).unwrap()
}

fn contents_for(model: &str, messages: Vec<Message>) -> Value {
    let messages = messages.into_iter().map(Arc::new).collect();
    body(&LlmRequest { model: model.into(), messages, ..LlmRequest::default() })["contents"].take()
}

fn contents(messages: Vec<Message>) -> Value {
    contents_for("gemini-2.5-flash", messages)
}

fn image(uri: &str, media_type: Option<&str>) -> ImageRef {
    ImageRef { uri: uri.into(), media_type: media_type.map(Into::into) }
}

/// The parts of an answer that was decoded.
fn decoded(mut decoder: impl WireDecoder, body: &str) -> Vec<Part> {
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
    response.parts
}

fn full() -> LlmRequest {
    let tool = |name: &str| {
        Arc::new(ToolDefinition {
            name: name.into(),
            description: "does it".into(),
            parameters: json!({ "type": "object" }),
            source: "local".into(),
            concurrency: Concurrency::Exclusive,
            idempotent: false,
            timeout: None,
            idle_timeout: None,
            recovery: None,
        })
    };
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(user("hi"))],
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
    let bytes = gemini_body(&full()).unwrap();
    assert_eq!(bytes, gemini_body(&full().clone()).unwrap());
    let expected = concat!(
        r#"{"systemInstruction":{"parts":[{"text":"be brief"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"#,
        r#""tools":[{"functionDeclarations":[{"name":"t","description":"does it","parametersJsonSchema":{"type":"object"}},"#,
        r#"{"name":"u","description":"does it","parametersJsonSchema":{"type":"object"}}]}],"#,
        r#""toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["t"],"mode":"ANY"}},"#,
        r#""generationConfig":{"maxOutputTokens":9,"stopSequences":["END"],"temperature":0.5}}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn extra_fields_win_and_those_of_the_generation_config_one_by_one() {
    let extra = json!({
        "generationConfig": { "maxOutputTokens": 5, "thinkingConfig": { "includeThoughts": true } },
        "tools": [{ "googleSearch": {} }],
        "safetySettings": [],
    });
    let Value::Object(extra) = extra else { unreachable!() };
    let request = LlmRequest { extra, ..full() };
    let bytes = String::from_utf8(gemini_body(&request).unwrap()).unwrap();
    assert_eq!(bytes.matches("generationConfig").count(), 1);
    let sent = body(&request);
    let config = json!({
        "maxOutputTokens": 5, "temperature": 0.5, "stopSequences": ["END"],
        "thinkingConfig": { "includeThoughts": true },
    });
    assert_eq!(sent["generationConfig"], config);
    assert_eq!((&sent["tools"], &sent["safetySettings"]), (&json!([{ "googleSearch": {} }]), &json!([])));
    let Value::Object(extra) = json!({ "generationConfig": null }) else { unreachable!() };
    assert_eq!(body(&LlmRequest { extra, ..full() })["generationConfig"], Value::Null);
}

#[test]
fn without_tools_there_is_no_choice_and_auto_says_nothing() {
    assert_eq!(body(&LlmRequest { tools: [].into(), ..full() }).get("toolConfig"), None);
    for (tool_choice, mode) in
        [(ToolChoice::Auto, None), (ToolChoice::None, Some("NONE")), (ToolChoice::Required, Some("ANY"))]
    {
        let sent = body(&LlmRequest { tool_choice, ..full() });
        assert_eq!(sent["toolConfig"]["functionCallingConfig"]["mode"].as_str(), mode);
    }
}

#[test]
fn fault_b16_roles_alternate_results_come_first_and_images_after_them() {
    let calls = [ToolCall::new("c1", "t", "{}"), ToolCall::new("c2", "u", r#"{"b":1,"a":2}"#)];
    let mut first = ToolResult::ok(&calls[0], "one");
    first.images = vec![image("https://x/i.png", Some("image/png")), image("blob/7", None)];
    let error = ErrorInfo::new(ErrorKind::ToolFailed, "no luck");
    let sent = contents(vec![
        Message::system(id(), "at the start"),
        user("a"),
        user("b"),
        assistant(calls.iter().cloned().map(Part::ToolCall).collect()),
        Message::tool(id(), first),
        Message::tool(id(), ToolResult::error(&calls[1], error)),
        Message::system(id(), "steer"),
        user("go on"),
        assistant(vec![]),
        assistant(vec![Part::text("x"), Part::text("")]),
        assistant(vec![Part::text("y")]),
    ]);
    let expected = json!([
        { "role": "user", "parts": [{ "text": "a" }, { "text": "b" }] },
        { "role": "model", "parts": [
            { "functionCall": { "name": "t", "args": {} } },
            { "functionCall": { "name": "u", "args": { "b": 1, "a": 2 } } },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "name": "t", "response": { "output": "one" } } },
            { "functionResponse": { "name": "u", "response": { "error": "no luck" } } },
            { "text": "Images in the result of t (c1):" },
            { "fileData": { "mimeType": "image/png", "fileUri": "https://x/i.png" } },
            { "text": "[image blob/7]" },
            { "text": "steer" },
            { "text": "go on" },
        ] },
        { "role": "model", "parts": [{ "text": "x" }, { "text": "y" }] },
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn system_messages_at_the_start_join_the_instruction() {
    let messages = vec![Arc::new(Message::system(id(), "s")), Arc::new(user("a"))];
    let sent = body(&LlmRequest { messages, ..full() });
    assert_eq!(sent["systemInstruction"], json!({ "parts": [{ "text": "be brief" }, { "text": "s" }] }));
}

#[test]
fn images_go_as_data_or_links_or_words() {
    let images = [
        (
            image("data:image/jpeg;base64,AA==", None),
            json!({ "inlineData": { "mimeType": "image/jpeg", "data": "AA==" } }),
        ),
        (
            image("data:;base64,AA==", Some("image/gif")),
            json!({ "inlineData": { "mimeType": "image/gif", "data": "AA==" } }),
        ),
        (
            image("data:image/png;name=a;base64,AA==", None),
            json!({ "inlineData": { "mimeType": "image/png", "data": "AA==" } }),
        ),
        (image("gs://b/i", None), json!({ "fileData": { "fileUri": "gs://b/i" } })),
        (
            image("https://x/i.JPG?size=9", None),
            json!({ "fileData": { "mimeType": "image/jpeg", "fileUri": "https://x/i.JPG?size=9" } }),
        ),
        (image("data:image/svg+xml,<svg/>", None), json!({ "text": "[an image that cannot be sent]" })),
    ];
    for (image, expected) in images {
        let sent = contents(vec![Message::new(id(), Role::User, vec![Part::Image(image)])]);
        assert_eq!(sent, json!([{ "role": "user", "parts": [expected] }]));
    }
}

#[test]
fn fault_b12_e17_arguments_always_go_out_as_an_object_as_they_were() {
    for (arguments, expected) in [
        ("", r#""args":{}"#),
        (r#"{"b": 1, "a":2 }"#, r#""args":{"b": 1, "a":2 }"#),
        (r#"{"a":"#, r#""args":{"invalid_arguments":"{\"a\":"}"#),
        ("[1]", r#""args":{"invalid_arguments":"[1]"}"#),
    ] {
        let call = Part::ToolCall(ToolCall::new("c", "t", arguments));
        let messages = vec![Arc::new(user("a")), Arc::new(assistant(vec![call]))];
        let bytes = gemini_body(&LlmRequest { messages, ..LlmRequest::default() }).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn calls_at_the_start_of_a_history_follow_something() {
    let sent = contents(vec![assistant(vec![Part::ToolCall(ToolCall::new("c", "t", "{}"))])]);
    assert_eq!((&sent[0]["role"], &sent[1]["role"]), (&json!("user"), &json!("model")));
    let sent = contents(vec![assistant(vec![Part::text("a")])]);
    assert_eq!(sent[0]["role"], "model");
}

#[test]
fn an_interrupted_answer_says_so_and_keeps_what_belongs_to_its_calls() {
    let keep = |fields: Value| {
        let opaque = Map::from_iter([("gemini_part".to_owned(), fields)]);
        Part::Reasoning(Reasoning { text: String::new(), opaque })
    };
    let mut message = assistant(vec![
        Part::text("a < b"),
        keep(json!({ "of": "text", "bytes": 1, "thoughtSignature": "s" })),
        Part::text(" c"),
        keep(json!({ "of": "functionCall", "thoughtSignature": "s2", "id": "w" })),
        Part::ToolCall(ToolCall::new("c", "t", "{}")),
    ]);
    message.interrupted = Some(Interrupted { reason: "user_stop".into(), pending_tools: vec![] });
    let text =
        r#"<interrupted_response reason="user_stop"><content>a &lt; b c</content></interrupted_response>"#;
    let call = json!({ "functionCall": { "id": "w", "name": "t", "args": {} }, "thoughtSignature": "s2" });
    let sent = contents(vec![user("q"), message]);
    assert_eq!(sent[1]["parts"], json!([{ "text": text }, call]));
    let mut empty = assistant(vec![]);
    empty.interrupted = Some(Interrupted { reason: "error".into(), pending_tools: vec!["t".into()] });
    let text = r#"<interrupted_response reason="error"><pending_tools><tool name="t"/></pending_tools></interrupted_response>"#;
    assert_eq!(contents(vec![user("q"), empty])[1]["parts"], json!([{ "text": text }]));
}
