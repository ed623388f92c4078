//! What an event means for the answer.

use std::borrow::Cow;

use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

use super::{
    super::{
        calls::arguments_of,
        event::{Event, Response},
        finish::{End, end_of},
        items::{Kind, Labels, wrong_item},
    },
    State,
    alike::Delta,
};
use crate::{
    FinishReason, LlmEvent, StreamItem,
    wire::{
        events::{is_set, object},
        list::items_of,
        text::{nonempty, text_of},
        usage::usage_of,
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
        let id = event.item_id.and_then(text_of).unwrap_or_default();
        let labels = Labels { id: &id, index: event.output_index.0 };
        let part = event.content_index.0;
        if let Some(delta) = Delta::of(kind) {
            let text = match (delta, event.delta) {
                (_, None) => None,
                (Delta::Arguments(_), Some(raw)) => Some(arguments_of(raw)),
                (_, Some(raw)) => text_of(raw),
            };
            self.delta(delta, labels, part, text.unwrap_or_default(), out)?;
            self.alike.learn(json, event, delta, labels);
            return Ok(());
        }
        match kind {
            "response.output_text.done" => self.whole_text(labels, part, event.text, out),
            "response.refusal.done" => {
                self.refused = true;
                self.whole_text(labels, part, event.refusal, out)
            }
            "response.function_call_arguments.done" => self.whole_arguments(labels, event.arguments, out),
            "response.custom_tool_call_input.done" => self.whole_arguments(labels, event.input, out),
            "response.output_item.added" => self.item_added(labels, event.item, out),
            "response.output_item.done" => {
                event.item.map_or(Ok(()), |item| self.item_done(labels.index, item, out))
            }
            "response.created" => self.created(event.response, out),
            "response.queued" | "response.in_progress" => {
                self.describe(&object(event.response).unwrap_or_default(), out);
                Ok(())
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.done"
            | "response.cancelled"
            // Some put the answer there in place of round it.
            | "response.canceled" => {
                self.ended(kind, event, event.response.or_else(|| serde_json::from_str(json).ok()), out)
            }
            "error" | "response.error" => Err(self.head.reported(json.as_bytes())),
            // What the server's own tools do, what is the same as in other events, and what came later than we.
            kind if kind.starts_with("response.") => Ok(()),
            _ if is_set(event.error) => Err(self.head.reported(json.as_bytes())),
            _ if is_whole(event) => self.ended(kind, event, serde_json::from_str(json).ok(), out),
            // What stands bare and is no answer holds nothing but an error.
            _ if bare => Err(self.head.reported(json.as_bytes())),
            _ => Ok(()),
        }
    }

    /// Takes a piece of what the model says.
    pub(super) fn delta(
        &mut self,
        delta: Delta,
        labels: Labels<'_>,
        part: Option<u64>,
        text: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        self.refused |= delta == Delta::Refusal;
        match delta {
            _ if text.is_empty() => Ok(()),
            Delta::Text | Delta::Refusal => self.text(labels, part, text, out),
            Delta::Thought => self.thought(labels, text, out),
            Delta::Arguments(kind) => self.arguments(kind, labels, text, out),
        }
    }

    fn text(
        &mut self,
        labels: Labels<'_>,
        part: Option<u64>,
        text: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let at = match self.items.find_piece(Kind::Message, labels) {
            // All of it came with its end, before this piece.
            Some(at) if !labels.id.is_empty() && self.items.is_told(at, labels) => return Ok(()),
            Some(at) => at,
            None => self.items.begin(Kind::Message, labels)?,
        };
        self.items.say(at, part)?;
        self.said = true;
        out.push(LlmEvent::text(text).into());
        Ok(())
    }

    /// Takes text that came in pieces before, from most servers.
    fn whole_text(
        &mut self,
        labels: Labels<'_>,
        part: Option<u64>,
        text: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        match self.items.find(labels) {
            Some(at) if self.items.has_said(at, part) || self.items.get(at).done => Ok(()),
            _ => nonempty(text).map_or(Ok(()), |text| self.text(labels, part, text, out)),
        }
    }

    fn thought(
        &mut self,
        labels: Labels<'_>,
        text: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let at = match self.items.find_open(labels) {
            Some(at) => at,
            None => self.items.begin(Kind::Reasoning, labels)?,
        };
        if self.items.get(at).kind == Kind::Reasoning {
            self.items.say(at, None)?;
        }
        self.said = true;
        out.push(LlmEvent::reasoning(text).into());
        Ok(())
    }

    fn arguments(
        &mut self,
        kind: Kind,
        labels: Labels<'_>,
        piece: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let at = match self.items.find_piece(kind, labels) {
            Some(at) => at,
            None => self.begin(kind, labels)?,
        };
        if self.items.get(at).kind == Kind::Other {
            return Ok(());
        }
        let call = self.items.get(at).call.ok_or_else(|| wrong_item("arguments"))?;
        self.said = true;
        self.calls.piece(call, piece, out)
    }

    fn whole_arguments(
        &mut self,
        labels: Labels<'_>,
        whole: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        // Of an item that is not known, the event that ends it says the same.
        match (self.items.find(labels).and_then(|at| self.items.get(at).call), whole) {
            (Some(call), Some(whole)) => self.calls.whole(call, whole, out),
            _ => Ok(()),
        }
    }

    fn created(&mut self, response: Option<&RawValue>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        if std::mem::replace(&mut self.created, true) && self.said {
            let message = "a second answer began in the same stream";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        }
        self.describe(&object(response).unwrap_or_default(), out);
        Ok(())
    }

    /// Takes what an event says of the answer as a whole.
    fn describe(&mut self, response: &Response<'_>, out: &mut Vec<StreamItem>) {
        let head = &mut self.head;
        head.response_id = head.response_id.take().or_else(|| nonempty(response.id).map(Into::into));
        // A router says first what was asked for, and last what answered.
        head.model = nonempty(response.model).map(Into::into).or_else(|| head.model.take());
        if let Some(usage) = response.usage.and_then(usage_of)
            && self.usage.replace(usage) != Some(usage)
        {
            out.push(LlmEvent::UsageSnapshot(Box::new(usage)).into());
        }
    }

    /// Takes the last event.
    fn ended(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        raw: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let response: Response<'_> = object(raw).unwrap_or_default();
        self.describe(&response, out);
        let (reason, raw_reason) = match end_of(kind, &response) {
            End::Finished(reason, raw_reason) => (reason, raw_reason),
            End::Failed => {
                let error = response.error.or(event.error).filter(|error| is_set(Some(error)));
                return Err(self.head.reported(error.map_or(b"" as &[u8], |error| error.get().as_bytes())));
            }
            End::Cancelled => {
                let error =
                    ErrorInfo::new(ErrorKind::Server, "the answer was cancelled on the server's side");
                return Err(error.code("cancelled"));
            }
        };
        if let Some(output) = response.output {
            let streamed = self.calls.len();
            for (index, item) in (0..).zip(items_of(output)?) {
                self.item_of_output(index, item, streamed, out)?;
            }
        }
        let has_calls = self.calls.len() > 0;
        let has_cut_call = self.calls.finish(out)?;
        let reason = match reason {
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            // A server that does not know of its own limit calls such an answer complete.
            FinishReason::Stop if has_cut_call || self.is_at_limit() => FinishReason::Length,
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            reason => reason,
        };
        self.head.finish(reason, raw_reason, out);
        Ok(())
    }

    /// Whether the answer has as many tokens as it may have.
    fn is_at_limit(&self) -> bool {
        let tokens = self.usage.and_then(|usage| usage.output_tokens);
        tokens.zip(self.output_limit).is_some_and(|(tokens, limit)| tokens >= limit)
    }
}

/// Whether the event is a whole answer that was not streamed.
fn is_whole(event: &Event<'_>) -> bool {
    nonempty(event.object).is_some_and(|object| object == "response")
}
