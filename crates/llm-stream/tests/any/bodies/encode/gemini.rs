//! Gemini's `streamGenerateContent`.

use serde_json::{Map, Value, json};

use super::super::{
    dice::Dice,
    script::{Block, Script},
};

type Events = Vec<(Option<&'static str>, Value)>;

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let (mut parts, joins) = (Vec::new(), dice.maybe());
    for block in &script.blocks {
        match block {
            Block::Text { pieces, mark } => {
                parts.extend(pieces.iter().map(|piece| json!({ "text": piece })));
                sign(mark.as_deref(), &mut parts);
            }
            Block::Thought { pieces, signature } => {
                let hidden = pieces.is_empty().then_some("");
                let texts = pieces.iter().map(String::as_str).chain(hidden);
                parts.extend(texts.map(|text| json!({ "text": text, "thought": true })));
                sign(signature.as_deref(), &mut parts);
            }
            Block::Call { id, name, mark, arguments, .. } => {
                let first = parts.len();
                call(id, name, arguments, &mut parts, dice);
                // Where its arguments come in pieces, on the first of them.
                sign(mark.as_deref(), &mut parts[..=first]);
            }
        }
    }
    let chunk = |parts: &[Value]| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts } }], "modelVersion": "m", "responseId": "r" });
    let size = if joins { 3 } else { 1 };
    let mut chunks: Vec<Value> = parts.chunks(size).map(chunk).collect();
    if chunks.is_empty() || dice.maybe() {
        chunks.push(chunk(&[]));
    }
    if let Some(last) = chunks.last_mut() {
        last["candidates"][0]["finishReason"] = if script.cut { "MAX_TOKENS" } else { "STOP" }.into();
    }
    if let Some((input, output)) = script.usage {
        let usage = json!({ "promptTokenCount": input, "candidatesTokenCount": output });
        match chunks.last_mut() {
            Some(last) if dice.maybe() => last["usageMetadata"] = usage,
            _ => chunks.push(json!({ "responseId": "r", "usageMetadata": usage })),
        }
    }
    chunks.into_iter().map(|chunk| (None, chunk)).collect()
}

/// Puts a signature on the last of these parts.
fn sign(signature: Option<&str>, parts: &mut [Value]) {
    if let (Some(signature), Some(last)) = (signature, parts.last_mut()) {
        last["thoughtSignature"] = signature.into();
    }
}

/// A call, whole or with its arguments in pieces.
fn call(id: &str, name: &str, arguments: &Map<String, Value>, parts: &mut Vec<Value>, dice: &mut Dice<'_>) {
    let mut function = json!({ "name": name });
    if dice.maybe() {
        function["id"] = id.into();
    }
    if dice.maybe() {
        function["args"] = arguments.clone().into();
        return parts.push(json!({ "functionCall": function }));
    }
    if arguments.is_empty() {
        // The format leaves them out.
        return parts.push(json!({ "functionCall": function }));
    }
    function["willContinue"] = true.into();
    parts.push(json!({ "functionCall": function }));
    let mut more = Vec::new();
    for (key, value) in arguments {
        match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    value_at(&format!("$.{key}[{at}]"), item, &mut more, dice);
                }
            }
            value => value_at(&format!("$['{key}']"), value, &mut more, dice),
        }
    }
    let last = more.len().saturating_sub(1);
    let ends_apart = dice.maybe();
    for (at, piece) in more.into_iter().enumerate() {
        let goes_on = at < last || ends_apart;
        parts.push(json!({ "functionCall": { "partialArgs": [piece], "willContinue": goes_on } }));
    }
    if ends_apart {
        parts.push(json!({ "functionCall": {} }));
    }
}

/// A value at its place; a text in two pieces.
fn value_at(path: &str, value: &Value, pieces: &mut Vec<Value>, dice: &mut Dice<'_>) {
    match value {
        Value::String(text) => {
            let at = text.char_indices().nth(dice.below(3)).map_or(0, |(at, _)| at);
            let (a, b) = text.split_at(at);
            pieces.push(json!({ "jsonPath": path, "stringValue": a, "willContinue": true }));
            pieces.push(json!({ "jsonPath": path, "stringValue": b }));
        }
        Value::Number(_) => pieces.push(json!({ "jsonPath": path, "numberValue": value })),
        Value::Bool(_) => pieces.push(json!({ "jsonPath": path, "boolValue": value })),
        _ => pieces.push(json!({ "jsonPath": path, "nullValue": "NULL_VALUE" })),
    }
}
