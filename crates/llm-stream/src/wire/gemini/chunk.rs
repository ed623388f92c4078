//! The shape of one chunk, borrowed from its bytes. Values stay raw until needed, so that an odd one spoils no other;
//! fields not named here are skipped without being built.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{part::PartChunk, usage::Usage};
use crate::wire::{
    count::Count,
    lenient::{Items, Object},
    list::{List, check_items},
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: Option<Candidates<'a>>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage_metadata: Object<Usage>,
    #[serde(borrow, default)]
    pub(super) model_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The candidates of index 0: one answer is asked for, and a server that sends several must not mix them.
#[derive(Debug, Default)]
pub(super) struct Candidates<'a> {
    pub(super) first: Option<Candidate<'a>>,
    /// Further ones of the same index. Empty in practice, and then no allocation.
    pub(super) more: Vec<Candidate<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    pub(super) content: Object<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    parts: Items<Object<PartChunk<'a>>>,
}

impl<'a> Candidate<'a> {
    /// Its parts. Odd ones, and those of odd content, are left out.
    pub(super) fn parts(&self) -> impl Iterator<Item = &PartChunk<'a>> {
        self.content.0.iter().flat_map(|content| &content.parts.0).filter_map(|part| part.0.as_ref())
    }

    fn count(&self) -> usize {
        self.content.0.as_ref().map_or(0, |content| content.parts.0.len())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
    /// Pieces of the arguments, where the caller asked for them to be streamed.
    #[serde(borrow, default)]
    pub(super) partial_args: Option<List<PartialArg<'a>>>,
    #[serde(borrow, default)]
    pub(super) will_continue: Option<&'a RawValue>,
}

/// A piece of the arguments: where it belongs, and a value or a piece of a string.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow, default)]
    pub(super) json_path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) string_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) number_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) bool_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) null_value: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) block_reason_message: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Candidates<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Visit<'a> {
            type Value = Candidates<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of candidates")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let (mut candidates, mut count, mut parts) = (Candidates::default(), 0, 0);
                while let Some(candidate) = seq.next_element::<Option<Candidate<'a>>>()? {
                    count += 1;
                    check_items(count)?;
                    let Some(candidate) = candidate else { continue };
                    parts += candidate.count();
                    check_items(parts)?;
                    match candidate.index {
                        Count(None | Some(0)) if candidates.first.is_none() => {
                            candidates.first = Some(candidate);
                        }
                        Count(None | Some(0)) => candidates.more.push(candidate),
                        Count(Some(_)) => {}
                    }
                }
                Ok(candidates)
            }
        }
        deserializer.deserialize_seq(Visit(PhantomData))
    }
}
