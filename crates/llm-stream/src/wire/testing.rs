//! What the tests of all decoders and of all request bodies do alike.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwright_core::{
    Concurrency, ImageRef, Message, MessageId, Part, Reasoning, Role, ToolCall, ToolDefinition, ToolResult,
};

use super::WireDecoder;
use crate::{Assembler, LlmRequest, LlmResponse, StreamItem, ToolChoice};

/// Decodes these pieces of a body: the items must end in their only terminal event.
pub(in crate::wire) fn decode_with<'a>(
    mut decoder: impl WireDecoder,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<StreamItem> {
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done());
    let terminals = out.iter().filter(|i| matches!(i, StreamItem::Event(e) if e.is_terminal())).count();
    assert_eq!(terminals, 1, "{out:?}");
    assert!(matches!(out.last(), Some(StreamItem::Event(e)) if e.is_terminal()), "{out:?}");
    out
}

/// Decodes the body whole, at every split and one byte at a time: the items must be equal.
pub(in crate::wire) fn at_every_split<D: WireDecoder>(new: impl Fn() -> D, body: &[u8]) -> Vec<StreamItem> {
    let whole = decode_with(new(), [body]);
    let shown = String::from_utf8_lossy(body);
    for split in 0..=body.len() {
        let (a, b) = body.split_at(split);
        assert_eq!(decode_with(new(), [a, b]), whole, "split at {split} of {shown}");
    }
    assert_eq!(decode_with(new(), body.chunks(1)), whole, "one byte at a time: {shown}");
    whole
}

/// What the items make.
pub(in crate::wire) fn assemble(items: Vec<StreamItem>) -> LlmResponse {
    let mut assembler = Assembler::new();
    for item in items {
        if let StreamItem::Event(event) = item {
            assembler.feed(event);
        }
    }
    assembler.finish()
}

pub(in crate::wire) fn id() -> MessageId {
    MessageId::from_uuid(Default::default())
}

pub(in crate::wire) fn user(text: &str) -> Message {
    Message::user(id(), text)
}

pub(in crate::wire) fn assistant(parts: Vec<Part>) -> Message {
    Message::new(id(), Role::Assistant, parts)
}

/// A call of the tool `t`.
pub(in crate::wire) fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "t", "{}")
}

/// An answer of such calls.
pub(in crate::wire) fn calls(ids: &[&str]) -> Message {
    assistant(ids.iter().map(|id| Part::ToolCall(call(id))).collect())
}

/// The result of one.
pub(in crate::wire) fn answered(call_id: &str, content: &str) -> Message {
    Message::tool(id(), ToolResult::ok(&call(call_id), content))
}

pub(in crate::wire) fn image(uri: &str) -> ImageRef {
    ImageRef { uri: uri.into(), media_type: None }
}

pub(in crate::wire) fn reasoning(text: &str, opaque: Value) -> Part {
    let Value::Object(opaque) = opaque else { unreachable!() };
    Part::Reasoning(Reasoning { text: text.into(), opaque })
}

pub(in crate::wire) fn tool(name: &str) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: name.into(),
        description: "does it".into(),
        parameters: json!({ "type": "object", "properties": { "b": {}, "a": {} } }),
        source: "local".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    })
}

/// A request that asks for nearly everything.
pub(in crate::wire) fn full() -> LlmRequest {
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(user("hi"))],
        tools: [tool("t")].into(),
        tool_choice: ToolChoice::Tool("t".into()),
        temperature: Some(0.5),
        max_output_tokens: Some(9),
        stop: vec!["END".into()],
        ..LlmRequest::default()
    }
}
