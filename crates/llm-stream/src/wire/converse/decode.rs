//! The decoder.

use turnwright_core::{ErrorInfo, ErrorKind, TokenUsage};

use super::{
    bare::Bare,
    blocks::Blocks,
    event::{BlockDelta, BlockStart, MessageStop, Metadata, finish_reason, read},
    failure,
    thought::Thoughts,
    usage::usage_of,
};
use crate::{
    FinishReason, LlmEvent, LlmRequest, StreamItem,
    classify::Secrets,
    wire::{
        WireDecoder,
        eventstream::{EventStreamFramer, Message},
        finish::{Reasons, is_cut},
        head::{Head, taken_ids},
        text::nonempty,
    },
};

/// Decodes the answer to a ConverseStream request. An error in JSON or HTML in place of the stream is understood too.
///
/// A tool call is emitted when a part follows it, else with the finish; until then it is on the progress lane. The
/// answer is over with the `metadata` event, which follows `messageStop`. Calls of tools that the provider runs itself,
/// and their results, are skipped.
///
/// The format names neither the model nor the answer: [`crate::Finish::model`] and [`crate::Finish::response_id`] are empty.
#[derive(Debug)]
pub struct ConverseDecoder {
    framer: EventStreamFramer,
    /// What came instead of a stream.
    bare: Option<Bare>,
    state: State,
}

#[derive(Debug)]
struct State {
    head: Head,
    blocks: Blocks,
    thoughts: Thoughts,
    usage: Option<TokenUsage>,
    /// A `messageStart` came.
    started: bool,
    /// Anything of the answer came.
    said: bool,
    finish: Reasons,
    /// The `metadata` came.
    billed: bool,
}

impl ConverseDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::for_request(provider, &LlmRequest::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let state = State {
            head: Head::new(provider.into()),
            blocks: Blocks::avoiding(taken_ids(request)),
            thoughts: Thoughts::default(),
            usage: None,
            started: false,
            said: false,
            finish: Reasons::default(),
            billed: false,
        };
        Self { framer: EventStreamFramer::new(), bare: None, state }
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.state.head.redact(secrets);
        self
    }
}

