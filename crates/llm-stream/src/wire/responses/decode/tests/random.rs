//! Any input at any split.

use proptest::prelude::*;

use super::*;

/// An event of any kind under labels of any kind, some of which fit.
fn odd_event() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "response.created",
        "response.output_text.delta",
        "response.output_text.done",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
        "response.incomplete",
        "response.unknown",
        "error",
        "[DONE]",
    ]);
    let items =
        prop::sample::select(vec!["message", "reasoning", "function_call", "custom_tool_call", "new"]);
    let text = prop::sample::select(vec!["", "a", "{\"a\":", "1}", "é\u{1F600}", "\"\\"]);
    let index = prop::sample::select(vec![json!(null), json!(0), json!(1), json!("x")]);
    let id = prop::sample::select(vec![json!(null), json!("i"), json!("j"), json!(5)]);
    (kinds, items, text, index, id, 0..20u8).prop_map(|(kind, item, text, index, id, flaw)| {
        let item = json!({ "type": item, "id": id, "call_id": id, "name": "f", "arguments": text, "input": text,
            "content": [{ "text": text }], "summary": [{ "text": text }] });
        let mut fields = json!({ "output_index": index, "content_index": index, "item_id": id, "delta": text,
            "text": text, "arguments": text, "item": item, "response": { "output": [item] } });
        if flaw == 0 {
            fields["item"] = json!([1]);
            fields["response"] = json!("odd");
        }
        match kind {
            "[DONE]" => "data: [DONE]\n\n".to_owned(),
            kind => event(kind, fields),
        }
    })
}

/// Decodes it at these places and whole, and checks what holds for any input.
fn check(body: &[u8], cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let whole = decode_with(ResponsesDecoder::new("p"), [body]);
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    at.extend([0, body.len()]);
    at.sort_unstable();
    let pieces = at.windows(2).map(|pair| &body[pair[0]..pair[1]]);
    prop_assert_eq!(&decode_with(ResponsesDecoder::new("p"), pieces), &whole);
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

/// An item of a valid answer: what it says in pieces, and the item at its end.
fn script_item() -> impl Strategy<Value = (u8, Vec<String>)> {
    (0..4u8, prop::collection::vec("[a-z\\n\"\\\\é\u{1F600}]{1,6}", 1..4))
}

/// The script as a server would send it, and the parts it means.
fn script(items: &[(u8, Vec<String>)]) -> (String, Vec<(char, String)>) {
    let (mut body, mut parts) = (created(), Vec::<(char, String)>::new());
    for (index, (kind, pieces)) in (0u64..).zip(items) {
        let all = pieces.concat();
        let id = format!("i{index}");
        let (part, item, delta_kind) = match kind {
            0 => ('t', message(&all), "response.output_text.delta"),
            1 => (
                'r',
                json!({ "type": "reasoning", "id": id, "summary": [{ "text": all }] }),
                "response.reasoning_summary_text.delta",
            ),
            2 => (
                'c',
                json!({ "type": "custom_tool_call", "id": id, "call_id": id, "name": "f", "input": all }),
                "response.custom_tool_call_input.delta",
            ),
            _ => (
                'c',
                json!({ "type": "function_call", "id": id, "call_id": id, "name": "f", "arguments": json!({ "input": all }).to_string() }),
                "response.function_call_arguments.delta",
            ),
        };
        let mut item = item;
        item["id"] = id.clone().into();
        let mut begun = item.clone();
        for field in ["content", "summary"] {
            if begun.get(field).is_some() {
                begun[field] = json!([]);
            }
        }
        for field in ["arguments", "input"] {
            if begun.get(field).is_some() {
                begun[field] = json!("");
            }
        }
        body += &added(index, begun);
        let mut say = |piece: &str| {
            let fields = json!({ "output_index": index, "content_index": 0, "item_id": id, "delta": piece });
            body += &event(delta_kind, fields);
        };
        match item.get("arguments").and_then(Value::as_str) {
            Some(arguments) => say(arguments),
            None => pieces.iter().for_each(|piece| say(piece)),
        }
        body += &done(index, item);
        match (parts.last_mut(), part) {
            // Text is one part though it came in two messages.
            (Some(('t', text)), 't') => text.push_str(&all),
            _ => parts.push((part, all)),
        }
    }
    (body + &completed(json!([])), parts)
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
        items in prop::collection::vec(script_item(), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let (body, expected) = script(&items);
        let body = body.replace('\n', end);
        check(body.as_bytes(), &cuts)?;
        let response = assemble(decode_with(ResponsesDecoder::new("p"), [body.as_bytes()]));
        let part = |part: &Part| match part {
            Part::Text { text } => ('t', text.clone()),
            Part::Reasoning(block) => ('r', block.text.clone()),
            Part::ToolCall(call) => {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                ('c', arguments["input"].as_str().unwrap().to_owned())
            }
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(response.parts.iter().map(part).collect::<Vec<_>>(), expected);
        prop_assert_eq!(response.error, None);
    }
}
