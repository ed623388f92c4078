//! What an event means for the answer.

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::{
    super::event::{Event, RawMessage},
    State,
};
use crate::{
    FinishReason, LlmEvent, StreamItem,
    wire::{
        events::{is_set, object},
        list::items_of,
        text::nonempty,
    },
};

impl State {
    /// Takes an event, which was read from this JSON.
    pub(super) fn take(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        json: &str,
        bare: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        match kind {
            "content_block_delta" => self.block_delta(event, json, out),
            "content_block_start" => self.block_start(event.index.0, event.content_block, out),
            "content_block_stop" => {
                self.block_stop(event.index.0, out);
                Ok(())
            }
            "message_start" => self.message_start(event.message, out),
            "message_delta" => {
                self.describe(&event.delta.0.unwrap_or_default().message(), out);
                self.count(event.usage, out);
                Ok(())
            }
            "message_stop" => {
                self.close(out);
                Ok(())
            }
            "ping" => Ok(()),
            "error" => Err(self.head.reported(json.as_bytes())),
            // An answer that was not streamed.
            "message" => {
                self.message(&serde_json::from_str(json).unwrap_or_default(), out)?;
                self.close(out);
                Ok(())
            }
            _ if is_set(event.error) => Err(self.head.reported(json.as_bytes())),
            // What stands bare and is no answer holds nothing but an error.
            _ if bare => Err(self.head.reported(json.as_bytes())),
            _ => Ok(()),
        }
    }

    fn message_start(
        &mut self,
        message: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let message: RawMessage<'_> = object(message).unwrap_or_default();
        // A server may say twice that the answer begins, but not that another one does.
        let known = self.head.response_id.as_deref();
        let is_other = known.zip(nonempty(message.id)).is_some_and(|(known, id)| known != id);
        if std::mem::replace(&mut self.started, true) && (self.said || is_other) {
            let message = "a second answer began in the same stream";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        }
        self.message(&message, out)
    }

    /// Takes an answer as far as it is there: its head, or all of it.
    fn message(&mut self, message: &RawMessage<'_>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        if let Some(model) = nonempty(message.model) {
            self.blocks.answered_by(&model);
        }
        let blocks = message.content.map_or(Ok(Vec::new()), items_of)?;
        for block in blocks {
            self.block_start(None, Some(block), out)?;
            self.block_stop(None, out);
        }
        self.describe(message, out);
        Ok(())
    }

    /// Takes what an event says of the answer as a whole.
    fn describe(&mut self, message: &RawMessage<'_>, out: &mut Vec<StreamItem>) {
        let head = &mut self.head;
        head.response_id = head.response_id.take().or_else(|| nonempty(message.id).map(Into::into));
        // A router says first what was asked for, and last what answered.
        head.model = nonempty(message.model).map(Into::into).or_else(|| head.model.take());
        if let Some(reason) = nonempty(message.stop_reason) {
            self.stopped.note(&reason);
        }
        self.count(message.usage, out);
    }

    fn count(&mut self, usage: Option<&RawValue>, out: &mut Vec<StreamItem>) {
        if let Some(usage) = self.usage.merge(usage) {
            out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
        }
    }

    /// Ends the answer.
    pub(super) fn close(&mut self, out: &mut Vec<StreamItem>) {
        out.extend(self.blocks.seal());
        let has_calls = !self.calls.is_empty();
        let has_cut_call = self.calls.finish(out);
        let stopped = self.stopped.take();
        let reason = match stopped.as_ref().map_or(FinishReason::Stop, |(reason, _)| *reason) {
            FinishReason::Stop if has_cut_call => FinishReason::Length,
            // Calls that are there count, not the label.
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            reason => reason,
        };
        self.head.finish(reason, stopped.map(|(_, raw)| raw), out);
    }
}
