//! What the server wants back as it was: signatures, ids of calls, and parts that only it can read.

use serde_json::{Map, Value};
use turnwright_core::Reasoning;

use crate::{LlmEvent, ReasoningDelta, StreamItem};

/// Under which key it travels in [`ReasoningDelta::opaque`], and back in a request.
const KEY: &str = "gemini_part";

/// A thing to send back, and the part it came with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept<'a> {
    /// The signature of so many bytes of text that were said right before.
    Text { bytes: usize, signature: &'a str },
    /// The signature of so many bytes of reasoning at the end of the block.
    Thought { bytes: usize, signature: &'a str },
    /// What came with the call that follows: its signature, and its id where the server gave one.
    Call { id: Option<&'a str>, signature: Option<&'a str> },
    /// A whole part.
    Part(&'a Map<String, Value>),
}

impl<'a> Kept<'a> {
    /// The delta that carries it, after this piece of reasoning.
    pub(super) fn delta(&self, text: String) -> StreamItem {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        match *self {
            Self::Text { bytes, signature } | Self::Thought { bytes, signature } => {
                let of = if matches!(self, Self::Text { .. }) { "text" } else { "thought" };
                put("of", of.into());
                put("bytes", bytes.into());
                put("thoughtSignature", signature.into());
            }
            Self::Call { id, signature } => {
                put("of", "functionCall".into());
                if let Some(id) = id {
                    put("id", id.into());
                }
                if let Some(signature) = signature {
                    put("thoughtSignature", signature.into());
                }
            }
            Self::Part(part) => put("part", part.clone().into()),
        }
        let opaque = Map::from_iter([(KEY.to_owned(), Value::Object(fields))]);
        LlmEvent::ReasoningDelta(ReasoningDelta { text, opaque: Some(Box::new(opaque)) }).into()
    }

    /// What a block of reasoning keeps, if this format made it.
    pub(super) fn of(reasoning: &'a Reasoning) -> Option<Self> {
        let fields = reasoning.opaque.get(KEY)?.as_object()?;
        if let Some(part) = fields.get("part") {
            return part.as_object().map(Self::Part);
        }
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let bytes = || usize::try_from(fields.get("bytes")?.as_u64()?).ok();
        let signature = text("thoughtSignature");
        Some(match text("of")? {
            "text" => Self::Text { bytes: bytes()?, signature: signature? },
            "thought" => Self::Thought { bytes: bytes()?, signature: signature? },
            "functionCall" => Self::Call { id: text("id"), signature },
            _ => return None,
        })
    }
}
