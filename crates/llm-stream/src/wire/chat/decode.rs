//! The decoder.

use turnwright_core::{CallId, ErrorInfo, ErrorKind, TokenUsage};

use super::{
    calls::Calls,
    chunk::{Choice, Chunk, Delta},
    content::content_of,
    finish::{failure_reason, finish_reason},
    reasoning::Blocks,
    template::Template,
    text::nonempty,
    usage::usage_of,
};
use crate::{
    Finish, FinishReason, LlmEvent, LlmRequest, StreamItem, classify,
    sse::{Frame, SseFramer},
    wire::WireDecoder,
};
use serde_json::value::RawValue;

/// Decodes a streamed chat completion. A whole answer that was not streamed, or an error object, in place of the
/// stream or in the midst of it, is understood too.
///
/// Tool calls are emitted with the finish, in the order of their indexes; until then they are on the progress lane.
#[derive(Debug)]
pub struct ChatDecoder {
    framer: SseFramer,
    state: State,
}

#[derive(Debug)]
struct State {
    provider: String,
    response_id: Option<String>,
    model: Option<String>,
    calls: Calls,
    blocks: Blocks,
    usage: Option<TokenUsage>,
    refused: bool,
    finish: Option<Finished>,
    template: Template,
    done: bool,
}

/// A finish reason that was seen.
#[derive(Debug)]
struct Finished {
    reason: FinishReason,
    raw: String,
    /// The id of the chunk it came on.
    chunk_id: Option<String>,
}

impl ChatDecoder {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::with_calls(provider.into(), Calls::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since some
    /// servers count from one in each answer.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        let ids = request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id));
        Self::with_calls(provider.into(), Calls::avoiding(ids.collect()))
    }

    fn with_calls(provider: String, calls: Calls) -> Self {
        let state = State {
            provider,
            response_id: None,
            model: None,
            calls,
            blocks: Blocks::default(),
            usage: None,
            refused: false,
            finish: None,
            template: Template::default(),
            done: false,
        };
        Self { framer: SseFramer::new(), state }
    }
}

impl WireDecoder for ChatDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.feed(bytes, |frame| state.frame(frame, false, out)) {
            self.state.fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        if self.state.done {
            return;
        }
        let state = &mut self.state;
        if let Err(error) = self.framer.end(|frame| state.frame(frame, true, out)) {
            self.state.fail(error, out);
        }
        if self.state.done {
            // What was left ended it.
        } else if self.state.finish.is_some() {
            self.state.close(out);
        } else {
            let message = "the stream ended before the answer was finished";
            self.state.fail(ErrorInfo::new(ErrorKind::Truncated, message), out);
        }
    }

    fn is_done(&self) -> bool {
        self.state.done
    }

    fn finish_seen(&self) -> bool {
        self.state.finish.is_some()
    }

    fn progress(&self) -> u64 {
        self.framer.progress()
    }
}

impl State {
    /// Takes a frame. `last` says that the input ended in it, so that it may be cut.
    fn frame(&mut self, frame: Frame<'_>, last: bool, out: &mut Vec<StreamItem>) {
        if self.done {
            return;
        }
        match frame {
            Frame::Event { name: b"error", data } => {
                self.fail(classify::in_stream(&self.provider, data), out);
            }
            Frame::Event { data, .. } => match data.trim_ascii() {
                [] => {}
                data if is_done_mark(data) => self.close(out),
                data => self.chunk(data, false, last, out),
            },
            Frame::Bare(markup @ [b'<', ..]) => self.fail(classify::in_stream(&self.provider, markup), out),
            Frame::Bare(json) => self.chunk(json, true, last, out),
        }
    }

    fn chunk(&mut self, data: &[u8], bare: bool, last: bool, out: &mut Vec<StreamItem>) {
        let result = match std::str::from_utf8(data) {
            Ok(json) => self.json(json, bare, last, out),
            Err(_) => Err(broken("is not valid UTF-8")),
        };
        match result {
            Ok(()) => {}
            // The event was cut: the end of the stream says the rest.
            Err(error) if last && error.kind == ErrorKind::Decode => {}
            Err(error) => self.fail(error, out),
        }
    }

