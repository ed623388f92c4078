//! The shape of one event, borrowed from its bytes. Values whose type differs between servers stay raw until needed;
//! fields not named here are skipped without being built.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::{count::Count, lenient::Object};

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) index: Count,
    /// The answer, when it begins.
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Object<RawDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The answer as a whole, or what a delta says of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawMessage<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A block of the answer, when it begins.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// A piece of a block, or what is new of the answer as a whole.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct RawDelta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

impl<'a> RawDelta<'a> {
    /// What it says of the answer as a whole.
    pub(super) fn message(&self) -> RawMessage<'a> {
        let Self { id, model, stop_reason, usage, .. } = *self;
        RawMessage { id, model, content: None, stop_reason, usage }
    }
}
