//! Events that a format has, in any order, under labels of any kind, some of which fit.

use serde_json::{Value, json};

use super::{
    decode::{Format, check},
    dice::Dice,
    encode::{Event, frame},
};

/// Nothing of what a server may not send breaks what holds for any input, also where the body is cut.
pub(crate) fn any_order(input: &[u8]) {
    let mut dice = Dice::new(input);
    let format = dice.one_of(&Format::ALL);
    let mut events = Vec::new();
    for _ in 0..1 + dice.below(12) {
        let event = event(format, &mut dice);
        // Some come over and over.
        events.extend(std::iter::repeat_n(event, 1 + dice.below(4) / 2));
    }
    let body = frame::plainly(format, &events);
    let items = check(format, &body);
    // What is alike says the same as what is parsed.
    assert_eq!(check(format, &frame::plainly(format, &frame::unlike(&events))), items, "{format:?}");
    let cut = body.len() * dice.below(256) / 256;
    check(format, &body[..cut]);
}

/// Values that may stand anywhere.
struct Odd {
    text: &'static str,
    label: Value,
    index: Value,
    flaw: usize,
}

fn event(format: Format, dice: &mut Dice<'_>) -> Event {
    let odd = Odd {
        text: dice.one_of(&["", "a", "{\"a\":", "1}", "{}", "é\u{1F600}", "\"\\"]),
        label: dice.one_of(&[Some("i"), Some("j"), None]).map_or(Value::Null, Value::from),
        index: match dice.below(5) {
            0..2 => json!(0),
            2 => json!(1),
            3 => Value::Null,
            _ => json!("x"),
        },
        flaw: dice.below(20),
    };
    if dice.below(16) == 1 {
        return Event { name: dice.one_of(&[None, Some("error")]), json: "[DONE]".into() };
    }
    let json = match format {
        Format::Chat => chat(&odd, dice),
        Format::Responses => responses(&odd, dice),
        Format::Messages => messages(&odd, dice),
        Format::Gemini => gemini(&odd, dice),
        Format::Ollama => ollama(&odd, dice),
        Format::Converse => return converse(&odd, dice),
    };
    Event { name: None, json: json.to_string() }
}

fn chat(odd: &Odd, dice: &mut Dice<'_>) -> Value {
    let Odd { text, label, index, flaw } = odd;
    let call = json!({ "index": index, "id": label, "function": { "name": dice.one_of(&["", "f", "g"]), "arguments": text } });
    let detail = json!({ "type": dice.one_of(&["reasoning.text", "reasoning.summary", "reasoning.encrypted", "new"]),
        "index": index, "text": text, "signature": label, "data": dice.one_of(&["", "d"]) });
    let mut delta = json!({});
    for _ in 0..dice.below(3) {
        match dice.below(7) {
            0 => delta["content"] = (*text).into(),
            1 => {
                delta["content"] = json!([{ "type": "text", "text": text }, { "type": "thinking", "thinking": [{ "text": text }] }]);
            }
            2 => delta["tool_calls"] = json!([call, call]),
            3 => delta["tool_calls"] = json!([call]),
            4 => delta["reasoning_details"] = json!([detail]),
            5 => delta["reasoning"] = (*text).into(),
            _ => delta["function_call"] = call["function"].clone(),
        }
    }
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": dice.one_of(&[None, None, Some("stop"), Some("length")]) });
    let mut chunk = json!({ "id": label, "choices": [choice] });
    match flaw {
        0 => chunk["choices"] = json!([1]),
        1 => chunk["error"] = json!({ "message": text }),
        2 => chunk["choices"] = json!([{ "message": delta, "finish_reason": "stop" }]),
        3 => chunk["usage"] = json!({ "prompt_tokens": index }),
        _ => {}
    }
    chunk
}

fn responses(odd: &Odd, dice: &mut Dice<'_>) -> Value {
    let Odd { text, label, index, flaw } = odd;
    let kind = dice.one_of(&[
        "response.created",
        "response.output_text.delta",
        "response.output_text.done",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.added",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
        "response.incomplete",
        "response.unknown",
        "error",
    ]);
    let item = dice.one_of(&["message", "reasoning", "function_call", "custom_tool_call", "new"]);
    let item = json!({ "type": item, "id": label, "call_id": label, "name": "f", "arguments": text, "input": text,
        "content": [{ "text": text }], "summary": [{ "text": text }] });
    let mut event = json!({ "type": kind, "output_index": index, "content_index": index, "item_id": label,
        "delta": text, "text": text, "arguments": text, "input": text, "item": item, "response": { "output": [item] } });
    if *flaw == 0 {
        event["item"] = json!([1]);
        event["response"] = json!("odd");
    }
    event
}

