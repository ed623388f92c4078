//! Messages.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, MODEL, SIGNATURE, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |mark, name: &'static str, mut data: Value| {
        data["type"] = name.into();
        events.push(Event::named(mark, name, data));
    };
    let mut first = input_tokens(reply);
    first["output_tokens"] = 1.into();
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": first,
    });
    push(Mark::Frame, "message_start", json!({ "message": message }));
    for (index, block) in blocks(reply).into_iter().enumerate() {
        let start = match &block {
            Block::Text(_) => json!({ "type": "text", "text": "" }),
            Block::Reasoning(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
            Block::Call(call) => json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} }),
        };
        push(Mark::Frame, "content_block_start", json!({ "index": index, "content_block": start }));
        if index == 0 {
            push(Mark::Frame, "ping", json!({}));
        }
        let mut delta =
            |mark, delta: Value| push(mark, "content_block_delta", json!({ "index": index, "delta": delta }));
        match block {
            Block::Text(texts) => texts.iter().for_each(|text| {
                delta(Mark::Text, json!({ "type": "text_delta", "text": text }));
            }),
            Block::Reasoning(texts) => {
                for text in texts {
                    delta(Mark::Reasoning, json!({ "type": "thinking_delta", "thinking": text }));
                }
                delta(Mark::Frame, json!({ "type": "signature_delta", "signature": SIGNATURE }));
            }
            Block::Call(call) => {
                let (whole, rest) = call.parts();
                // The first delta is empty, as the real ones are.
                delta(Mark::Call, json!({ "type": "input_json_delta", "partial_json": "" }));
                for fragment in Some(whole).filter(|whole| !whole.is_empty()).into_iter().chain(rest) {
                    delta(Mark::Call, json!({ "type": "input_json_delta", "partial_json": fragment }));
                }
            }
        }
        push(Mark::Frame, "content_block_stop", json!({ "index": index }));
    }
    let word = reason(reply).map_or_else(ToOwned::to_owned, |reason| word_for(reason).to_owned());
    let mut last = input_tokens(reply);
    let usage = usage(reply);
    set(&mut last, "output_tokens", usage.output_tokens);
    if usage.reasoning_tokens.is_some() {
        last["output_tokens_details"] = json!({ "thinking_tokens": usage.reasoning_tokens });
    }
    let delta = json!({ "stop_reason": word, "stop_sequence": null });
    push(Mark::Finish, "message_delta", json!({ "delta": delta, "usage": last }));
    push(Mark::End, "message_stop", json!({}));
    events
}

/// The format counts cached tokens beside the input.
fn input_tokens(reply: &Reply) -> Value {
    let usage = usage(reply);
    let cached = [usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
    let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
    let mut tokens = json!({});
    set(&mut tokens, "input_tokens", usage.input_tokens.map(|input| input.saturating_sub(cached)));
    set(&mut tokens, "cache_read_input_tokens", usage.cache_read_input_tokens);
    set(&mut tokens, "cache_creation_input_tokens", usage.cache_creation_input_tokens);
    tokens
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "end_turn",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Length => "max_tokens",
        FinishReason::ContentFilter | FinishReason::Refusal => "refusal",
        _ => "made_up",
    }
}
