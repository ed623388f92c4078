//! Anthropic's Messages.

use serde_json::{Value, json};

use super::super::{
    dice::Dice,
    script::{Block, Script},
};

type Events = Vec<(Option<&'static str>, Value)>;

pub(super) fn events(script: &Script, dice: &mut Dice<'_>) -> Events {
    let (has_names, has_end) = (dice.maybe(), !dice.maybe());
    let mut out = Vec::new();
    let mut message = json!({ "id": "r", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null });
    if let Some((input, _)) = script.usage {
        message["usage"] = json!({ "input_tokens": input, "output_tokens": 1 });
    }
    say(&mut out, "message_start", json!({ "message": message }));
    for (at, block) in script.blocks.iter().enumerate() {
        if dice.below(8) == 1 {
            say(&mut out, "ping", json!({}));
        }
        self::block(at, block, &mut out, dice);
    }
    let reason = match (script.cut, script.blocks.iter().any(|block| matches!(block, Block::Call { .. }))) {
        (true, _) => "max_tokens",
        (false, true) => "tool_use",
        (false, false) => dice.one_of(&["end_turn", "stop_sequence"]),
    };
    let mut end = json!({ "delta": { "stop_reason": reason, "stop_sequence": null } });
    if let Some((_, output)) = script.usage {
        end["usage"] = json!({ "output_tokens": output });
    }
    say(&mut out, "message_delta", end);
    if has_end {
        say(&mut out, "message_stop", json!({}));
    }
    out.into_iter().map(|(name, value)| (has_names.then_some(name), value)).collect()
}

fn block(index: usize, block: &Block, out: &mut Vec<(&'static str, Value)>, dice: &mut Dice<'_>) {
    if let Block::Thought { pieces, signature: Some(signature) } = block
        && pieces.is_empty()
    {
        let block = json!({ "type": "redacted_thinking", "data": signature });
        say(out, "content_block_start", json!({ "index": index, "content_block": block }));
        return say(out, "content_block_stop", json!({ "index": index }));
    }
    let (begin, kind, field, pieces) = match block {
        Block::Text { pieces, .. } => (json!({ "type": "text", "text": "" }), "text_delta", "text", pieces),
        Block::Thought { pieces, .. } => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            "thinking_delta",
            "thinking",
            pieces,
        ),
        Block::Call { id, name, pieces, .. } => {
            let begin = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            (begin, "input_json_delta", "partial_json", pieces)
        }
    };
    say(out, "content_block_start", json!({ "index": index, "content_block": begin }));
    for piece in pieces {
        say(out, "content_block_delta", json!({ "index": index, "delta": { "type": kind, field: piece } }));
    }
    if let Block::Thought { signature: Some(signature), .. } = block {
        let (a, b) = signature.split_at(dice.below(2) * 4);
        for piece in [a, b] {
            let delta = json!({ "type": "signature_delta", "signature": piece });
            say(out, "content_block_delta", json!({ "index": index, "delta": delta }));
        }
    }
    say(out, "content_block_stop", json!({ "index": index }));
}

fn say(out: &mut Vec<(&'static str, Value)>, kind: &'static str, mut fields: Value) {
    fields["type"] = kind.into();
    out.push((kind, fields));
}
