//! Chat completions.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, MODEL, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let delta = |mark, delta: Value| Event::json(mark, chunk(&json!([choice(&delta, None)])));
    let mut events = vec![delta(Mark::Frame, json!({ "role": "assistant", "content": "" }))];
    let mut calls = 0;
    for block in blocks(reply) {
        match block {
            Block::Text(texts) => {
                events.extend(texts.iter().map(|text| delta(Mark::Text, json!({ "content": text }))));
            }
            Block::Reasoning(texts) => {
                let thought = |text| delta(Mark::Reasoning, json!({ "reasoning_content": text }));
                events.extend(texts.iter().map(thought));
            }
            Block::Call(call) => {
                let (first, rest) = call.parts();
                let function = json!({ "name": call.name, "arguments": first });
                let head = json!({ "index": calls, "id": call.id, "type": "function", "function": function });
                events.push(delta(Mark::Call, json!({ "tool_calls": [head] })));
                events.extend(rest.map(|fragment| {
                    let piece = json!({ "index": calls, "function": { "arguments": fragment } });
                    delta(Mark::Call, json!({ "tool_calls": [piece] }))
                }));
                calls += 1;
            }
        }
    }
    let word = reason(reply).map_or_else(ToOwned::to_owned, |reason| word_for(reason).to_owned());
    events.push(Event::json(Mark::Finish, chunk(&json!([choice(&json!({}), Some(&word))]))));
    let mut last = chunk(&json!([]));
    last["usage"] = tokens(reply);
    events.push(Event::json(Mark::Usage, last));
    events.push(Event::text(Mark::End, "[DONE]"));
    events
}

fn chunk(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": MODEL, "choices": choices,
    })
}

fn choice(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": finish })
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter | FinishReason::Refusal => "content_filter",
        _ => "made_up",
    }
}

fn tokens(reply: &Reply) -> Value {
    let usage = usage(reply);
    let mut tokens = json!({ "total_tokens": usage.total_tokens() });
    set(&mut tokens, "prompt_tokens", usage.input_tokens);
    set(&mut tokens, "completion_tokens", usage.output_tokens);
    let mut details = json!({});
    set(&mut details, "cached_tokens", usage.cache_read_input_tokens);
    set(&mut details, "cache_write_tokens", usage.cache_creation_input_tokens);
    tokens["prompt_tokens_details"] = details;
    let mut details = json!({});
    set(&mut details, "reasoning_tokens", usage.reasoning_tokens);
    tokens["completion_tokens_details"] = details;
    tokens
}
