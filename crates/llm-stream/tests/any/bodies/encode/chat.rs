//! Chat completions.

use serde_json::{Value, json};

use super::super::{
    dice::Dice,
    script::{Block, Script},
};

type Events = Vec<(Option<&'static str>, Value)>;

/// How a server says of which call a piece is.
#[derive(Clone, Copy)]
struct Labels {
    /// The distance from one index to the next; none where there is no index.
    step: Option<usize>,
    /// The id stands on each piece.
    repeats_id: bool,
}

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let labels = dice.one_of(&[
        Labels { step: Some(1), repeats_id: false },
        Labels { step: Some(1), repeats_id: true },
        Labels { step: Some(3), repeats_id: false },
        Labels { step: None, repeats_id: true },
        Labels { step: None, repeats_id: false },
    ]);
    let mut deltas = Vec::new();
    if dice.maybe() {
        deltas.push(json!({ "role": "assistant", "content": "" }));
    }
    let mut calls: Vec<Vec<Value>> = Vec::new();
    let side_by_side = labels.step.is_some() && dice.maybe();
    for (at, block) in script.blocks.iter().enumerate() {
        match block {
            Block::Text { pieces, .. } => {
                deltas.extend(pieces.iter().map(|piece| json!({ "content": piece })));
            }
            Block::Thought { pieces, signature } => {
                thought(at, pieces, signature.as_deref(), &mut deltas, dice);
            }
            Block::Call { id, name, pieces, .. } => {
                calls.push(call(calls.len(), labels, (id, name, pieces), dice));
                if !side_by_side {
                    let pieces = calls.last().into_iter().flatten();
                    deltas.extend(pieces.map(|piece| json!({ "tool_calls": [piece] })));
                }
            }
        }
    }
    let has_calls = !calls.is_empty();
    if side_by_side {
        mix(calls, &mut deltas, dice);
    }
    finish(script, has_calls, deltas, dice)
}

fn thought(
    at: usize,
    pieces: &[String],
    signature: Option<&str>,
    deltas: &mut Vec<Value>,
    dice: &mut Dice<'_>,
) {
    let Some(signature) = signature else {
        // Under two names at once, some say.
        let style = dice.below(3);
        deltas.extend(pieces.iter().map(|piece| match style {
            0 => json!({ "reasoning_content": piece }),
            1 => json!({ "reasoning": piece, "content": null }),
            _ => json!({ "reasoning": piece, "reasoning_content": piece, "content": "" }),
        }));
        return;
    };
    if pieces.is_empty() {
        let detail = json!({ "type": "reasoning.encrypted", "index": at, "data": signature });
        return deltas.push(json!({ "reasoning_details": [detail] }));
    }
    let detail = |text: Option<&str>, signature: Option<&str>| {
        let mut detail = json!({ "type": "reasoning.text", "index": at, "format": "x" });
        if let Some(text) = text {
            detail["text"] = text.into();
        }
        if let Some(signature) = signature {
            detail["signature"] = signature.into();
        }
        json!({ "reasoning_details": [detail] })
    };
    let is_apart = dice.maybe();
    for (nth, piece) in pieces.iter().enumerate() {
        let is_last = nth + 1 == pieces.len();
        deltas.push(detail(Some(piece), (is_last && !is_apart).then_some(signature)));
    }
    if is_apart {
        deltas.push(detail(None, Some(signature)));
    }
}

/// The pieces of a call.
fn call(
    number: usize,
    labels: Labels,
    (id, name, pieces): (&str, &str, &[String]),
    dice: &mut Dice<'_>,
) -> Vec<Value> {
    let begin = dice.maybe().then_some("");
    let pieces = begin.into_iter().chain(pieces.iter().map(String::as_str)).enumerate();
    let piece = |(nth, arguments): (usize, &str)| {
        let mut call = json!({ "type": "function", "function": { "arguments": arguments } });
        if let Some(step) = labels.step {
            call["index"] = (number * step).into();
        }
        if nth == 0 {
            call["function"]["name"] = name.into();
        }
        if nth == 0 || labels.repeats_id {
            call["id"] = id.into();
        }
        call
    };
    pieces.map(piece).collect()
}

/// Pieces of calls that arrive side by side, some of them in one delta. The calls begin in their order.
fn mix(calls: Vec<Vec<Value>>, deltas: &mut Vec<Value>, dice: &mut Dice<'_>) {
    let mut calls: Vec<_> = calls.into_iter().map(Vec::into_iter).collect();
    let begins: Vec<Value> = calls.iter_mut().filter_map(Iterator::next).collect();
    deltas.push(json!({ "tool_calls": begins }));
    while !calls.is_empty() {
        let at = dice.below(calls.len());
        match calls[at].next() {
            Some(piece) => deltas.push(json!({ "tool_calls": [piece] })),
            None => drop(calls.remove(at)),
        }
    }
}

/// The chunks of these deltas, with the finish reason and the usage where some server has them.
fn finish(script: &Script, has_calls: bool, mut deltas: Vec<Value>, dice: &mut Dice<'_>) -> Events {
    if deltas.is_empty() || dice.maybe() {
        deltas.push(json!({}));
    }
    let reason = match (script.cut, has_calls) {
        (true, _) => "length",
        (false, true) => dice.one_of(&["tool_calls", "stop"]),
        (false, false) => "stop",
    };
    let mut chunks: Vec<Value> = deltas
        .into_iter()
        .map(|delta| json!({ "id": "r", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }))
        .collect();
    if let Some(last) = chunks.last_mut() {
        last["choices"][0]["finish_reason"] = reason.into();
    }
    if let Some((input, output)) = script.usage {
        let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
        match chunks.last_mut() {
            Some(last) if dice.maybe() => last["usage"] = usage,
            _ => chunks.push(json!({ "id": "r", "choices": [], "usage": usage })),
        }
    }
    if dice.maybe() {
        for chunk in &mut chunks {
            chunk["obfuscation"] = dice.one_of(&["", "aZ9", "x"]).into();
        }
    }
    chunks.into_iter().map(|chunk| (None, chunk)).collect()
}
