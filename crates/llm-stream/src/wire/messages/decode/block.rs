//! What begins, goes on and ends in a block.

use std::borrow::Cow;

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::{
    super::{
        blocks::Kind,
        event::{Event, RawBlock},
        reasoning::redacted,
    },
    State,
    alike::Piece,
};
use crate::{
    LlmEvent, StreamItem,
    wire::{events::object, text::text_of},
};

impl State {
    pub(super) fn block_start(
        &mut self,
        index: Option<u64>,
        raw: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let block: RawBlock<'_> = object(raw).unwrap_or_default();
        // An index that begins anew has ended, though nobody said so.
        if index.is_some() {
            self.block_stop(index, out);
        }
        self.heard();
        out.extend(self.blocks.seal());
        match &*block.kind.and_then(text_of).unwrap_or_default() {
            "text" => {
                self.blocks.begin(index, Kind::Text)?;
                self.text(words(block.text), out);
            }
            "thinking" => {
                let kind = self.blocks.think(raw);
                self.blocks.begin(index, kind)?;
                if let Kind::Thinking(number) = kind {
                    self.thought(number, words(block.thinking), out);
                    self.sign(number, &words(block.signature))?;
                }
            }
            "redacted_thinking" => {
                out.extend(raw.and_then(redacted));
                self.blocks.begin(index, Kind::Other)?;
            }
            "tool_use" => {
                let call = self.calls.begin(&block, out)?;
                self.blocks.begin(index, Kind::Call(call))?;
            }
            _ => self.blocks.begin(index, Kind::Other)?,
        }
        Ok(())
    }

    pub(super) fn block_delta(
        &mut self,
        event: &Event<'_>,
        json: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let delta = event.delta.0.unwrap_or_default();
        let Some(piece) = Piece::of(&delta.kind.and_then(text_of).unwrap_or_default()) else { return Ok(()) };
        let raw = match piece {
            Piece::Text => delta.text,
            Piece::Thinking => delta.thinking,
            Piece::Signature => delta.signature,
            Piece::Arguments => delta.partial_json,
        };
        let text = match (piece, raw) {
            // A string, or the JSON itself where a server forgot to make it one.
            (Piece::Arguments, Some(raw)) if raw.get() != "null" => {
                text_of(raw).unwrap_or_else(|| raw.get().into())
            }
            (_, raw) => words(raw),
        };
        self.piece(event.index.0, piece, text, out)?;
        if event.kind.is_some() {
            self.alike.learn(json, event.index.0, piece, raw);
        }
        Ok(())
    }

    /// Takes a piece of a block.
    pub(super) fn piece(
        &mut self,
        index: Option<u64>,
        piece: Piece,
        text: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let block = match self.blocks.find(index) {
            Some(block) => block,
            None => self.implied(index, piece, out)?,
        };
        match (piece, block) {
            (_, Kind::Other) => {}
            (Piece::Text, Kind::Text) => self.text(text, out),
            (Piece::Thinking, Kind::Thinking(number)) => self.thought(number, text, out),
            (Piece::Signature, Kind::Thinking(number)) => self.sign(number, &text)?,
            (Piece::Arguments, Kind::Call(call)) => {
                let is_said = self.calls.piece(call, text, out)?;
                if is_said {
                    self.heard();
                }
            }
            (Piece::Signature, _) => {}
            _ => return Err(misplaced(piece)),
        }
        Ok(())
    }

    /// The block of a piece, when its begin did not come: text and thoughts say themselves what they are.
    fn implied(
        &mut self,
        index: Option<u64>,
        piece: Piece,
        out: &mut Vec<StreamItem>,
    ) -> Result<Kind, ErrorInfo> {
        let block = match piece {
            Piece::Text => Kind::Text,
            Piece::Thinking => {
                out.extend(self.blocks.seal());
                self.blocks.think(None)
            }
            Piece::Arguments => return Err(misplaced(piece)),
            Piece::Signature => return Ok(Kind::Other),
        };
        self.blocks.begin(index, block)?;
        Ok(block)
    }

    pub(super) fn block_stop(&mut self, index: Option<u64>, out: &mut Vec<StreamItem>) {
        match self.blocks.end(index) {
            Some(Kind::Thinking(number)) => out.extend(self.blocks.seal_block(number)),
            Some(Kind::Call(call)) => self.calls.end(call, out),
            Some(Kind::Text | Kind::Other) | None => {}
        }
    }

    fn text(&mut self, text: Cow<'_, str>, out: &mut Vec<StreamItem>) {
        if !text.is_empty() {
            self.heard();
            out.extend(self.blocks.seal());
            out.push(LlmEvent::text(text).into());
        }
    }

    fn thought(&mut self, block: u64, text: Cow<'_, str>, out: &mut Vec<StreamItem>) {
        if !text.is_empty() {
            self.heard();
            out.extend(self.blocks.thought(block));
            out.push(LlmEvent::reasoning(text).into());
        }
    }

    fn sign(&mut self, block: u64, piece: &str) -> Result<(), ErrorInfo> {
        if piece.is_empty() { Ok(()) } else { self.blocks.sign(block, piece) }
    }

    /// Notes that something of the answer came: it has begun, and is not finished.
    fn heard(&mut self) {
        self.said = true;
        self.stopped.reopen();
    }
}

/// The text in a value; none where there is no string.
fn words(raw: Option<&RawValue>) -> Cow<'_, str> {
    raw.and_then(text_of).unwrap_or_default()
}

fn misplaced(piece: Piece) -> ErrorInfo {
    let message = format!("a piece of the kind {} came for a block that holds no such thing", piece.word());
    ErrorInfo::new(ErrorKind::Protocol, message)
}
