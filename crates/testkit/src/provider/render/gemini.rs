//! Gemini.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, MODEL, SIGNATURE, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let tokens = tokens(reply);
    let chunk = |mark, part: Value, finish: Option<&str>| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        let data = json!({
            "candidates": [candidate], "usageMetadata": tokens, "modelVersion": MODEL, "responseId": "response-1",
        });
        Event::json(mark, data)
    };
    let mut events = Vec::new();
    let mut unsigned = false;
    for block in blocks(reply) {
        match block {
            Block::Text(texts) => {
                events.extend(texts.iter().map(|text| chunk(Mark::Text, json!({ "text": text }), None)));
            }
            Block::Reasoning(texts) => {
                unsigned = true;
                let thought = |text| chunk(Mark::Reasoning, json!({ "text": text, "thought": true }), None);
                events.extend(texts.iter().map(thought));
            }
            Block::Call(call) => {
                let mut part = json!({ "functionCall": { "name": call.name, "args": call.value() } });
                if !call.id.is_empty() {
                    part["functionCall"]["id"] = call.id.into();
                }
                if std::mem::take(&mut unsigned) {
                    part["thoughtSignature"] = SIGNATURE.into();
                }
                events.push(chunk(Mark::Call, part, None));
            }
        }
    }
    let word = reason(reply).map_or_else(ToOwned::to_owned, |reason| word_for(reason).to_owned());
    let mut last = json!({ "text": "" });
    if unsigned {
        last["thoughtSignature"] = SIGNATURE.into();
    }
    events.push(chunk(Mark::Finish, last, Some(&word)));
    events
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => "STOP",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::ContentFilter | FinishReason::Refusal => "SAFETY",
        _ => "MADE_UP",
    }
}

/// The format counts thoughts beside the output.
fn tokens(reply: &Reply) -> Value {
    let usage = usage(reply);
    let mut tokens = json!({ "totalTokenCount": usage.total_tokens() });
    set(&mut tokens, "promptTokenCount", usage.input_tokens);
    let thoughts = usage.reasoning_tokens.unwrap_or_default();
    set(
        &mut tokens,
        "candidatesTokenCount",
        usage.output_tokens.map(|output| output.saturating_sub(thoughts)),
    );
    set(&mut tokens, "thoughtsTokenCount", usage.reasoning_tokens);
    set(&mut tokens, "cachedContentTokenCount", usage.cache_read_input_tokens);
    tokens
}
