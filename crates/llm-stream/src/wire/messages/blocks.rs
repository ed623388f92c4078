//! The blocks that are open. The format's inventor has one open at a time; others begin the next one before the last
//! has ended.

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::reasoning::Thoughts;
use crate::{
    StreamItem,
    wire::list::{MAX_LIST_ITEMS, too_many},
};

/// The most bytes that the signature of one block of thoughts may have: 16 MiB.
const MAX_SIGNATURE_BYTES: usize = 16 * 1024 * 1024;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Thoughts, by a number that no other block has.
    Thinking(u64),
    /// A call, by its place among the calls.
    Call(usize),
    /// What we do not read: what the server's own tools did, and what came later than we.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Vec<(Option<u64>, Kind)>,
    /// The block of thoughts whose end was not told yet, by its number. It is told when the block ends or another
    /// one begins, whichever is first: what is assembled from the events knows no thoughts in the midst of a text.
    thoughts: Option<(u64, Thoughts)>,
    numbered: u64,
    /// The server signs no thoughts.
    unsigned: bool,
}

impl Blocks {
    /// Says which model answers. All of the format's inventor have their thoughts signed; servers that copy the format may
    /// not sign, and some of those refuse a history without its thoughts.
    pub(super) fn answered_by(&mut self, model: &str) {
        self.unsigned = !model.contains("claude");
    }

    /// Begins a block. One of the same index must have been ended.
    pub(super) fn begin(&mut self, index: Option<u64>, kind: Kind) -> Result<(), ErrorInfo> {
        if self.open.len() == MAX_LIST_ITEMS {
            return Err(too_many());
        }
        self.open.push((index, kind));
        Ok(())
    }

    /// The block of this index; without an index, the one that began last.
    pub(super) fn find(&self, index: Option<u64>) -> Option<Kind> {
        self.position(index).map(|at| self.open[at].1)
    }

    /// Takes out the block of this index.
    pub(super) fn end(&mut self, index: Option<u64>) -> Option<Kind> {
        self.position(index).map(|at| self.open.remove(at).1)
    }

    fn position(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().rposition(|(known, _)| *known == index),
            None => self.open.len().checked_sub(1),
        }
    }

    /// Begins a block of thoughts, as it stands in this value.
    pub(super) fn think(&mut self, raw: Option<&RawValue>) -> Kind {
        self.numbered += 1;
        self.thoughts = Some((self.numbered, Thoughts::new(raw)));
        Kind::Thinking(self.numbered)
    }

    /// Says that a thought of this block comes. Returns the end of those of another block.
    pub(super) fn thought(&mut self, block: u64) -> Option<StreamItem> {
        let is_of_other = self.thoughts.as_ref().is_none_or(|(open, _)| *open != block);
        let before = if is_of_other { self.seal() } else { None };
        let (_, thoughts) = self.thoughts.get_or_insert_with(|| (block, Thoughts::new(None)));
        thoughts.said();
        before
    }

    /// Takes a piece of the signature. That of thoughts whose end was told is left out: it came too late.
    pub(super) fn sign(&mut self, block: u64, piece: &str) -> Result<(), ErrorInfo> {
        if let Some((open, thoughts)) = &mut self.thoughts
            && *open == block
            && thoughts.sign(piece) > MAX_SIGNATURE_BYTES
        {
            let message = "the signature of a block of thoughts outgrew the limit";
            return Err(ErrorInfo::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    /// Ends the thoughts that are open.
    pub(super) fn seal(&mut self) -> Option<StreamItem> {
        self.thoughts.take()?.1.seal(self.unsigned)
    }

    /// Ends the thoughts of this block, if they are open.
    pub(super) fn seal_block(&mut self, block: u64) -> Option<StreamItem> {
        self.thoughts.take_if(|(open, _)| *open == block)?.1.seal(self.unsigned)
    }
}
