//! The decoder.

use turnwright_core::{ErrorInfo, TokenUsage};

use super::{array::ArrayFramer, calls::Calls, chunk::Chunk, usage::Usage};
use crate::{
    FinishReason, LlmRequest, StreamItem,
    classify::Secrets,
    sse::{Frame, SseFramer},
    wire::{
        WireDecoder,
        finish::Reasons,
        head::{Head, taken_ids, truncated},
        sse_decoder::{Answer, take},
    },
};

mod take;

/// Decodes an answer of `streamGenerateContent`: server-sent events (`alt=sse`), or one JSON array where they were not
/// asked for. A whole answer that was not streamed, or an error object, in place of the stream or in the midst of it, is
/// understood too.
///
/// A call is emitted when its part is whole, so that text, signatures and calls keep their order; a call whose arguments
/// come in pieces is on the progress lane from its start on, and its arguments are when they are whole. What must go
/// back with a part (a signature, the server's id of a call), and parts that only the server can read (code it ran), are
/// in [`crate::ReasoningDelta::opaque`], under `gemini_part`. Images and files in an answer are skipped.
///
/// A prompt that was blocked is a failure of kind [`turnwright_core::ErrorKind::ContentFilter`] whose code is the reason. The format has
/// no end mark: the answer is over when the body is. Memory is bounded by the caps in [`crate::wire`] and those of the
/// framer.
#[derive(Debug)]
pub struct GeminiDecoder {
    framing: Framing,
    answer: State,
}

/// How the body is framed, which its first byte tells.
#[derive(Debug)]
enum Framing {
    Unknown,
    Events(SseFramer),
    Array(ArrayFramer),
}

#[derive(Debug)]
struct State {
    head: Head,
    calls: Calls,
    figures: Usage,
    usage: Option<TokenUsage>,
    finish: Reasons,
}

impl GeminiDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::for_request(provider, &LlmRequest::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since most
    /// servers give none.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        Self { framing: Framing::Unknown, answer: State::new(Head::new(provider.into()), request) }
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.answer.head.redact(secrets);
        self
    }
}

impl WireDecoder for GeminiDecoder {
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.answer.head.is_done() {
            return;
        }
        if matches!(self.framing, Framing::Unknown) {
            // Blank lines and a byte order mark say nothing.
            let is_blank = |b: &u8| b.is_ascii_whitespace() || matches!(b, 0xEF | 0xBB | 0xBF);
            let Some(start) = bytes.iter().position(|b| !is_blank(b)) else { return };
            bytes = &bytes[start..];
            self.framing = match bytes {
                [b'[', after @ ..] => {
                    bytes = after;
                    Framing::Array(ArrayFramer::default())
                }
                _ => Framing::Events(SseFramer::new()),
            };
        }
        let answer = &mut self.answer;
        let result = match &mut self.framing {
            Framing::Unknown => Ok(false),
            Framing::Events(framer) => {
                framer.feed(bytes, |frame| take(answer, frame, false, out)).map(|()| false)
            }
            Framing::Array(framer) => {
                framer.feed(bytes, |element| take(answer, Frame::Bare(element), false, out))
            }
        };
        match result {
            Ok(false) => {}
            Ok(true) => self.answer.end(out),
            Err(error) => self.answer.head.fail(error, out),
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.answer.head.is_done() {
            return;
        }
        let answer = &mut self.answer;
        if let Framing::Events(framer) = &mut self.framing
            && let Err(error) = framer.end(|frame| take(answer, frame, true, out))
        {
            self.answer.head.fail(error, out);
        }
        self.answer.end(out);
    }

    fn is_done(&self) -> bool {
        self.answer.head.is_done()
    }

    fn finish_seen(&self) -> bool {
        self.answer.finish.is_seen()
    }

    fn progress(&self) -> u64 {
        match &self.framing {
            Framing::Unknown => 0,
            Framing::Events(framer) => framer.progress(),
            Framing::Array(framer) => framer.progress(),
        }
    }
}

impl Answer for State {
    fn new(head: Head, request: &LlmRequest) -> Self {
        Self {
            head,
            calls: Calls::avoiding(taken_ids(request)),
            figures: Usage::default(),
            usage: None,
            finish: Reasons::default(),
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
        _last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let chunk = self.head.object::<Chunk<'_>>(json)?;
        self.take(&chunk, json, bare, out)
    }

    /// The format knows none; proxies add it.
    fn done_mark(&mut self, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        self.end(out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.head.is_done() {
            return;
        }
        let Some((reason, raw)) = self.finish.is_seen().then(|| self.finish.take()).flatten() else {
            return self.head.fail(truncated(), out);
        };
        self.calls.close(reason == FinishReason::Stop, out);
        let reason = match reason {
            // Calls that are there count, not the label.
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        };
        self.head.finish(reason, Some(raw), out);
    }

    fn finish_seen(&self) -> bool {
        self.finish.is_seen()
    }
}

#[cfg(test)]
mod tests;
