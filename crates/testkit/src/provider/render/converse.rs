//! Bedrock's ConverseStream: the payloads; [`super::super::framing`] makes frames of them.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, SIGNATURE, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |mark, name: &'static str, mut data: Value| {
        // Padding of varying length, as every real frame has it.
        data["p"] = "abcdefghijkl".get(..data.to_string().len() % 12).into();
        events.push(Event::named(mark, name, data));
    };
    push(Mark::Frame, "messageStart", json!({ "role": "assistant" }));
    for (index, block) in blocks(reply).into_iter().enumerate() {
        // Only calls are said to begin.
        if let Block::Call(call) = &block {
            let start = json!({ "toolUse": { "toolUseId": call.id, "name": call.name } });
            push(Mark::Frame, "contentBlockStart", json!({ "contentBlockIndex": index, "start": start }));
        }
        let mut delta = |mark, delta: Value| {
            push(mark, "contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta }));
        };
        match block {
            Block::Text(texts) => texts.iter().for_each(|text| delta(Mark::Text, json!({ "text": text }))),
            Block::Reasoning(texts) => {
                for text in texts {
                    delta(Mark::Reasoning, json!({ "reasoningContent": { "text": text } }));
                }
                delta(Mark::Frame, json!({ "reasoningContent": { "signature": SIGNATURE } }));
            }
            Block::Call(call) => {
                let (first, rest) = call.parts();
                for fragment in Some(first).filter(|first| !first.is_empty()).into_iter().chain(rest) {
                    delta(Mark::Call, json!({ "toolUse": { "input": fragment } }));
                }
            }
        }
        push(Mark::Frame, "contentBlockStop", json!({ "contentBlockIndex": index }));
    }
    let word = reason(reply).map_or_else(ToOwned::to_owned, |reason| word_for(reason).to_owned());
    push(Mark::Finish, "messageStop", json!({ "stopReason": word }));
    push(Mark::Usage, "metadata", json!({ "usage": tokens(reply), "metrics": { "latencyMs": 1 } }));
    events
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "end_turn",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Length => "max_tokens",
        FinishReason::ContentFilter => "guardrail_intervened",
        FinishReason::Refusal => "refusal",
        _ => "made_up",
    }
}

/// The format counts cached tokens beside the input.
fn tokens(reply: &Reply) -> Value {
    let usage = usage(reply);
    let cached = [usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
    let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
    let mut tokens = json!({ "totalTokens": usage.total_tokens() });
    set(&mut tokens, "inputTokens", usage.input_tokens.map(|input| input.saturating_sub(cached)));
    set(&mut tokens, "outputTokens", usage.output_tokens);
    set(&mut tokens, "cacheReadInputTokens", usage.cache_read_input_tokens);
    set(&mut tokens, "cacheWriteInputTokens", usage.cache_creation_input_tokens);
    tokens
}
