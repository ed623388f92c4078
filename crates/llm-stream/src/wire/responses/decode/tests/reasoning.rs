//! Reasoning, as it is read and as it goes back.

use super::*;

fn item(fields: Value) -> Value {
    let mut item = json!({ "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "eA==" });
    let Value::Object(fields) = fields else { unreachable!() };
    fields.into_iter().for_each(|(name, value)| item[name] = value);
    item
}

fn thought(kind: &str, delta: &str) -> String {
    event(kind, json!({ "output_index": 0, "summary_index": 0, "item_id": "rs", "delta": delta }))
}

fn blocks(response: &LlmResponse) -> Vec<(&str, Option<&Value>)> {
    let blocks = response.parts.iter().filter_map(|part| match part {
        Part::Reasoning(block) => Some((block.text.as_str(), block.opaque.get("responses_item"))),
        _ => None,
    });
    blocks.collect()
}

#[test]
fn fault_r1_12_the_item_is_kept_as_it_ended_with_its_id() {
    let ended = item(json!({ "summary": [{ "type": "summary_text", "text": "hm" }], "new_field": [1.5] }));
    let body = created()
        + &added(0, item(json!({ "encrypted_content": "early" })))
        + &thought("response.reasoning_summary_text.delta", "h")
        + &thought("response.reasoning_summary_text.delta", "m")
        + &event("response.reasoning_summary_text.done", json!({ "output_index": 0, "text": "hm" }))
        + &done(0, ended.clone())
        + &text(1, "a")
        + &completed(json!([ended, message("a")]));
    let response = answer(&body);
    assert_eq!(blocks(&response), [("hm", Some(&ended))]);
    assert_eq!(response.parts.len(), 2);
}

#[test]
fn reasoning_in_the_clear_or_only_at_the_end_is_read_once() {
    let clear =
        item(json!({ "content": [{ "type": "reasoning_text", "text": "hm" }], "encrypted_content": null }));
    let both =
        item(json!({ "content": [{ "text": "long" }], "summary": [{ "text": "h" }, { "text": "m" }] }));
    for (body, kept) in [
        (thought("response.reasoning_text.delta", "hm") + &done(0, clear.clone()), &clear),
        (done(0, clear.clone()), &clear),
        (completed(json!([clear.clone()])), &clear),
        (done(0, both.clone()) + &completed(json!([both.clone()])), &both),
        (thought("response.reasoning_summary_text.delta", "hm") + &completed(json!([both.clone()])), &both),
    ] {
        let response = answer(&(body + &completed(json!([]))));
        assert_eq!(blocks(&response), [("hm", Some(kept))]);
    }
}

#[test]
fn each_block_has_its_own_item_and_nothing_to_read_is_no_loss() {
    let (first, second) = (item(json!({ "id": "1" })), item(json!({ "id": "2" })));
    let call = json!({ "type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}" });
    let body =
        done(0, first.clone()) + &done(1, second.clone()) + &done(2, call.clone()) + &done(3, first.clone());
    let response = answer(&(body + &completed(json!([]))));
    assert_eq!(blocks(&response), [("", Some(&first)), ("", Some(&second)), ("", Some(&first))]);
    assert!(matches!(response.parts[2], Part::ToolCall(_)), "in the order in which they came");
}

#[test]
fn thoughts_that_were_cut_are_shown_and_do_not_go_back() {
    let cut = item(json!({ "status": "incomplete" }));
    let body = thought("response.reasoning_text.delta", "h") + &done(0, cut) + &completed(json!([]));
    assert_eq!(blocks(&answer(&body)), [("h", None)]);
    let body = thought("response.reasoning_text.delta", "h");
    assert_eq!(blocks(&answer(&body)), [("h", None)], "nor does what never ended");
}