fn messages(odd: &Odd, dice: &mut Dice<'_>) -> Value {
    let Odd { text, index, flaw, .. } = odd;
    let kind = dice.one_of(&[
        "message_start",
        "content_block_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "of_later",
        "error",
    ]);
    let block = dice.one_of(&["text", "thinking", "redacted_thinking", "tool_use", "new"]);
    let delta = dice.one_of(&[
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
    ]);
    let reason = dice.one_of(&[None, Some("end_turn"), Some("max_tokens")]);
    let block = json!({ "type": block, "id": text, "name": "f", "input": { "a": text }, "text": text,
        "thinking": text, "signature": text, "data": text });
    let delta = json!({ "type": delta, "text": text, "thinking": text, "signature": text,
        "partial_json": text, "stop_reason": reason });
    let message = json!({ "id": index, "content": [block], "stop_reason": reason });
    let mut event = json!({ "type": kind, "index": index, "content_block": block, "delta": delta, "message": message,
        "content": [block], "stop_reason": reason, "usage": { "output_tokens": flaw } });
    if *flaw == 0 {
        event["content_block"] = json!([1]);
        event["delta"] = json!("odd");
    }
    event
}

fn gemini(odd: &Odd, dice: &mut Dice<'_>) -> Value {
    let Odd { text, label, index, flaw } = odd;
    let path = dice.one_of(&["$.a", "$.l[0]", "$['b'].c", "$.l[1]", "a"]);
    let part = match dice.below(7) {
        0 => json!({ "text": text }),
        1 => json!({ "text": text, "thought": true }),
        2 => json!({ "functionCall": { "id": label, "name": "f", "args": { "a": text } } }),
        3 => json!({ "functionCall": { "id": label, "name": "f", "willContinue": true } }),
        4 => {
            json!({ "functionCall": { "partialArgs": [{ "jsonPath": path, "stringValue": text }], "willContinue": dice.maybe() } })
        }
        5 => json!({ "functionCall": {} }),
        _ => json!({ "executableCode": { "code": text } }),
    };
    let mut part = part;
    if dice.below(3) == 1 {
        part["thoughtSignature"] = label.clone();
    }
    let reason = dice.one_of(&[None, None, None, Some("STOP"), Some("MAX_TOKENS"), Some("SAFETY")]);
    let mut chunk = json!({ "candidates": [{ "content": { "parts": [part, part] }, "finishReason": reason }],
        "responseId": label, "usageMetadata": { "promptTokenCount": index } });
    match flaw {
        0 => chunk["candidates"] = json!([null, { "content": 1 }]),
        1 => chunk["error"] = json!({ "message": text }),
        2 => chunk["promptFeedback"] = json!({ "blockReason": text }),
        _ => {}
    }
    chunk
}

fn ollama(odd: &Odd, dice: &mut Dice<'_>) -> Value {
    let Odd { text, label, index, flaw } = odd;
    let call = json!({ "id": label, "function": { "name": dice.one_of(&["f", "g", ""]), "arguments": { "a": text } } });
    let mut line = json!({ "message": { "content": text }, "done": dice.below(6) == 1, "eval_count": index });
    match dice.below(5) {
        0 => line["message"]["thinking"] = (*text).into(),
        1 => line["message"]["tool_calls"] = json!([call, null]),
        2 => line["response"] = (*text).into(),
        3 => line["done_reason"] = dice.one_of(&["stop", "length", "load"]).into(),
        _ => {}
    }
    match flaw {
        0 => line["message"] = json!([1]),
        1 => line["error"] = (*text).into(),
        _ => {}
    }
    line
}

fn converse(odd: &Odd, dice: &mut Dice<'_>) -> Event {
    let Odd { text, label, index, flaw } = odd;
    let name = dice.one_of(&[
        "messageStart",
        "contentBlockStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
        "ofLater",
    ]);
    let delta = match dice.below(5) {
        0 => json!({ "text": text }),
        1 => json!({ "toolUse": { "input": text } }),
        2 => json!({ "reasoningContent": { "text": text } }),
        3 => json!({ "reasoningContent": { "signature": text } }),
        _ => json!({ "reasoningContent": { "redactedContent": text } }),
    };
    let mut json = json!({ "contentBlockIndex": index, "delta": delta, "start": { "toolUse": { "toolUseId": label, "name": "f" } },
        "stopReason": dice.one_of(&["end_turn", "tool_use", "max_tokens"]), "usage": { "inputTokens": flaw } });
    if *flaw == 0 {
        json["delta"] = json!([1]);
        json["start"] = json!("odd");
    }
    Event { name: Some(name), json: json.to_string() }
}
