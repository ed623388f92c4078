//! The fast path for chunks that are alike, against parsing each of them.

use super::*;

/// Decodes with and without the fast path: the items must be equal.
fn both(body: &[u8]) -> Vec<StreamItem> {
    let parsed = decode_with(ChatDecoder::without_template(), [body]);
    let fast = decode_with(ChatDecoder::new("p"), [body]);
    assert_eq!(fast, parsed, "{}", String::from_utf8_lossy(body));
    fast
}

#[test]
fn a_second_choice_of_the_same_index_is_not_lost() {
    let chunk =
        |a: &str| json!({ "choices": [{ "delta": { "content": a } }, { "delta": { "content": "B" } }] });
    assert_eq!(assemble(both(sse(&[chunk(""), chunk("A")]).as_bytes())).text(), "BAB");
}

#[test]
fn details_beside_text_close_a_block_also_when_the_chunk_is_repeated() {
    let chunk = |content: &str, index: u64| {
        let detail = json!({ "type": "reasoning.text", "text": "", "index": index });
        json!({ "choices": [{ "delta": { "content": content, "reasoning_details": [detail] } }] })
    };
    let opens = json!({ "choices": [{ "delta": {
        "reasoning_details": [{ "type": "reasoning.text", "text": "B", "index": 1, "id": "b" }],
    } }] });
    let items = both(sse(&[chunk("x", 0), chunk("x", 0), opens, chunk("x", 0)]).as_bytes());
    let sealed = |item: &StreamItem| matches!(item, StreamItem::Event(LlmEvent::ReasoningDelta(r)) if r.opaque.as_ref().is_some_and(|o| o["reasoning_details"][0]["id"] == "b"));
    assert!(items.iter().any(sealed), "{items:?}");
}

/// Chunks as servers send them; `T` stands for the text.
const CHUNKS: [&str; 22] = [
    r#"{"choices":[{"delta":{"content":"T"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"T"},"finish_reason":null}],"obfuscation":"aZ9"}"#,
    r#"{"choices":[{"delta":{"content":"T"}},{"delta":{"content":"B"}}]}"#,
    r#"{"choices":[{"delta":{"content":"T"}},{"index":1,"delta":{"content":"C"}}]}"#,
    r#"{"choices":[{"delta":{"content":"T","reasoning_details":[]}}]}"#,
    r#"{"choices":[{"delta":{"content":"T","reasoning_details":[{"type":"reasoning.text","text":"","index":0}]}}]}"#,
    r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"T","index":1}]}}]}"#,
    r#"{"choices":[{"delta":{"content":"T","reasoning_content":""}}]}"#,
    r#"{"choices":[{"delta":{"content":"T","refusal":null}}],"usage":null}"#,
    r#"{"choices":[{"delta":{"content":"T"}}],"usage":{"prompt_tokens":1}}"#,
    r#"{"choices":[{"delta":{"content":"T","tool_calls":[{"id":"x","function":{"name":"f","arguments":"1"}}]}}]}"#,
    r#"{"id":"r","choices":[{"delta":{"content":"T"},"finish_reason":"stop"}]}"#,
    r#"{"choices":[{"message":{"content":"T"}}]}"#,
    r#"{"choices":[{"delta":{"content":["T"]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"T"}}]}}]}"#,
    r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":1,"function":{"arguments":"T"}}]}}],"p":"q"}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"T"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"id":"y","function":{"arguments":"T"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"T"}},{"index":1,"function":{"arguments":"b"}}]}}]}"#,
    r#"{"choices":[{"delta":{"content":"T","tool_calls":[{"index":3,"function":{"arguments":"1"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"name":"n","arguments":"T"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"T","arguments":"{}"}}]}}]}"#,
];

fn window() -> impl Strategy<Value = (Vec<(usize, String)>, usize)> {
    let text = prop_oneof![Just(String::new()), Just("\\n".into()), "[a-z]{1,3}", Just("\\ud83d".into())];
    (proptest::collection::vec((0..CHUNKS.len(), text), 1..3), 1usize..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn chunks_that_are_alike_say_what_they_say_alone(
        windows in proptest::collection::vec(window(), 1..6),
        mutation in proptest::option::of((any::<prop::sample::Index>(), prop::sample::select(b"\"{}[],:ab0\\ ".to_vec()))),
    ) {
        let mut body = Vec::new();
        for (chunks, times) in windows {
            for _ in 0..times {
                for (kind, text) in &chunks {
                    body.extend(format!("data: {}\n\n", CHUNKS[*kind].replacen('T', text, 1)).into_bytes());
                }
            }
        }
        if let Some((at, byte)) = mutation {
            let at = at.index(body.len());
            body[at] = byte;
        }
        both(&body);
    }
}