impl WireDecoder for ConverseDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        let Some(first) = bytes.first().filter(|_| !self.state.head.is_done()) else { return };
        // No message is so long that its first byte is one of these.
        let is_text = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'[' | b'<');
        if self.bare.is_none() && self.framer.progress() == 0 && is_text(first) {
            self.bare = Some(Bare::default());
        }
        let state = &mut self.state;
        if let Some(bare) = &mut self.bare {
            match bare.push(bytes) {
                Ok(false) => {}
                Ok(true) => state.head.fail(state.head.reported(&bare.body), out),
                Err(error) => state.head.fail(error, out),
            }
        } else if let Err(error) = self.framer.feed(bytes, |message| state.message(&message, out)) {
            state.head.fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        let state = &mut self.state;
        if state.head.is_done() {
            return;
        }
        match &self.bare {
            Some(bare) if !bare.body.trim_ascii().is_empty() => {
                state.head.fail(state.head.reported(&bare.body), out);
            }
            // Only the bill may be missing.
            None if state.finish.is_seen() => state.close(out),
            _ => {
                let place = if self.framer.is_inside() { " inside a message" } else { "" };
                let message = format!("the stream ended{place} before the answer was finished");
                state.head.fail(ErrorInfo::new(ErrorKind::Truncated, message), out);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.state.head.is_done()
    }

    fn finish_seen(&self) -> bool {
        self.state.finish.is_seen()
    }

    fn progress(&self) -> u64 {
        self.framer.progress() + self.bare.as_ref().map_or(0, |bare| bare.body.len() as u64)
    }
}

impl State {
    fn message(&mut self, message: &Message<'_>, out: &mut Vec<StreamItem>) {
        if self.head.is_done() {
            return;
        }
        if let Some(body) = failure::of_message(message) {
            return self.head.fail(self.head.reported(&body), out);
        }
        let result = match message.text(":event-type") {
            Some(event) => self.event(event, message.payload(), out),
            None => Ok(()),
        };
        if let Err(error) = result {
            self.head.fail(error, out);
        }
    }

    /// Takes an event. Those that this version does not know are skipped unread.
    fn event(&mut self, event: &str, payload: &[u8], out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        match event {
            "contentBlockDelta" => self.delta(&read(payload)?, out),
            "contentBlockStart" => self.block_start(&read(payload)?, out),
            "contentBlockStop" => {
                let index = read::<BlockStart<'_>>(payload)?.content_block_index.0.unwrap_or(0);
                self.thoughts.stop(index, out);
                self.blocks.stop(index);
                Ok(())
            }
            "messageStart" => self.message_start(),
            "messageStop" => {
                let reason = nonempty(read::<MessageStop<'_>>(payload)?.stop_reason);
                // Without a reason it still says that the answer is whole.
                self.finish.note(
                    reason.as_deref().map_or(FinishReason::Stop, finish_reason),
                    &reason.unwrap_or_default(),
                    None,
                );
                if self.billed {
                    self.close(out);
                }
                Ok(())
            }
            "metadata" => {
                let usage = read::<Metadata<'_>>(payload)?.usage.and_then(usage_of);
                if let Some(usage) = usage
                    && self.usage.replace(usage) != Some(usage)
                {
                    out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
                }
                self.billed = true;
                if self.finish.is_seen() {
                    self.close(out);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn message_start(&mut self) -> Result<(), ErrorInfo> {
        if self.finish.is_seen() || (std::mem::replace(&mut self.started, true) && self.said) {
            let message = "a second answer began in the same stream";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        }
        Ok(())
    }

    fn block_start(&mut self, event: &BlockStart<'_>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        let Some(start) = &event.start else { return Ok(()) };
        let index = event.content_block_index.0.unwrap_or(0);
        if start.tool_use.is_some() {
            self.thoughts.leave(out);
        }
        if self.blocks.start(index, start.tool_use.as_ref(), out)? {
            self.goes_on()?;
        }
        Ok(())
    }

    fn delta(&mut self, event: &BlockDelta<'_>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        let Some(delta) = &event.delta else { return Ok(()) };
        let index = event.content_block_index.0.unwrap_or(0);
        if let Some(text) = nonempty(delta.text) {
            self.thoughts.leave(out);
            self.blocks.emit_ended(out);
            out.push(LlmEvent::text(text).into());
            self.goes_on()?;
        }
        if let Some(thought) = &delta.reasoning_content {
            self.blocks.emit_ended(out);
            if self.thoughts.delta(index, thought, out)? {
                self.goes_on()?;
            }
        }
        if let Some(tool) = &delta.tool_use
            && self.blocks.delta(index, tool, out)?
        {
            self.goes_on()?;
        }
        Ok(())
    }

    /// Called when content came: an answer that was finished is not.
    fn goes_on(&mut self) -> Result<(), ErrorInfo> {
        self.said = true;
        self.finish.reopen(None)
    }

    fn close(&mut self, out: &mut Vec<StreamItem>) {
        let finish = self.finish.take();
        let reason = match finish.as_ref().map_or(FinishReason::Stop, |(reason, _)| *reason) {
            // Cut, though nobody says so.
            FinishReason::Stop if self.blocks.has_cut_call() => FinishReason::Length,
            // Calls that are there count, not the label.
            FinishReason::Stop if self.blocks.has_calls() => FinishReason::ToolCalls,
            reason => reason,
        };
        // Thoughts that were cut go back to no provider.
        if !is_cut(reason) {
            self.thoughts.end(out);
        }
        self.blocks.finish(out);
        let raw_reason = finish.map(|(_, raw)| raw).filter(|raw| !raw.is_empty());
        self.head.finish(reason, raw_reason, out);
    }
}

#[cfg(test)]
mod tests;