    fn json(
        &mut self,
        json: &str,
        bare: bool,
        last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if self.finish.is_none()
            && let Some(text) = self.template.text(json)
        {
            if !text.is_empty() {
                out.push(LlmEvent::text(text).into());
            }
            return Ok(());
        }
        match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => {
                let before = out.len();
                self.take(&chunk, json, bare, out)?;
                if let [StreamItem::Event(LlmEvent::TextDelta { .. })] = out[before..]
                    && let Some(text) = self.only_text(&chunk)
                {
                    self.template.learn(json, text);
                }
                Ok(())
            }
            // An array holds nothing but an error here.
            Err(_) if bare && !last => Err(classify::in_stream(&self.provider, json.as_bytes())),
            Err(e) => Err(broken(&format!("is not valid JSON, at column {}", e.column()))),
        }
    }

    /// The inside of the string that is all a chunk said, if text is all it said: no figure, no call, no finish.
    fn only_text<'a>(&self, chunk: &Chunk<'a>) -> Option<&'a str> {
        let first = chunk.choices.as_ref()?.first.as_ref()?;
        let delta = first.delta.as_ref()?;
        let is_bare_text = self.finish.is_none()
            && chunk.usage.is_none()
            && chunk.x_groq.is_none()
            && delta.tool_calls.as_ref().is_none_or(Vec::is_empty)
            && delta.function_call.is_none()
            && nonempty(delta.refusal).is_none()
            && nonempty(first.finish_reason).is_none();
        let content = delta.content.filter(|_| is_bare_text)?.get();
        content.strip_prefix('"')?.strip_suffix('"')
    }

    fn take(
        &mut self,
        chunk: &Chunk<'_>,
        json: &str,
        bare: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        self.response_id = self.response_id.take().or_else(|| nonempty(chunk.id).map(Into::into));
        self.model = self.model.take().or_else(|| nonempty(chunk.model).map(Into::into));
        let groq = chunk.x_groq.as_ref().and_then(|x| x.usage);
        self.take_usage(chunk.usage.and_then(usage_of).or_else(|| groq.and_then(usage_of)), out);
        let choices = chunk.choices.iter().flat_map(|c| c.first.iter().chain(&c.more));
        let mut error = is_error(chunk.error) || says_error(chunk.object) || says_error(chunk.kind);
        error |= bare && chunk.choices.is_none();
        for choice in choices {
            error |= is_error(choice.error);
            self.choice(choice, chunk.id, bare, error, out)?;
        }
        if error {
            return Err(classify::in_stream(&self.provider, json.as_bytes()));
        }
        if bare && self.finish.is_some() {
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
        bare: bool,
        is_error: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let before = out.len();
        let mut spoke = false;
        if let Some(delta) = &choice.delta {
            spoke = self.delta(delta, out)?;
        } else if let (true, Some(message)) = (bare, choice.message)
            && let Ok(message) = serde_json::from_str::<Delta<'_>>(message.get())
        {
            spoke = self.delta(&message, out)?;
        }
        if spoke || out.len() > before {
            // Nothing of a second answer is shown.
            self.reopen(chunk_id).inspect_err(|_| out.truncate(before))?;
        }
        if let (Some(raw), None, false) = (nonempty(choice.finish_reason), &self.finish, is_error) {
            let chunk_id = nonempty(chunk_id).map(Into::into);
            let reason = match (finish_reason(&raw), nonempty(choice.native_finish_reason)) {
                // A router's word may hide that the output limit cut a call; the upstream's does not.
                (_, Some(native)) if finish_reason(&native) == FinishReason::Length => FinishReason::Length,
                (reason, _) => reason,
            };
            if let Some(error) = failure_reason(&raw) {
                return Err(error.provider(self.provider.as_str()).code(raw));
            }
            self.finish = Some(Finished { reason, raw: raw.into(), chunk_id });
        }
        Ok(())
    }

    /// Called when content came: an answer that was finished is not, unless the content is of another answer.
    fn reopen(&mut self, chunk_id: Option<&RawValue>) -> Result<(), ErrorInfo> {
        let Some(finish) = self.finish.take() else { return Ok(()) };
        match (finish.chunk_id, nonempty(chunk_id)) {
            (Some(finished), Some(id)) if finished != id => {
                let message = "a second answer began in the same stream";
                Err(ErrorInfo::new(ErrorKind::Protocol, message))
            }
            _ => Ok(()),
        }
    }

    /// Emits what a delta says. Returns whether it said anything that is not among the items yet.
    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<StreamItem>) -> Result<bool, ErrorInfo> {
        if delta.reasoning_details.is_some() || delta.reasoning_content.is_some() || delta.reasoning.is_some()
        {
            self.blocks.delta(delta, out);
        }
        if let Some(content) = delta.content {
            content_of(content, out);
        }
        if let Some(text) = nonempty(delta.refusal) {
            self.refused = true;
            out.push(LlmEvent::text(text).into());
        }
        let mut spoke = false;
        for piece in delta.tool_calls.iter().flatten() {
            spoke |= self.calls.piece(piece, out)?;
        }
        if let Some(function) = delta.function_call {
            spoke |= self.calls.legacy(function, out)?;
        }
        Ok(spoke)
    }

    fn close(&mut self, out: &mut Vec<StreamItem>) {
        let has_calls = !self.calls.is_empty();
        if let Err(error) = self.calls.finish(out) {
            return self.fail(error, out);
        }
        let finish = self.finish.take();
        let reason = match finish.as_ref().map_or(FinishReason::Stop, |f| f.reason) {
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            // Calls that are there count, not the label.
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            reason => reason,
        };
        self.done = true;
        let finish = Finish {
            reason,
            raw_reason: finish.map(|f| f.raw),
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

fn is_error(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\""))
}

fn says_error(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "\"error\"")
}

/// `[DONE]`, with any spacing.
fn is_done_mark(data: &[u8]) -> bool {
    let inner = data.strip_prefix(b"[").and_then(|d| d.strip_suffix(b"]"));
    inner.is_some_and(|inner| inner.trim_ascii() == b"DONE")
}

fn broken(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Decode, format!("an event of the stream {what}"))
}

#[cfg(test)]
mod tests;
