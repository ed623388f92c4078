//! The decoder.

use serde::de::IgnoredAny;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, TokenUsage};

use super::{array::ArrayFramer, calls::Calls, chunk::Chunk, usage::Usage};
use crate::{
    Finish, FinishReason, LlmEvent, LlmRequest, StreamItem,
    classify::{self, Secrets},
    sse::{Frame, SseFramer},
    wire::{
        WireDecoder,
        events::{broken, invalid, is_done_mark},
        finish::Reasons,
        list,
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
/// A prompt that was blocked is a failure of kind [`ErrorKind::ContentFilter`] whose code is the reason. The format has
/// no end mark: the answer is over when the body is. Memory is bounded by the caps in [`crate::wire`] and those of the
/// framer.
#[derive(Debug)]
pub struct GeminiDecoder {
    framing: Framing,
    state: State,
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
    provider: String,
    response_id: Option<String>,
    model: Option<String>,
    calls: Calls,
    figures: Usage,
    usage: Option<TokenUsage>,
    finish: Reasons,
    secrets: Secrets,
    done: bool,
}

impl GeminiDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::with_calls(provider.into(), Calls::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since most
    /// servers give none.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let ids = request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id));
        Self::with_calls(provider.into(), Calls::avoiding(ids.collect()))
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.state.secrets = secrets;
        self
    }

    fn with_calls(provider: String, calls: Calls) -> Self {
        let state = State {
            provider,
            response_id: None,
            model: None,
            calls,
            figures: Usage::default(),
            usage: None,
            finish: Reasons::default(),
            secrets: Secrets::default(),
            done: false,
        };
        Self { framing: Framing::Unknown, state }
    }
}

impl WireDecoder for GeminiDecoder {
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.state.done {
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
        let state = &mut self.state;
        let result = match &mut self.framing {
            Framing::Unknown => Ok(false),
            Framing::Events(framer) => {
                framer.feed(bytes, |frame| state.frame(frame, false, out)).map(|()| false)
            }
            Framing::Array(framer) => framer.feed(bytes, |element| state.chunk(element, true, false, out)),
        };
        match result {
            Ok(false) => {}
            Ok(true) => self.state.end(out),
            Err(error) => self.state.fail(error, out),
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Framing::Events(framer) = &mut self.framing
            && let Err(error) = framer.end(|frame| state.frame(frame, true, out))
        {
            self.state.fail(error, out);
        }
        self.state.end(out);
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    fn finish_seen(&self) -> bool {
        self.state.finish.is_seen()
    }

    fn progress(&self) -> u64 {
        match &self.framing {
            Framing::Unknown => 0,
            Framing::Events(framer) => framer.progress(),
            Framing::Array(framer) => framer.progress(),
        }
    }
}

impl State {
    /// Takes a frame. `last` says that the input ended in it, so that it may be cut.
    fn frame(&mut self, frame: Frame<'_>, last: bool, out: &mut Vec<StreamItem>) {
        match frame {
            Frame::Event { name: b"error", data } => self.fail(self.reported(data), out),
            Frame::Event { data, .. } => match data.trim_ascii() {
                [] => {}
                // The format knows none; proxies add it.
                data if is_done_mark(data) => self.end(out),
                data => self.chunk(data, false, last, out),
            },
            Frame::Bare(markup @ [b'<', ..]) => self.fail(self.reported(markup), out),
            Frame::Bare(json) => self.chunk(json, true, last, out),
        }
    }

    fn chunk(&mut self, data: &[u8], bare: bool, last: bool, out: &mut Vec<StreamItem>) {
        if self.done {
            return;
        }
        match self.json(data, bare, out) {
            Ok(()) => {}
            // The chunk was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.fail(error, out),
        }
    }

    fn json(&mut self, data: &[u8], bare: bool, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        let json = std::str::from_utf8(data).map_err(|_| broken("is not valid UTF-8"))?;
        // An array would be read as the fields of a chunk in their order. Here it holds an error, as a string does.
        if !json.starts_with('{') {
            return match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) if json.starts_with(['[', '"']) => Err(self.reported(data)),
                Ok(_) => Err(broken("is no JSON object")),
                Err(e) => Err(invalid(&e)),
            };
        }
        let chunk = serde_json::from_str::<Chunk<'_>>(json)
            .map_err(|e| list::too_long(&e).unwrap_or_else(|| invalid(&e)))?;
        self.take(&chunk, json, bare, out)
    }

    /// The error that this data reports.
    fn reported(&self, data: &[u8]) -> ErrorInfo {
        classify::in_stream(&self.provider, data, &self.secrets)
    }

    /// Ends the answer with what is known of it.
    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.done {
            return;
        }
        let Some((reason, raw)) = self.finish.is_seen().then(|| self.finish.take()).flatten() else {
            let message = "the stream ended before the answer was finished";
            return self.fail(ErrorInfo::new(ErrorKind::Truncated, message), out);
        };
        self.calls.close(reason == FinishReason::Stop, out);
        let reason = match reason {
            // Calls that are there count, not the label.
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        };
        self.done = true;
        let finish = Finish {
            reason,
            raw_reason: Some(raw),
            model: self.model.take(),
            response_id: self.response_id.take(),
        };
        out.push(LlmEvent::Finish(Box::new(finish)).into());
    }

    fn fail(&mut self, error: ErrorInfo, out: &mut Vec<StreamItem>) {
        if !std::mem::replace(&mut self.done, true) {
            let error = if error.provider.is_some() { error } else { error.provider(self.provider.as_str()) };
            out.push(LlmEvent::failure(error).into());
        }
    }
}

#[cfg(test)]
mod tests;
