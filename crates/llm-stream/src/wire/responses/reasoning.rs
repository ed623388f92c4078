//! Reasoning items, as they are kept and as they go back.

use serde_json::{Map, Value, value::RawValue};
use turnwright_core::Reasoning;

use crate::{LlmEvent, ReasoningDelta, StreamItem};

/// Under which key an item travels in [`ReasoningDelta::opaque`], and back in a request.
const ITEM: &str = "responses_item";

/// The delta that ends a block and carries its item as it came.
pub(super) fn sealed(item: &RawValue) -> Option<StreamItem> {
    let item: Map<String, Value> = serde_json::from_str(item.get()).ok()?;
    let opaque = Map::from_iter([(ITEM.to_owned(), Value::Object(item))]);
    let delta = ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) };
    Some(LlmEvent::ReasoningDelta(delta).into())
}

/// The item of a block, if this format made it and the server can read it again. A server that stores nothing knows an
/// item only by what is in it: encrypted content, or reasoning in the clear. A summary is none of both.
pub(super) fn item_of(reasoning: &Reasoning, stored: bool) -> Option<&Value> {
    let item = reasoning.opaque.get(ITEM)?;
    let has_content = ["encrypted_content", "content"].iter().any(|field| match item.get(field) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    });
    (stored || has_content).then_some(item)
}
