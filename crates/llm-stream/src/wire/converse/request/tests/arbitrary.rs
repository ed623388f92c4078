//! Any history goes out as one that the server accepts.

use proptest::prelude::*;

use super::*;

fn any_words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-c<]{1,3}"]
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let id = prop_oneof!["[a-b.:]{0,2}", "[n]{64,66}"];
    (id, "[t é]{0,2}", "[{}\"a:]{0,4}").prop_map(|(id, name, arguments)| ToolCall::new(id, name, arguments))
}

fn any_image() -> impl Strategy<Value = ImageRef> {
    prop_oneof!["data:image/(png|tiff);base64,AA", "https://x/[a-b]"].prop_map(|uri| image(&uri))
}

fn any_message() -> impl Strategy<Value = Message> {
    let opaque = prop_oneof![
        Just(json!({})),
        Just(json!({ "reasoningContent": { "signature": "A==" } })),
        Just(json!({ "reasoningContent": { "redactedContent": "QUJD" } })),
    ];
    let part = prop_oneof![
        any_words().prop_map(Part::text),
        any_call().prop_map(Part::ToolCall),
        any_image().prop_map(Part::Image),
        (any_words(), opaque).prop_map(|(text, opaque)| reasoning(&text, opaque)),
    ];
    let parts = proptest::collection::vec(part, 0..4);
    prop_oneof![
        any_words().prop_map(|words| Message::system(id(), words)),
        parts.clone().prop_map(|parts| Message::new(id(), Role::User, parts)),
        (parts, any::<bool>()).prop_map(|(parts, is_cut)| {
            let mark = Interrupted { reason: "r".into(), pending_tools: vec![] };
            Message { interrupted: is_cut.then_some(mark), ..assistant(parts) }
        }),
        (any_call(), any_words(), proptest::collection::vec(any_image(), 0..2)).prop_map(
            |(call, words, images)| {
                let mut result = ToolResult::ok(&call, words);
                result.images = images;
                Message::tool(id(), result)
            }
        ),
    ]
}

fn list<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    value[name].as_array().into_iter().flatten().collect()
}

/// The ids in the blocks of this kind.
fn ids<'a>(turn: &'a Value, kind: &str) -> Vec<&'a str> {
    let blocks = list(turn, "content").into_iter().filter_map(|block| block.get(kind));
    let mut ids: Vec<_> = blocks.map(|block| block["toolUseId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// What the server demands of a block.
fn check(block: &Value) {
    if let Some(text) = block.get("text") {
        assert!(!text.as_str().unwrap().trim().is_empty(), "blank text");
    }
    for (kind, field) in [("toolUse", "toolUseId"), ("toolUse", "name"), ("toolResult", "toolUseId")] {
        if let Some(label) = block.get(kind).map(|block| block[field].as_str().unwrap()) {
            let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            assert!((1..=64).contains(&label.len()) && label.chars().all(is_legal), "{label}");
        }
    }
    if let Some(call) = block.get("toolUse") {
        assert!(call["input"].is_object());
    }
    if let Some(result) = block.get("toolResult") {
        let content = list(result, "content");
        assert!(!content.is_empty());
        content.into_iter().for_each(check);
    }
}

proptest! {
    #[test]
    fn fault_r1_28_any_history_goes_out_as_one_that_the_server_accepts(
        messages in proptest::collection::vec(any_message(), 0..8), may_call in any::<bool>(),
    ) {
        let messages = messages.into_iter().map(Arc::new).collect();
        let tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        let body = body(&LlmRequest { messages, tool_choice, ..full() });
        let turns = list(&body, "messages");
        for (at, turn) in turns.iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            prop_assert_eq!(&turn["role"], role, "turns alternate and begin with the user: {}", body);
            let blocks = list(turn, "content");
            prop_assert!(!blocks.is_empty(), "{}", body);
            blocks.iter().for_each(|block| check(block));
            let is_result = |block: &&Value| block.get("toolResult").is_some();
            prop_assert!(blocks.is_sorted_by_key(|block| !is_result(block)), "results come first: {}", body);
            let last = blocks.last().is_some_and(|block| block.get("reasoningContent").is_some());
            prop_assert!(!last, "nothing follows a thought: {}", body);
            let calls = ids(turn, "toolUse");
            let results = turns.get(at + 1).map_or(vec![], |next| ids(next, "toolResult"));
            prop_assert_eq!(&calls, &results, "{}", body);
            prop_assert!(may_call || calls.is_empty());
        }
    }
}
