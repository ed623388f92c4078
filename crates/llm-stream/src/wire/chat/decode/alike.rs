//! Chunks that are like an earlier one are not parsed again; see [`crate::wire::template`].

use turnwright_core::ErrorInfo;

use super::{
    super::{
        calls::Labels,
        chunk::{Chunk, Delta},
    },
    State,
};
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{template::inside, text::nonempty},
};

impl State {
    /// Takes a chunk that is like an earlier one but for its string, if it is.
    pub(super) fn like_before(
        &mut self,
        json: &str,
        out: &mut Vec<StreamItem>,
    ) -> Option<Result<(), ErrorInfo>> {
        if self.finish.is_seen() || self.blocks.is_open() {
            return None;
        }
        if let Some(text) = self.text_like.string(json) {
            if !text.is_empty() {
                out.push(LlmEvent::text(text).into());
            }
            return Some(Ok(()));
        }
        let arguments = self.arguments_like.string(json)?;
        Some(self.calls.more(&self.labels, &arguments, out).map(drop))
    }

    /// Learns what a chunk looks like that was read from this JSON and came to these items.
    pub(super) fn learn(&mut self, chunk: &Chunk<'_>, json: &str, items: &[StreamItem]) {
        #[cfg(test)]
        if self.parses_all {
            return;
        }
        match items {
            [StreamItem::Event(LlmEvent::TextDelta { .. })] => {
                if let Some(delta) = self.only_delta(chunk)
                    && delta.tool_calls.as_ref().is_none_or(|calls| calls.0.is_empty())
                    && let Some(text) = delta.content.and_then(inside)
                {
                    self.text_like.learn(json, text);
                }
            }
            // Content beside them, if any, said nothing, and will say nothing again.
            [StreamItem::Progress(ToolProgress::Arguments { .. })] => {
                if let Some(delta) = self.only_delta(chunk)
                    && let Some([piece]) = delta.tool_calls.as_ref().map(|calls| &calls.0[..])
                    && let Some(arguments) = piece.function.and_then(|f| f.arguments).and_then(inside)
                {
                    self.arguments_like.learn(json, arguments);
                    self.labels = Labels::of(piece);
                }
            }
            _ => {}
        }
    }

    /// The delta of a chunk that said nothing beside it: no figure, no finish, no second answer. Details count even when
    /// nothing is heard of them: they open and close blocks.
    fn only_delta<'a, 'c>(&self, chunk: &'c Chunk<'a>) -> Option<&'c Delta<'a>> {
        let choices = chunk.choices.as_ref()?;
        let first = choices.first.as_ref()?;
        let delta = first.delta.as_ref()?;
        let is_alone = !self.finish.is_seen()
            && choices.more.is_empty()
            && chunk.usage.is_none()
            && chunk.x_groq.is_none()
            && delta.reasoning_details.is_none_or(|details| details.get() == "[]")
            && delta.function_call.is_none()
            && nonempty(delta.refusal).is_none()
            && nonempty(first.finish_reason).is_none();
        is_alone.then_some(delta)
    }
}
