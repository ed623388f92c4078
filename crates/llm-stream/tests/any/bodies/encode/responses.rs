//! OpenAI's Responses.

use serde_json::{Map, Value, json};

use super::super::{
    dice::Dice,
    script::{Block, Script},
};

type Events = Vec<(Option<&'static str>, Value)>;

/// What a server leaves out.
#[derive(Clone, Copy)]
struct Habits {
    names: bool,
    indexes: bool,
    /// Events that say again what came in pieces.
    done: bool,
    /// The items in the last event.
    output: bool,
}

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let habits =
        Habits { names: dice.maybe(), indexes: dice.maybe(), done: dice.maybe(), output: dice.maybe() };
    let mut out = Vec::new();
    say(&mut out, "response.created", json!({ "response": { "id": "r", "model": "m" } }));
    if dice.maybe() {
        say(&mut out, "response.in_progress", json!({ "response": { "id": "r" } }));
    }
    let mut items = Vec::new();
    for (at, block) in script.blocks.iter().enumerate() {
        let (kind, pieces) = spoken(block);
        let item = whole(at, block);
        let labels = |mut fields: Value| {
            fields["item_id"] = item["id"].clone();
            if habits.indexes {
                fields["output_index"] = at.into();
            }
            fields
        };
        let added = labels(json!({ "item": begun(&item) }));
        say(&mut out, "response.output_item.added", added);
        for piece in pieces {
            say(&mut out, kind, labels(json!({ "delta": piece, "content_index": 0 })));
            if dice.below(16) == 1 {
                say(&mut out, "response.of_a_later_version", labels(json!({ "delta": "x" })));
            }
        }
        if habits.done {
            let done = kind.replace(".delta", ".done");
            let all = pieces.concat();
            match done.as_str() {
                "response.output_text.done" => {
                    say(
                        &mut out,
                        "response.output_text.done",
                        labels(json!({ "text": all, "content_index": 0 })),
                    );
                }
                "response.function_call_arguments.done" => {
                    say(
                        &mut out,
                        "response.function_call_arguments.done",
                        labels(json!({ "arguments": all })),
                    );
                }
                "response.custom_tool_call_input.done" => {
                    say(&mut out, "response.custom_tool_call_input.done", labels(json!({ "input": all })));
                }
                _ => {}
            }
        }
        say(&mut out, "response.output_item.done", labels(json!({ "item": item })));
        items.push(item);
    }
    let mut response = json!({ "id": "r", "model": "m", "status": "completed", "output": [] });
    if habits.output {
        response["output"] = items.into();
    }
    if let Some((input, output)) = script.usage {
        response["usage"] = json!({ "input_tokens": input, "output_tokens": output });
    }
    let end = match script.cut {
        true => {
            response["status"] = "incomplete".into();
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
            "response.incomplete"
        }
        false => "response.completed",
    };
    say(&mut out, end, json!({ "response": response }));
    out.into_iter().map(|(name, value)| (habits.names.then_some(name), value)).collect()
}

fn say(out: &mut Vec<(&'static str, Value)>, kind: &'static str, mut fields: Value) {
    fields["type"] = kind.into();
    fields["sequence_number"] = out.len().into();
    out.push((kind, fields));
}

/// In which events the block comes, and its pieces.
fn spoken(block: &Block) -> (&'static str, &[String]) {
    match block {
        Block::Text { pieces, .. } => ("response.output_text.delta", pieces),
        Block::Thought { pieces, .. } => ("response.reasoning_summary_text.delta", pieces),
        Block::Call { arguments, pieces, .. } => match free_text(arguments) {
            Some(text) => ("response.custom_tool_call_input.delta", std::slice::from_ref(text)),
            None => ("response.function_call_arguments.delta", pieces),
        },
    }
}

fn whole(at: usize, block: &Block) -> Value {
    let id = format!("item-{at}");
    match block {
        Block::Text { pieces, .. } => {
            json!({ "type": "message", "id": id, "content": [{ "type": "output_text", "text": pieces.concat() }] })
        }
        Block::Thought { pieces, signature } => {
            let summary = if pieces.is_empty() { json!([]) } else { json!([{ "text": pieces.concat() }]) };
            let mut item = json!({ "type": "reasoning", "id": id, "summary": summary });
            if let Some(signature) = signature {
                item["encrypted_content"] = signature.as_str().into();
            }
            item
        }
        Block::Call { id: call_id, name, arguments, pieces, .. } => {
            if let Some(text) = free_text(arguments) {
                return json!({ "type": "custom_tool_call", "id": id, "call_id": call_id, "name": name, "input": text });
            }
            json!({ "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": pieces.concat() })
        }
    }
}

/// The text of a call that has no other argument: one of a custom tool.
fn free_text(arguments: &Map<String, Value>) -> Option<&String> {
    match arguments.get("input") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// An item as it begins.
fn begun(item: &Value) -> Value {
    let mut begun = item.clone();
    for (field, nothing) in
        [("content", json!([])), ("summary", json!([])), ("arguments", json!("")), ("input", json!(""))]
    {
        if begun.get(field).is_some() {
            begun[field] = nothing;
        }
    }
    begun
}
