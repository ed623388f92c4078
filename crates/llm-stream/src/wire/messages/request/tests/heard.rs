//! What decoders made of an answer, as it goes back.

use super::*;

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

fn again(message: Message) -> Value {
    sent(vec![user("a"), message])[1]["content"].take()
}

#[test]
fn fault_r1_12_what_the_decoder_heard_goes_back_unchanged() {
    let content = json!([
        { "type": "thinking", "thinking": "hm ", "signature": "A==", "of_later": 1.5 },
        { "type": "redacted_thinking", "data": "x/y" },
        { "type": "thinking", "thinking": "", "signature": "B==" },
        called("c1"),
        { "type": "thinking", "thinking": "so", "signature": "C==" },
        called("c2"),
    ]);
    let answer = json!({ "type": "message", "stop_reason": "tool_use", "content": content });
    assert_eq!(again(heard(MessagesDecoder::new("p"), &answer.to_string())), content);
}

#[test]
fn thoughts_that_a_server_would_refuse_stay_here() {
    let signed = json!({ "messages_block": { "type": "thinking", "signature": "A==" } });
    let unsigned = json!({ "messages_block": { "type": "thinking" } });
    let of_other = json!({ "responses_item": { "type": "reasoning", "id": "rs" }, "reasoning_details": [1] });
    let of_nobody = json!({});
    let odd = json!({ "messages_block": "x" });
    let kept = json!([{ "type": "thinking", "thinking": "t", "signature": "A==" }, words("x")]);
    for (opaque, expected) in [
        (signed.clone(), kept),
        (unsigned, "x".into()),
        (of_other, "x".into()),
        (of_nobody, "x".into()),
        (odd, "x".into()),
    ] {
        let parts = vec![reasoning("t", opaque), Part::text("x")];
        assert_eq!(again(assistant(parts)), expected);
    }
    let alone = assistant(vec![reasoning("t", signed.clone())]);
    assert_eq!(sent(vec![user("a"), alone]), json!([turn("user", "a".into())]), "nothing follows them");
    assert_eq!(again(assistant(vec![Part::text("x"), reasoning("t", signed)])), json!("x"));
}

#[test]
fn histories_of_other_formats_are_taken() {
    let chat = json!({ "choices": [{ "finish_reason": "tool_calls", "message": {
        "content": "look",
        "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "S" }],
        "tool_calls": [
            { "index": 0, "id": "functions.t:0", "function": { "name": "t", "arguments": "{\"a\":1}" } },
            { "index": 1, "id": "functions.t:0", "function": { "name": "t", "arguments": "" } },
        ],
    } }] });
    let heard_by_chat = heard(ChatDecoder::new("p"), &chat.to_string());
    let ids: Vec<String> = heard_by_chat.tool_calls().map(|call| call.id.to_string()).collect();
    let results = ids.iter().map(|id| answered(id, "r"));
    let messages: Vec<Message> = [user("a"), heard_by_chat.clone()].into_iter().chain(results).collect();
    let expected = json!([
        turn("user", "a".into()),
        turn(
            "assistant",
            json!([words("look"),
            { "type": "tool_use", "id": "functions_t_0", "name": "t", "input": { "a": 1 } },
            called("functions_t_0_2")])
        ),
        turn("user", json!([result("functions_t_0", "r"), result("functions_t_0_2", "r")])),
    ]);
    assert_eq!(sent(messages), expected);

    let output = json!([
        { "type": "reasoning", "id": "rs", "summary": [{ "type": "summary_text", "text": "hm" }],
            "encrypted_content": "E" },
        { "type": "message", "content": [{ "type": "output_text", "text": "x" }] },
    ]);
    let response = json!({ "object": "response", "status": "completed", "output": output });
    assert_eq!(again(heard(ResponsesDecoder::new("p"), &response.to_string())), json!("x"));
}

#[test]
fn thoughts_of_a_server_that_signs_none_go_back_to_it() {
    let said = |model: &str| {
        let message = json!({ "type": "message", "id": "r", "model": model, "stop_reason": "end_turn",
            "content": [{ "type": "thinking", "thinking": "hm", "signature": "" }, { "type": "text", "text": "x" }] });
        heard(MessagesDecoder::new("p"), &message.to_string())
    };
    let kept = json!([{ "type": "thinking", "thinking": "hm", "signature": "" }, words("x")]);
    assert_eq!(sent(vec![user("a"), said("deepseek-chat")])[1]["content"], kept);
    assert_eq!(
        sent(vec![user("a"), said("claude-opus-5")])[1]["content"],
        "x",
        "it signs, so these were cut"
    );
}
