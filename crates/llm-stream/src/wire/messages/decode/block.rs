//! What begins, goes on and ends in a block.

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::{
    super::{
        blocks::Kind,
        event::{RawBlock, RawDelta},
        reasoning::redacted,
    },
    State,
};
use crate::{
    LlmEvent, StreamItem,
    wire::{
        events::object,
        text::{nonempty, text_of},
    },
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
                self.text(block.text, out);
            }
            "thinking" => {
                let kind = self.blocks.think(raw);
                self.blocks.begin(index, kind)?;
                if let Kind::Thinking(number) = kind {
                    self.thought(number, block.thinking, out);
                    self.sign(number, block.signature)?;
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
        index: Option<u64>,
        delta: RawDelta<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let kind = delta.kind.and_then(text_of).unwrap_or_default();
        let block = match self.blocks.find(index) {
            Some(block) => block,
            None => self.implied(index, &kind, out)?,
        };
        match (&*kind, block) {
            (_, Kind::Other) => {}
            ("text_delta", Kind::Text) => self.text(delta.text, out),
            ("thinking_delta", Kind::Thinking(number)) => self.thought(number, delta.thinking, out),
            ("signature_delta", Kind::Thinking(number)) => self.sign(number, delta.signature)?,
            ("input_json_delta", Kind::Call(call)) => {
                let is_said = self.calls.piece(call, delta.partial_json, out)?;
                if is_said {
                    self.heard();
                }
            }
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => {
                return Err(misplaced(&kind));
            }
            // Citations, and what came later than we.
            _ => {}
        }
        Ok(())
    }

    /// The block of a piece, when its begin did not come: text and thoughts say themselves what they are.
    fn implied(
        &mut self,
        index: Option<u64>,
        kind: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<Kind, ErrorInfo> {
        let block = match kind {
            "text_delta" => Kind::Text,
            "thinking_delta" => {
                out.extend(self.blocks.seal());
                self.blocks.think(None)
            }
            "input_json_delta" => return Err(misplaced(kind)),
            _ => return Ok(Kind::Other),
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

    fn text(&mut self, text: Option<&RawValue>, out: &mut Vec<StreamItem>) {
        if let Some(text) = nonempty(text) {
            self.heard();
            out.extend(self.blocks.seal());
            out.push(LlmEvent::text(text).into());
        }
    }

    fn thought(&mut self, block: u64, text: Option<&RawValue>, out: &mut Vec<StreamItem>) {
        if let Some(text) = nonempty(text) {
            self.heard();
            out.extend(self.blocks.thought(block));
            out.push(LlmEvent::reasoning(text).into());
        }
    }

    fn sign(&mut self, block: u64, piece: Option<&RawValue>) -> Result<(), ErrorInfo> {
        nonempty(piece).map_or(Ok(()), |piece| self.blocks.sign(block, &piece))
    }

    /// Notes that something of the answer came: it has begun, and is not finished.
    fn heard(&mut self) {
        self.said = true;
        self.stopped.reopen();
    }
}

fn misplaced(kind: &str) -> ErrorInfo {
    let message = format!("a piece of the kind {kind} came for a block that holds no such thing");
    ErrorInfo::new(ErrorKind::Protocol, message)
}
