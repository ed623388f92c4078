//! Turns as JSON.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{
    block::Block,
    cache::{CacheMark, Marked},
};
use crate::wire::turns::Turn;

/// A turn, with a mark on its last block if there is one.
pub(super) struct MarkedTurn<'a>(pub(super) &'a Turn<Block<'a>>, pub(super) Option<CacheMark>);

impl Serialize for MarkedTurn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(Turn { is_assistant, results, blocks }, mark) = self;
        let mut turn = serializer.serialize_struct("Turn", 2)?;
        turn.serialize_field("role", if *is_assistant { "assistant" } else { "user" })?;
        match (&**results, &**blocks, mark) {
            // Words alone go as a string, which every server takes.
            ([], [Block::Text { text }], None) => turn.serialize_field("content", text)?,
            (results, blocks, mark) => turn.serialize_field("content", &Blocks(results, blocks, *mark))?,
        }
        turn.end()
    }
}

struct Blocks<'a>(&'a [Block<'a>], &'a [Block<'a>], Option<CacheMark>);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(results, blocks, mark) = self;
        let count = results.len() + blocks.len();
        let all = results.iter().chain(*blocks).enumerate();
        serializer.collect_seq(
            all.map(|(at, block)| Marked { block, cache_control: mark.filter(|_| at + 1 == count) }),
        )
    }
}
