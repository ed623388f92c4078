//! Ollama.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, MODEL, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut calls = 0;
    for block in blocks(reply) {
        match block {
            Block::Text(texts) => {
                let said = |text| Event::json(Mark::Text, line(json!({ "content": text })));
                events.extend(texts.iter().map(said));
            }
            Block::Reasoning(texts) => {
                let thought = |text| line(json!({ "content": "", "thinking": text }));
                events.extend(texts.iter().map(|text| Event::json(Mark::Reasoning, thought(text))));
            }
            Block::Call(call) => {
                let function = json!({ "index": calls, "name": call.name, "arguments": call.value() });
                let mut value = json!({ "function": function });
                if !call.id.is_empty() {
                    value["id"] = call.id.into();
                }
                calls += 1;
                let message = json!({ "content": "", "tool_calls": [value] });
                events.push(Event::json(Mark::Call, line(message)));
            }
        }
    }
    let word = reason(reply).map_or_else(ToOwned::to_owned, |reason| word_for(reason).to_owned());
    let mut last = line(json!({ "content": "" }));
    last["done"] = true.into();
    last["done_reason"] = word.into();
    let usage = usage(reply);
    set(&mut last, "prompt_eval_count", usage.input_tokens);
    set(&mut last, "eval_count", usage.output_tokens);
    events.push(Event::json(Mark::Finish, last));
    events
}

fn line(mut message: Value) -> Value {
    message["role"] = "assistant".into();
    json!({ "model": MODEL, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false })
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        // There is no word for calls, and none for filters.
        FinishReason::Stop | FinishReason::ToolCalls => "stop",
        FinishReason::Length => "length",
        _ => "made_up",
    }
}
