//! The rule, part by part.

use std::sync::Arc;

use serde_json::json;
use turnwright_core::{Concurrency, ImageRef, MessageId, Reasoning, Role};

use super::*;
use crate::OutputSchema;

fn says(parts: Vec<Part>) -> Message {
    Message::new(MessageId::from_uuid(Default::default()), Role::Assistant, parts)
}

#[test]
fn every_part_of_a_request_counts() {
    assert_eq!([text(""), text("a"), text("four"), text("fives"), text("日本")], [0, 1, 1, 2, 2]);
    let call = ToolCall::new("c", "look", r#"{"a":1}"#);
    let mut seen = ToolResult::ok(&call, "12345678");
    let image = || ImageRef { uri: format!("data:image/png;base64,{}", "A".repeat(9_000)), media_type: None };
    seen.images = vec![image(), image()];
    let opaque = [("signature".to_owned(), json!("12345678"))].into_iter().collect();
    let parts = [
        (Part::text("12345678"), 2),
        (Part::Reasoning(Reasoning { text: "12345678".into(), opaque: serde_json::Map::new() }), 2),
        // `{"signature":"12345678"}` has 24 bytes.
        (Part::Reasoning(Reasoning { text: "12345678".into(), opaque }), 2 + 6),
        (Part::ToolCall(call), MESSAGE_TOKENS + 1 + 2),
        (Part::ToolResult(seen), MESSAGE_TOKENS + 2 + 2 * IMAGE_TOKENS),
        (Part::Image(image()), IMAGE_TOKENS),
    ];
    let mut all = MESSAGE_TOKENS;
    for (part, tokens) in &parts {
        assert_eq!(message(&says(vec![part.clone()])), MESSAGE_TOKENS + tokens, "{part:?}");
        all += tokens;
    }
    let long = says(parts.into_iter().map(|(part, _)| part).collect());
    assert_eq!(message(&long), all);

    let look = ToolDefinition {
        name: "look".into(),
        description: "12345678".into(),
        parameters: json!({ "type": "object" }),
        source: "local".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    };
    // `{"type":"object"}` has 17 bytes.
    assert_eq!(tool(&look), MESSAGE_TOKENS + 1 + 2 + 5);
    let whole = LlmRequest {
        system: Some("12345678".into()),
        messages: vec![Arc::new(long)],
        tools: [Arc::new(look.clone())].into(),
        output: Some(OutputSchema::new("o", json!({ "type": "object" })).into()),
        ..LlmRequest::default()
    };
    assert_eq!(request(&whole), (MESSAGE_TOKENS + 2) + all + tool(&look) + 5);
    assert_eq!(request(&LlmRequest::default()), 0);
}
