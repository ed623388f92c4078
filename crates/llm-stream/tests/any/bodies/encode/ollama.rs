//! Ollama's chat.

use serde_json::{Value, json};

use super::super::{
    dice::Dice,
    script::{Block, Script},
};

type Events = Vec<(Option<&'static str>, Value)>;

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let mut messages = Vec::new();
    for block in &script.blocks {
        match block {
            Block::Text { pieces, .. } => {
                messages.extend(pieces.iter().map(|piece| json!({ "content": piece })));
            }
            Block::Thought { pieces, .. } => {
                messages.extend(pieces.iter().map(|piece| json!({ "content": "", "thinking": piece })));
            }
            Block::Call { id, name, arguments, .. } => {
                let mut call = json!({ "function": { "index": 0, "name": name, "arguments": arguments } });
                if dice.maybe() {
                    call["id"] = id.as_str().into();
                }
                match messages.last_mut() {
                    // Calls side by side, or beside the last text.
                    Some(last) if dice.maybe() => match last["tool_calls"].as_array_mut() {
                        Some(calls) => calls.push(call),
                        None => last["tool_calls"] = json!([call]),
                    },
                    _ => messages.push(json!({ "content": "", "tool_calls": [call] })),
                }
            }
        }
    }
    if messages.is_empty() || dice.maybe() {
        messages.push(json!({ "content": "" }));
    }
    let line = |mut message: Value| {
        message["role"] = "assistant".into();
        json!({ "model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false })
    };
    let mut lines: Vec<Value> = messages.into_iter().map(line).collect();
    if let Some(last) = lines.last_mut() {
        last["done"] = true.into();
        last["done_reason"] = if script.cut { "length" } else { "stop" }.into();
        if let Some((input, output)) = script.usage {
            last["prompt_eval_count"] = input.into();
            last["eval_count"] = output.into();
        }
    }
    lines.into_iter().map(|line| (None, line)).collect()
}
