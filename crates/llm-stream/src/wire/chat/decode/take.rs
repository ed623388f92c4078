//! What the parts of a chunk mean for the answer.

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, TokenUsage};

use super::{
    super::{
        chunk::{Choice, Chunk, Delta},
        content::content_of,
        finish::{failure_reason, finish_reason},
    },
    State,
};
use crate::{
    LlmEvent, StreamItem,
    wire::{
        finish::is_cut,
        list::{MAX_LIST_ITEMS, too_long, too_many},
        text::nonempty,
        usage::usage_of,
    },
};

impl State {
    /// Takes a chunk, which was read from this JSON.
    pub(super) fn take(
        &mut self,
        chunk: &Chunk<'_>,
        json: &str,
        bare: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let head = &mut self.head;
        head.response_id = head.response_id.take().or_else(|| nonempty(chunk.id).map(Into::into));
        head.model = head.model.take().or_else(|| nonempty(chunk.model).map(Into::into));
        let groq = chunk.x_groq.as_ref().and_then(|x| x.usage);
        self.take_usage(chunk.usage.and_then(usage_of).or_else(|| groq.and_then(usage_of)), out);
        let choices = chunk.choices.iter().flat_map(|c| c.first.iter().chain(&c.more));
        let mut error = is_error(chunk.error) || says_error(chunk.object) || says_error(chunk.kind);
        error |= bare && chunk.choices.is_none();
        for choice in choices {
            error |= is_error(choice.error);
            self.choice(choice, chunk.id, error, out)?;
        }
        if error {
            return Err(self.head.reported(json.as_bytes()));
        }
        if bare && self.finish.is_seen() {
            self.close(out);
        }
        Ok(())
    }

    fn take_usage(&mut self, usage: Option<TokenUsage>, out: &mut Vec<StreamItem>) {
        if let Some(usage) = usage
            && self.usage.replace(usage) != Some(usage)
        {
            out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
        }
    }

    fn choice(
        &mut self,
        choice: &Choice<'_>,
        chunk_id: Option<&RawValue>,
        is_error: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let before = out.len();
        let mut spoke = false;
        if let Some(delta) = &choice.delta {
            spoke = self.delta(delta, out)?;
        } else if let (false, Some(message)) = (self.said, choice.message) {
            // An answer that was not streamed. After deltas it only repeats them.
            match serde_json::from_str::<Delta<'_>>(message.get()) {
                Ok(message) => spoke = self.delta(&message, out)?,
                Err(error) => too_long(&error).map_or(Ok(()), Err)?,
            }
        }
        if spoke || out.len() > before {
            self.said = true;
            // Nothing of a second answer is shown.
            self.finish.reopen(chunk_id).inspect_err(|_| out.truncate(before))?;
        }
        if let (Some(raw), false) = (nonempty(choice.finish_reason), is_error) {
            if let (Some(error), false) = (failure_reason(&raw), self.finish.is_seen()) {
                return Err(error.provider(self.head.provider()).code(raw));
            }
            let reason = match (finish_reason(&raw), nonempty(choice.native_finish_reason)) {
                // A router's word may hide that the answer was cut; the upstream's does not.
                (reason, Some(native)) if !is_cut(reason) && is_cut(finish_reason(&native)) => {
                    finish_reason(&native)
                }
                (reason, _) => reason,
            };
            self.finish.note(reason, &raw, chunk_id);
        }
        Ok(())
    }

    /// Emits what a delta says. Returns whether it said anything that is not among the items yet.
    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<StreamItem>) -> Result<bool, ErrorInfo> {
        if delta.reasoning_details.is_some() || delta.reasoning_content.is_some() || delta.reasoning.is_some()
        {
            self.listed += self.blocks.delta(delta, out)?;
        }
        if let Some(content) = delta.content {
            let before = out.len();
            self.listed += content_of(content, out)?;
            if let (true, Some(details)) = (out[before..].iter().any(is_text), self.blocks.seal()) {
                // While the block is the last part: what comes after text would be a block of its own.
                out.insert(before, details);
            }
        }
        if self.listed > MAX_LIST_ITEMS {
            return Err(too_many());
        }
        if let Some(text) = nonempty(delta.refusal) {
            self.refused = true;
            out.push(LlmEvent::text(text).into());
        }
        let mut spoke = false;
        for piece in delta.tool_calls.iter().flat_map(|calls| &calls.0) {
            spoke |= self.calls.piece(piece, out)?;
        }
        if let Some(function) = delta.function_call {
            spoke |= self.calls.legacy(function, out)?;
        }
        Ok(spoke)
    }
}

fn is_text(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Event(LlmEvent::TextDelta { .. }))
}

fn is_error(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\""))
}

fn says_error(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "\"error\"")
}
