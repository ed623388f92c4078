//! What the parts of a chunk mean for the answer.

use serde_json::{json, value::RawValue};
use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice};

use super::{
    super::{
        chunk::{Candidate, Chunk, Feedback, FunctionCall},
        finish::finish_reason,
        kept::Kept,
        part::PartChunk,
    },
    State,
};
use crate::{
    LlmEvent, StreamItem,
    wire::{list::too_long, text::nonempty},
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
        head.response_id = head.response_id.take().or_else(|| nonempty(chunk.response_id).map(Into::into));
        head.model = head.model.take().or_else(|| nonempty(chunk.model_version).map(Into::into));
        if let Some(usage) = chunk.usage_metadata.0.and_then(|usage| self.figures.merge(usage))
            && self.usage.replace(usage) != Some(usage)
        {
            out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
        }
        for candidate in chunk.candidates.iter().flat_map(|c| c.first.iter().chain(&c.more)) {
            self.candidate(candidate, chunk.response_id, out)?;
        }
        let is_error = chunk.error.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\""));
        // What stands bare and says nothing of an answer holds nothing but an error.
        let says_nothing = chunk.candidates.is_none()
            && chunk.prompt_feedback.is_none()
            && chunk.usage_metadata.0.is_none()
            && chunk.response_id.is_none();
        if is_error || (bare && says_nothing) {
            return Err(self.head.reported(json.as_bytes()));
        }
        chunk.prompt_feedback.and_then(|raw| self.blocked(raw)).map_or(Ok(()), Err)
    }

    /// The failure of a prompt that was blocked. The format then has neither candidates nor a finish reason.
    fn blocked(&self, raw: &RawValue) -> Option<ErrorInfo> {
        let feedback: Feedback<'_> = serde_json::from_str(raw.get()).ok()?;
        let reason = nonempty(feedback.block_reason).filter(|reason| !reason.ends_with("_UNSPECIFIED"))?;
        let message = match nonempty(feedback.block_reason_message) {
            Some(message) => format!("the prompt was blocked: {message}"),
            None => "the prompt was blocked".to_owned(),
        };
        // Through the classifier, which caps and cleans the words.
        let error = json!({ "error": { "message": message, "code": reason } });
        let mut error = self.head.reported(error.to_string().as_bytes());
        (error.kind, error.retry) = (ErrorKind::ContentFilter, RetryAdvice::Never);
        Some(error)
    }

    fn candidate(
        &mut self,
        candidate: &Candidate<'_>,
        response_id: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let before = out.len();
        // A signature alone, which may come after the finish, is no content.
        let mut spoke = false;
        for part in candidate.parts() {
            spoke |= self.part(part, out)?;
        }
        if spoke {
            // Nothing of a second answer is shown.
            self.finish.reopen(response_id).inspect_err(|_| out.truncate(before))?;
        }
        if let Some(raw) = nonempty(candidate.finish_reason)
            && let Some(reason) = finish_reason(&raw)
        {
            self.finish.note(reason, &raw, response_id);
        }
        Ok(())
    }

    /// Takes a part. Returns whether it said anything.
    fn part(&mut self, part: &PartChunk<'_>, out: &mut Vec<StreamItem>) -> Result<bool, ErrorInfo> {
        let signature = nonempty(part.thought_signature);
        if let Some(function) = part.function_call {
            return match serde_json::from_str::<FunctionCall<'_>>(function.get()) {
                Ok(function) => self.calls.piece(&function, signature.as_deref(), out),
                Err(error) => Err(too_long(&error).unwrap_or_else(odd_call)),
            };
        }
        if part.inline_data.or(part.file_data).is_some() {
            return Ok(false);
        }
        let is_thought = part.thought.is_some_and(|raw| raw.get() == "true");
        match nonempty(part.text) {
            Some(text) if is_thought => thought(text.into_owned(), signature.as_deref(), out),
            Some(text) => {
                let bytes = text.len();
                out.push(LlmEvent::text(text).into());
                signed(bytes, signature.as_deref(), out);
            }
            None => {
                match (part.text, is_thought) {
                    (_, true) => thought(String::new(), signature.as_deref(), out),
                    (Some(_), _) => signed(0, signature.as_deref(), out),
                    (None, _) => match part.unknown() {
                        // Such as code that the server ran: only it can read it again.
                        Some(whole) => {
                            out.push(Kept::Part(&whole).delta(String::new()));
                            return Ok(true);
                        }
                        None => signed(0, signature.as_deref(), out),
                    },
                }
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn thought(text: String, signature: Option<&str>, out: &mut Vec<StreamItem>) {
    match signature {
        Some(signature) => out.push(Kept::Thought { bytes: text.len(), signature }.delta(text)),
        None if text.is_empty() => {}
        None => out.push(LlmEvent::reasoning(text).into()),
    }
}

/// Keeps the signature of so many bytes of text.
fn signed(bytes: usize, signature: Option<&str>, out: &mut Vec<StreamItem>) {
    out.extend(signature.map(|signature| Kept::Text { bytes, signature }.delta(String::new())));
}

fn odd_call() -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Protocol, "a tool call has a shape that is not known")
}
