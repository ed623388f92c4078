//! The shape of one chunk, borrowed from its bytes. Values whose type differs between servers stay raw until needed;
//! fields not named here are skipped without being built.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::wire::{
    count::Count,
    list::{List, check_items},
};

#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) model: Option<&'a RawValue>,
    /// `chat.completion.chunk`, or `error`.
    #[serde(borrow, default)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Choices<'a>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) x_groq: Option<GroqExtra<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Where one provider puts usage beside the place that became usual.
#[derive(Debug, Deserialize)]
pub(super) struct GroqExtra<'a> {
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The choices of index 0: one answer is asked for, and a server that sends several must not mix them.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    pub(super) first: Option<Choice<'a>>,
    /// Further ones of the same index. Empty in practice, and then no allocation.
    pub(super) more: Vec<Choice<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// The whole message of an answer that was not streamed; some servers repeat it beside each delta.
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<&'a RawValue>,
    /// The upstream's word, where a router translated it.
    #[serde(borrow, default)]
    pub(super) native_finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<List<CallPiece<'a>>>,
    /// The form before there were several calls.
    #[serde(borrow, default)]
    pub(super) function_call: Option<FunctionPiece<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionPiece<'a>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of content that is a list.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Visit<'a> {
            type Value = Choices<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let (mut choices, mut count, mut pieces) = (Choices::default(), 0, 0);
                while let Some(choice) = seq.next_element::<Choice<'a>>()? {
                    count += 1;
                    check_items(count)?;
                    let calls = choice.delta.as_ref().and_then(|delta| delta.tool_calls.as_ref());
                    pieces += calls.map_or(0, |calls| calls.0.len());
                    check_items(pieces)?;
                    match choice.index {
                        Count(None | Some(0)) if choices.first.is_none() => choices.first = Some(choice),
                        Count(None | Some(0)) => choices.more.push(choice),
                        Count(Some(_)) => {}
                    }
                }
                Ok(choices)
            }
        }
        deserializer.deserialize_seq(Visit(PhantomData))
    }
}
