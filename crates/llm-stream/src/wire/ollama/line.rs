//! The shape of one line, borrowed from its bytes. Values stay raw until needed, so that an odd one spoils no other;
//! fields not named here are skipped without being built.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::{
    count::Count,
    lenient::{Items, Object},
};

#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Object<Message<'a>>,
    /// The text, and the thoughts, of an answer to a bare prompt (`/api/generate`).
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) done: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) done_reason: Option<&'a RawValue>,
    /// Absent where all of the prompt was cached.
    #[serde(default)]
    pub(super) prompt_eval_count: Count,
    #[serde(default)]
    pub(super) eval_count: Count,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Items<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}
