//! Turns as JSON.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::block::Block;
use crate::wire::turns::Turn;

impl Serialize for Turn<Block<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut turn = serializer.serialize_struct("Turn", 2)?;
        turn.serialize_field("role", if self.is_assistant { "assistant" } else { "user" })?;
        match (&*self.results, &*self.blocks) {
            // Words alone go as a string, which every server takes.
            ([], [Block::Text { text }]) => turn.serialize_field("content", text)?,
            (results, blocks) => turn.serialize_field("content", &Blocks(results, blocks))?,
        }
        turn.end()
    }
}

struct Blocks<'a>(&'a [Block<'a>], &'a [Block<'a>]);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().chain(self.1))
    }
}
