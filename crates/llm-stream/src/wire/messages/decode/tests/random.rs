//! Any input at any split.

use proptest::prelude::*;

use super::*;

/// An event of any kind under labels of any kind, some of which fit.
fn odd_event() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "message_start",
        "content_block_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "of_later",
        "error",
        "[DONE]",
    ]);
    let blocks = prop::sample::select(vec!["text", "thinking", "redacted_thinking", "tool_use", "new"]);
    let deltas = prop::sample::select(vec![
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
    ]);
    let text = prop::sample::select(vec!["", "a", "{\"a\":", "1}", "é\u{1F600}", "\"\\"]);
    let index = prop::sample::select(vec![json!(null), json!(0), json!(1), json!("x")]);
    let reason = prop::sample::select(vec![json!(null), json!("end_turn"), json!("max_tokens")]);
    (kinds, blocks, deltas, text, index, reason, 0..20u8).prop_map(
        |(kind, block, delta, text, index, reason, flaw)| {
            let block = json!({ "type": block, "id": text, "name": "f", "input": { "a": text }, "text": text,
                "thinking": text, "signature": text, "data": text });
            let delta = json!({ "type": delta, "text": text, "thinking": text, "signature": text,
                "partial_json": text, "stop_reason": reason });
            let message = json!({ "id": index, "content": [block], "stop_reason": reason });
            let mut fields = json!({ "index": index, "content_block": block, "delta": delta, "message": message,
                "content": [block], "stop_reason": reason, "usage": { "output_tokens": flaw } });
            if flaw == 0 {
                fields["content_block"] = json!([1]);
                fields["delta"] = json!("odd");
            }
            match kind {
                "[DONE]" => "data: [DONE]\n\n".to_owned(),
                kind => event(kind, fields),
            }
        },
    )
}

/// Decodes it at these places and whole, and checks what holds for any input.
fn check(body: &[u8], cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let whole = decode_with(MessagesDecoder::new("p"), [body]);
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    at.extend([0, body.len()]);
    at.sort_unstable();
    let pieces = at.windows(2).map(|pair| &body[pair[0]..pair[1]]);
    prop_assert_eq!(&decode_with(MessagesDecoder::new("p"), pieces), &whole);
    let mut shown = std::collections::HashMap::new();
    for item in &whole {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, .. }) => {
                prop_assert!(shown.insert(id.clone(), String::new()).is_none());
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                shown.get_mut(id).expect("begun").push_str(fragment);
            }
            StreamItem::Event(LlmEvent::ToolCallComplete(call)) => {
                prop_assert_eq!(shown.get(&call.id), Some(&call.arguments));
            }
            StreamItem::Event(_) => {}
        }
    }
    Ok(())
}

/// A block of a valid answer: its kind, and what it says in pieces.
fn script_block() -> impl Strategy<Value = (u8, Vec<String>)> {
    (0..4u8, prop::collection::vec("[a-z\\n\"\\\\é\u{1F600}]{1,6}", 1..4))
}

/// The script as a server would send it, and the parts it means.
fn script(blocks: &[(u8, Vec<String>)]) -> (String, Vec<(char, String)>) {
    let (mut body, mut parts) = (started(), Vec::<(char, String)>::new());
    for (index, (kind, pieces)) in (0u64..).zip(blocks) {
        let all = pieces.concat();
        let mut say = |kind: &str, field: &str, pieces: &[String]| {
            body.extend(pieces.iter().map(|piece| delta(index, kind, field, piece)));
        };
        match kind {
            0 => {
                say("text_delta", "text", pieces);
                match parts.last_mut() {
                    // Text is one part though it came in two blocks.
                    Some(('t', text)) => text.push_str(&all),
                    _ => parts.push(('t', all)),
                }
            }
            1 => {
                say("thinking_delta", "thinking", pieces);
                say("signature_delta", "signature", &["S".to_owned()]);
                parts.push(('r', all));
            }
            2 => {
                body += &begin(index, json!({ "type": "redacted_thinking", "data": all }));
                parts.push(('d', all));
            }
            _ => {
                let id = format!("c{index}");
                body += &begin(index, json!({ "type": "tool_use", "id": id, "name": "f", "input": {} }));
                let arguments = json!({ "a": all }).to_string();
                let middle = arguments.char_indices().nth(4).unwrap().0;
                let (a, b) = arguments.split_at(middle);
                body += &delta(index, "input_json_delta", "partial_json", a);
                body += &delta(index, "input_json_delta", "partial_json", b);
                parts.push(('c', all));
            }
        }
        body += &end(index);
    }
    (body + &stopped("end_turn") + &over(), parts)
}

proptest! {
    #[test]
    fn any_bytes_at_any_split_end_once(
        body in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        check(&body, &cuts)?;
    }

    #[test]
    fn any_events_at_any_split_give_the_same_items_and_end_once(
        events in prop::collection::vec(odd_event(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        lost in any::<prop::sample::Index>(),
    ) {
        let body = events.concat();
        check(body.as_bytes(), &cuts)?;
        check(&body.as_bytes()[..lost.index(body.len() + 1)], &cuts)?;
    }

    #[test]
    fn fault_e1_e2_r1_21_a_valid_script_means_the_same_at_any_split(
        blocks in prop::collection::vec(script_block(), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let (body, expected) = script(&blocks);
        let body = body.replace('\n', end);
        check(body.as_bytes(), &cuts)?;
        let response = assemble(decode_with(MessagesDecoder::new("p"), [body.as_bytes()]));
        let part = |part: &Part| match part {
            Part::Text { text } => ('t', text.clone()),
            Part::Reasoning(block) => match block.opaque["messages_block"].get("data") {
                Some(data) => ('d', data.as_str().unwrap().to_owned()),
                None => ('r', block.text.clone()),
            },
            Part::ToolCall(call) => {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                ('c', arguments["a"].as_str().unwrap().to_owned())
            }
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(response.parts.iter().map(part).collect::<Vec<_>>(), expected);
        prop_assert_eq!(response.error, None);
    }
}
