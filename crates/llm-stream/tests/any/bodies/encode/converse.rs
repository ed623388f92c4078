//! Bedrock's ConverseStream.

use serde_json::{Value, json};

use super::{
    super::{
        dice::Dice,
        script::{Block, Script},
    },
    Event,
};

type Events = Vec<(Option<&'static str>, Value)>;

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let mut out = vec![(Some("messageStart"), json!({ "role": "assistant" }))];
    for (at, block) in script.blocks.iter().enumerate() {
        self::block(at, block, &mut out, dice);
    }
    let has_calls = script.blocks.iter().any(|block| matches!(block, Block::Call { .. }));
    let reason = match (script.cut, has_calls) {
        (true, _) => "max_tokens",
        (false, true) => "tool_use",
        (false, false) => dice.one_of(&["end_turn", "stop_sequence"]),
    };
    out.push((Some("messageStop"), json!({ "stopReason": reason })));
    if let Some((input, output)) = script.usage {
        let usage = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
        out.push((Some("metadata"), json!({ "usage": usage, "metrics": { "latencyMs": 1 } })));
    }
    if dice.maybe() {
        for (_, value) in &mut out {
            value["p"] = dice.one_of(&["", "abc", "abcdef"]).into();
        }
    }
    out
}

fn block(index: usize, block: &Block, out: &mut Events, dice: &mut Dice<'_>) {
    let mut say = |kind: &'static str, mut fields: Value| {
        fields["contentBlockIndex"] = index.into();
        out.push((Some(kind), fields));
    };
    match block {
        Block::Text { pieces, .. } => {
            for piece in pieces {
                say("contentBlockDelta", json!({ "delta": { "text": piece } }));
            }
        }
        Block::Thought { pieces, signature } => {
            for piece in pieces {
                say("contentBlockDelta", json!({ "delta": { "reasoningContent": { "text": piece } } }));
            }
            if let Some(signature) = signature {
                let field = if pieces.is_empty() { "redactedContent" } else { "signature" };
                say("contentBlockDelta", json!({ "delta": { "reasoningContent": { field: signature } } }));
            }
        }
        Block::Call { id, name, pieces, .. } => {
            let mut tool = json!({ "toolUseId": id, "name": name });
            if dice.maybe() {
                tool["type"] = "tool_use".into();
            }
            say("contentBlockStart", json!({ "start": { "toolUse": tool } }));
            for piece in pieces {
                say("contentBlockDelta", json!({ "delta": { "toolUse": { "input": piece } } }));
            }
        }
    }
    say("contentBlockStop", json!({}));
}

/// The event as a message of the binary stream: lengths, headers, payload, and a checksum after the lengths and at the end.
pub(super) fn message(event: &Event) -> Vec<u8> {
    let headers = [
        (":event-type", event.name.unwrap_or("contentBlockDelta")),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).expect("a short name"));
        head.extend_from_slice(name.as_bytes());
        // The type of a string.
        head.push(7);
        head.extend_from_slice(&u16::try_from(value.len()).expect("a short value").to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let sized = |length: usize| u32::try_from(length).expect("a small message").to_be_bytes();
    let mut whole = [sized(16 + head.len() + event.json.len()), sized(head.len())].concat();
    whole.extend_from_slice(&crc32fast::hash(&whole).to_be_bytes());
    whole.extend_from_slice(&head);
    whole.extend_from_slice(event.json.as_bytes());
    whole.extend_from_slice(&crc32fast::hash(&whole).to_be_bytes());
    whole
}
