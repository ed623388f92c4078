//! What a line means for the answer.

use serde_json::{Map, Value, json, value::RawValue};
use turnwright_core::{ErrorInfo, ErrorKind, TokenUsage, ToolCall};

use super::{
    super::{
        THINKING,
        line::{Call, Line, Message},
    },
    State,
};
use crate::{
    FinishReason, LlmEvent, ReasoningDelta, StreamItem, ToolProgress,
    wire::{
        finish::is_cut,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        text::{nonempty, text_of},
    },
};

impl State {
    /// Takes a line, which was read from this JSON.
    pub(super) fn take(
        &mut self,
        line: &Line<'_>,
        json: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let message = line.message.0.as_ref();
        let is_answer = message.is_some() || line.response.is_some() || line.done.is_some();
        let is_error = line.error.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\""));
        // What comes first and is nothing of an answer holds nothing but an error.
        if is_error || !(is_answer || self.began) {
            return Err(self.head.reported(json.as_bytes()));
        }
        if !is_answer && let Some(error) = misnamed_error(json) {
            return Err(self.head.reported(error.to_string().as_bytes()));
        }
        self.began = true;
        self.head.model = self.head.model.take().or_else(|| nonempty(line.model).map(Into::into));
        self.thought(line.thinking, out);
        self.said(line.response, out);
        if let Some(message) = message {
            self.message(message, out)?;
        }
        self.usage(line, out);
        if line.done.is_some_and(|raw| raw.get() == "true") {
            self.close(nonempty(line.done_reason).map(Into::into), out);
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        self.thought(message.thinking, out);
        self.said(message.content, out);
        for raw in &message.tool_calls.0 {
            self.call(raw, out)?;
        }
        Ok(())
    }

    fn thought(&mut self, raw: Option<&RawValue>, out: &mut Vec<StreamItem>) {
        if let Some(text) = nonempty(raw) {
            self.thinking = true;
            out.push(LlmEvent::reasoning(text).into());
        }
    }

    fn said(&mut self, raw: Option<&RawValue>, out: &mut Vec<StreamItem>) {
        if let Some(text) = nonempty(raw) {
            self.seal(out);
            out.push(LlmEvent::text(text).into());
        }
    }

    /// Marks thoughts that are whole.
    fn seal(&mut self, out: &mut Vec<StreamItem>) {
        if std::mem::take(&mut self.thinking) {
            let opaque = Map::from_iter([(THINKING.to_owned(), true.into())]);
            let delta = ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) };
            out.push(LlmEvent::ReasoningDelta(delta).into());
        }
    }

    fn call(&mut self, raw: &RawValue, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        // No call, as a placeholder.
        if matches!(raw.get(), "null") {
            return Ok(());
        }
        let call = raw.get().starts_with('{').then(|| serde_json::from_str::<Call<'_>>(raw.get()).ok());
        let function = call.flatten().and_then(|call| Some((call.id, call.function?)));
        let Some((id, function)) = function else {
            let message = "a tool call has a shape that is not known";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        };
        let Some(name) = nonempty(function.name) else {
            return Err(ErrorInfo::new(ErrorKind::Protocol, "a tool call has no name"));
        };
        let id = nonempty(id);
        if name.len().max(id.as_ref().map_or(0, |id| id.len())) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        if self.calls == MAX_CALLS {
            return Err(too_large("the list of tool calls"));
        }
        self.calls += 1;
        let arguments = arguments_of(function.arguments);
        self.argument_bytes += arguments.len();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        self.seal(out);
        let id = match id {
            Some(id) => self.ids.unique(&id),
            None => self.ids.unique(&format!("call_{}", self.calls)),
        };
        let name = name.into_owned();
        out.push(StreamItem::Progress(ToolProgress::Started { id: id.clone(), name: name.clone() }));
        if !arguments.is_empty() {
            let fragment = arguments.clone();
            out.push(StreamItem::Progress(ToolProgress::Arguments { id: id.clone(), fragment }));
        }
        out.push(LlmEvent::ToolCallComplete(Box::new(ToolCall::new(id, name, arguments))).into());
        Ok(())
    }

    fn usage(&mut self, line: &Line<'_>, out: &mut Vec<StreamItem>) {
        let usage = TokenUsage {
            input_tokens: line.prompt_eval_count.0,
            output_tokens: line.eval_count.0,
            ..TokenUsage::UNKNOWN
        };
        if !usage.is_unknown() && self.usage.replace(usage) != Some(usage) {
            out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
        }
    }

    fn close(&mut self, raw_reason: Option<String>, out: &mut Vec<StreamItem>) {
        let reason = match raw_reason.as_deref() {
            // Calls that are there count, not the label. Older servers give no reason, others the words of other formats.
            None | Some("stop" | "tool_calls") if self.calls > 0 => FinishReason::ToolCalls,
            None | Some("stop" | "tool_calls") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            Some(_) => FinishReason::Other,
        };
        // Thoughts that were cut go back to no provider.
        if !is_cut(reason) {
            self.seal(out);
        }
        self.head.finish(reason, raw_reason, out);
    }
}

/// The error in a line whose only field is named after it, such as `error parsing tool call`: so one version of the server
/// says that it could not read the model's call.
fn misnamed_error(json: &str) -> Option<Value> {
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    let (name, words) = fields.into_iter().next()?;
    name.starts_with("error ")
        .then(|| json!({ "error": format!("{name}: {}", words.as_str().unwrap_or_default()) }))
}

/// Arguments are an object; some servers make a string of it. No arguments may be left out.
fn arguments_of(raw: Option<&RawValue>) -> String {
    match raw {
        None => "{}".to_owned(),
        Some(raw) => match text_of(raw) {
            Some(text) => text.into_owned(),
            None if raw.get() == "null" => "{}".to_owned(),
            None => raw.get().to_owned(),
        },
    }
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
