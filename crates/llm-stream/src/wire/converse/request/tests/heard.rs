//! What decoders made of an answer, as it goes back.

use super::*;
use crate::wire::eventstream::{HeaderValue, encode};

/// What a decoder made of a body, as the message that history will have.
fn heard(mut decoder: impl WireDecoder, body: &[u8]) -> Message {
    let mut out = Vec::new();
    decoder.feed(body, &mut out);
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

fn again(message: Message) -> Value {
    sent(vec![user("a"), message])[1]["content"].take()
}

fn event(kind: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", HeaderValue::Text(kind)), (":message-type", HeaderValue::Text("event"))];
    encode::message(&headers, payload.to_string().as_bytes())
}

#[test]
fn fault_r1_12_what_the_decoder_heard_goes_back_unchanged() {
    let delta = |index: u64, delta: Value| {
        event("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta }))
    };
    let thought = |index: u64, fields: Value| delta(index, json!({ "reasoningContent": fields }));
    let stop = |index: u64| event("contentBlockStop", &json!({ "contentBlockIndex": index }));
    let start = json!({ "contentBlockIndex": 2, "start": { "toolUse": { "toolUseId": "c1", "name": "t" } } });
    let body = [
        thought(0, json!({ "text": "hm " })),
        thought(0, json!({ "text": "so" })),
        thought(0, json!({ "signature": "A==" })),
        stop(0),
        thought(1, json!({ "redactedContent": "QUJD" })),
        stop(1),
        event("contentBlockStart", &start),
        delta(2, json!({ "toolUse": { "input": "{\"a\": 1}" } })),
        stop(2),
        event("messageStop", &json!({ "stopReason": "tool_use" })),
        event("metadata", &json!({})),
    ];
    let expected = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm so", "signature": "A==" } } },
        { "reasoningContent": { "redactedContent": "QUJD" } },
        { "toolUse": { "toolUseId": "c1", "name": "t", "input": { "a": 1 } } },
    ]);
    assert_eq!(again(heard(ConverseDecoder::new("p"), &body.concat())), expected);
}

#[test]
fn thoughts_that_a_server_would_refuse_stay_here() {
    let signed = json!({ "reasoningContent": { "signature": "A==" } });
    let kept = json!({ "reasoningContent": { "reasoningText": { "text": "t", "signature": "A==" } } });
    for (opaque, expected) in [
        (signed.clone(), json!([kept, words("x")])),
        (json!({ "reasoningContent": {} }), json!([words("x")])),
        (json!({ "reasoningContent": 7 }), json!([words("x")])),
        (json!({ "messages_block": { "type": "thinking", "signature": "A==" } }), json!([words("x")])),
        (json!({}), json!([words("x")])),
    ] {
        assert_eq!(again(assistant(vec![reasoning("t", opaque), Part::text("x")])), expected);
    }
    let alone = assistant(vec![reasoning("t", signed)]);
    assert_eq!(sent(vec![user("a"), alone]), json!([turn("user", [words("a")])]), "nothing follows them");
}

#[test]
fn histories_of_other_formats_are_taken() {
    let chat = json!({ "choices": [{ "finish_reason": "tool_calls", "message": {
        "content": "look",
        "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "S" }],
        "tool_calls": [
            { "index": 0, "id": "functions.t:0", "function": { "name": "t", "arguments": "{}" } },
            { "index": 1, "id": "functions.t:0", "function": { "name": "t", "arguments": "" } },
        ],
    } }] });
    let heard_by_chat = heard(ChatDecoder::new("p"), chat.to_string().as_bytes());
    let ids: Vec<String> = heard_by_chat.tool_calls().map(|call| call.id.to_string()).collect();
    let results = ids.iter().map(|id| answered(id, "r"));
    let messages: Vec<Message> = [user("a"), heard_by_chat.clone()].into_iter().chain(results).collect();
    let expected = json!([
        turn("user", [words("a")]),
        turn("assistant", [words("look"), called("functions_t_0"), called("functions_t_0_2")]),
        turn("user", [result("functions_t_0", "r"), result("functions_t_0_2", "r")]),
    ]);
    assert_eq!(sent(messages), expected);

    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "A==" },
        { "type": "text", "text": "x" },
    ]);
    let answer = json!({ "type": "message", "stop_reason": "end_turn", "content": content }).to_string();
    assert_eq!(again(heard(MessagesDecoder::new("p"), answer.as_bytes())), json!([words("x")]));
}
