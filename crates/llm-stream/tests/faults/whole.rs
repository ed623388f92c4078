//! Answers that were not streamed.

use serde_json::json;
use turnwright_core::Part;

use crate::{
    format::{ALL, Format, Say},
    read::{assemble, items},
};

/// The same answer in one piece.
fn whole(format: Format) -> serde_json::Value {
    match format {
        Format::Chat => {
            json!({ "id": "r", "object": "chat.completion", "model": "m", "choices": [{ "index": 0, "finish_reason": "tool_calls",
            "message": { "role": "assistant", "content": "hello", "reasoning_content": "hm",
                "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }] } }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 5 } })
        }
        Format::Responses => {
            json!({ "id": "r", "object": "response", "model": "m", "status": "completed", "error": null, "output": [
            { "type": "reasoning", "id": "item_0", "summary": [{ "type": "summary_text", "text": "hm" }] },
            { "type": "message", "id": "item_1", "role": "assistant", "content": [{ "type": "output_text", "text": "hello" }] },
            { "type": "function_call", "id": "item_2", "call_id": "c", "name": "f", "arguments": "{\"a\":1}" }],
            "usage": { "input_tokens": 7, "output_tokens": 5 } })
        }
        Format::Messages => {
            json!({ "id": "r", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "text", "text": "hello" },
            { "type": "tool_use", "id": "c", "name": "f", "input": { "a": 1 } }],
            "usage": { "input_tokens": 7, "output_tokens": 5 } })
        }
        Format::Gemini => {
            json!({ "responseId": "r", "modelVersion": "m", "candidates": [{ "finishReason": "STOP", "content": { "role": "model", "parts": [
            { "text": "hm", "thought": true }, { "text": "hello" },
            { "functionCall": { "id": "c", "name": "f", "args": { "a": 1 } } }] } }],
            "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 5 } })
        }
        Format::Ollama => {
            json!({ "model": "m", "done": true, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 5,
            "message": { "role": "assistant", "thinking": "hm", "content": "hello", "tool_calls": [{ "id": "c", "function": { "name": "f", "arguments": { "a": 1 } } }] } })
        }
    }
}

#[test]
fn fault_r1_17_r1_22_a_streamed_answer_and_a_whole_one_are_equal() {
    let says = [Say::Thought("hm"), Say::Text("hel"), Say::Text("lo"), Say::Call("c", "f", "{\"a\":1}")];
    for format in ALL {
        let streamed = assemble(&items(format, &format.body(&format.answer(&says))));
        let pretty = serde_json::to_string_pretty(&whole(format)).unwrap();
        for body in [whole(format).to_string(), pretty] {
            let mut whole = assemble(&items(format, &body));
            // Arguments that are an object keep the spelling of the server.
            for part in &mut whole.parts {
                if let Part::ToolCall(call) = part {
                    call.arguments = call.arguments_value().unwrap().to_string();
                }
            }
            assert_eq!(whole.parts, streamed.parts, "{format:?}");
            whole.raw_finish_reason.clone_from(&streamed.raw_finish_reason);
            assert_eq!(whole, streamed, "{format:?}");
        }
    }
}
