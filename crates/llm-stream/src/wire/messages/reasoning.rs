//! Thoughts, as they are kept and as they go back.

use serde_json::{Map, Value, value::RawValue};
use turnwright_core::Reasoning;

use crate::{LlmEvent, ReasoningDelta, StreamItem, wire::events::object};

/// Under which key a block travels in [`ReasoningDelta::opaque`], and back in a request. The text of a block that can be
/// read is not in it: it is in the deltas.
const BLOCK: &str = "messages_block";

/// Under which key it is marked that the server signs no thoughts, and wants them back all the same.
const UNSIGNED: &str = "messages_unsigned";

/// A block of thoughts whose end has not come.
#[derive(Debug)]
pub(super) struct Thoughts {
    /// The block as it began, but for its text and its signature.
    fields: Map<String, Value>,
    signature: String,
    /// There is text to end.
    has_text: bool,
}

impl Thoughts {
    pub(super) fn new(raw: Option<&RawValue>) -> Self {
        let mut fields: Map<String, Value> = object(raw).unwrap_or_default();
        fields.remove("thinking");
        fields.remove("signature");
        fields.insert("type".into(), "thinking".into());
        Self { fields, signature: String::new(), has_text: false }
    }

    /// Says that text of it came.
    pub(super) fn said(&mut self) {
        self.has_text = true;
    }

    /// Takes a piece of the signature. Returns how long it is.
    pub(super) fn sign(&mut self, piece: &str) -> usize {
        self.signature.push_str(piece);
        self.signature.len()
    }

    /// The delta that ends the block and carries what must come back; nothing when nothing was said. `unsigned` says that
    /// the server signs none.
    pub(super) fn seal(self, unsigned: bool) -> Option<StreamItem> {
        let Self { mut fields, signature, has_text } = self;
        let is_signed = !signature.is_empty();
        if is_signed {
            fields.insert("signature".into(), signature.into());
        }
        (is_signed || has_text).then(|| sealed(fields, unsigned && !is_signed))
    }
}

/// The delta of a block that nobody can read.
pub(super) fn redacted(raw: &RawValue) -> Option<StreamItem> {
    object(Some(raw)).map(|block| sealed(block, false))
}

fn sealed(block: Map<String, Value>, unsigned: bool) -> StreamItem {
    let mut opaque = Map::from_iter([(BLOCK.to_owned(), Value::Object(block))]);
    if unsigned {
        opaque.insert(UNSIGNED.to_owned(), true.into());
    }
    LlmEvent::ReasoningDelta(ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) }).into()
}

/// The block as it goes back, if this format made it and a server takes it: thoughts that nobody signed are refused where
/// others are signed.
pub(super) fn block_of(reasoning: &Reasoning) -> Option<Map<String, Value>> {
    let mut block = reasoning.opaque.get(BLOCK)?.as_object()?.clone();
    if block.get("type")? == "thinking" {
        if !block.contains_key("signature") {
            reasoning.opaque.get(UNSIGNED)?;
            // Strict servers want the field.
            block.insert("signature".into(), "".into());
        }
        block.insert("thinking".into(), reasoning.text.as_str().into());
    }
    Some(block)
}
