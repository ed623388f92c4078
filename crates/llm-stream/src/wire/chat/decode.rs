//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{ErrorInfo, TokenUsage};

use super::{
    calls::{Calls, Labels},
    chunk::Chunk,
    reasoning::Blocks,
};
use crate::{
    FinishReason, LlmRequest, StreamItem,
    wire::{
        SseDecoder,
        events::invalid,
        finish::{Reasons, is_cut},
        head::{Head, taken_ids, truncated},
        list,
        sse_decoder::Answer,
        template::Template,
    },
};

mod alike;
mod take;

/// Decodes a streamed chat completion. A whole answer that was not streamed, or an error object, in place of the
/// stream or in the midst of it, is understood too.
///
/// Tool calls are emitted with the finish, in the order of their indexes; until then they are on the progress lane.
pub type ChatDecoder = SseDecoder<State>;

/// What came of an answer.
#[derive(Debug)]
pub struct State {
    head: Head,
    calls: Calls,
    blocks: Blocks,
    usage: Option<TokenUsage>,
    refused: bool,
    /// Whether anything of the answer came.
    said: bool,
    finish: Reasons,
    /// How the chunks of the text look, and those of a call's arguments.
    text_like: Template,
    arguments_like: Template,
    /// Of which call those arguments are.
    labels: Labels,
    /// Parses every chunk, so that tests can compare.
    #[cfg(test)]
    parses_all: bool,
    /// How many items the details and the parts of the current event have.
    listed: usize,
}

impl Answer for State {
    fn new(head: Head, request: &LlmRequest) -> Self {
        Self {
            head,
            calls: Calls::avoiding(taken_ids(request)),
            blocks: Blocks::new(&request.model),
            usage: None,
            refused: false,
            said: false,
            finish: Reasons::default(),
            text_like: Template::default(),
            arguments_like: Template::default(),
            labels: Labels::default(),
            #[cfg(test)]
            parses_all: false,
            listed: 0,
        }
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn data(
        &mut self,
        _name: &[u8],
        json: &str,
        bare: bool,
        last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if let Some(result) = self.like_before(json, out) {
            return result;
        }
        // An array would be read as the fields of a chunk in their order. Here it holds an error, as a string does.
        if json.starts_with(['[', '"']) {
            return match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) => Err(self.head.reported(json.as_bytes())),
                Err(e) => Err(invalid(&e)),
            };
        }
        match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => {
                let before = out.len();
                self.listed = 0;
                self.take(&chunk, json, bare, out)?;
                self.learn(&chunk, json, &out[before..]);
                Ok(())
            }
            Err(e) => Err(match list::too_long(&e) {
                Some(error) => error,
                // What stands bare and is no chunk holds nothing but an error.
                None if bare && !last => self.head.reported(json.as_bytes()),
                None => invalid(&e),
            }),
        }
    }

    fn done_mark(&mut self, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        self.close(out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        match self.finish.is_seen() {
            true => self.close(out),
            false => self.head.fail(truncated(), out),
        }
    }

    fn finish_seen(&self) -> bool {
        self.finish.is_seen()
    }
}

impl State {
    fn close(&mut self, out: &mut Vec<StreamItem>) {
        let has_calls = !self.calls.is_empty();
        let finish = self.finish.take();
        let reason = match finish.as_ref().map_or(FinishReason::Stop, |(reason, _)| *reason) {
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            // Calls that are there count, not the label.
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            reason => reason,
        };
        // Thoughts that were cut go back to no provider.
        if !is_cut(reason) {
            out.extend(self.blocks.seal());
        }
        match self.calls.finish(out) {
            Ok(()) => self.head.finish(reason, finish.map(|(_, raw)| raw), out),
            Err(error) => self.head.fail(error, out),
        }
    }
}

#[cfg(test)]
impl ChatDecoder {
    /// A decoder that parses every chunk.
    fn without_template() -> Self {
        let mut decoder = Self::new("p");
        decoder.answer.parses_all = true;
        decoder
    }
}

#[cfg(test)]
mod tests;
