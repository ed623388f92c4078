//! The root: one a leg.

use std::{sync::Arc, time::Duration};

use opentelemetry::{
    KeyValue,
    trace::{Link, Span as _, SpanContext, SpanKind},
};
use opentelemetry_sdk::trace::Span;
use serde::Serialize;
use turnwright_core::{
    AgentResult, CancelCause, LegOutcome, Outcome, Role, StopReason, Timestamp, TurnContext,
};

use super::{Fault, Leg, end_all, strings, tokens};
use crate::{Capture, Field, conventions as names, kept::Kept, w3c::TraceHeaders};

impl Leg {
    /// The root's context, opening it at first. None where nothing is recorded: then no child is opened either, so that one
    /// decision is made a leg and the rest costs nothing.
    pub(crate) fn open_root(&self, ctx: &TurnContext) -> Option<SpanContext> {
        {
            let spans = self.spans.lock();
            if spans.is_over {
                return None;
            }
            if let Some(context) = &spans.root_context {
                return spans.root.is_some().then(|| context.clone());
            }
        }
        let kept = Kept::of_leg_before(ctx);
        let before = kept.as_ref().and_then(|kept| Some((kept.root.span()?, kept.at)));
        let (parent, links) = self.parentage(ctx, before);
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::OP_AGENT),
            KeyValue::new(names::RUN, ctx.run().to_string()),
            KeyValue::new(names::TURN, ctx.turn().to_string()),
            tokens(names::LEG, u64::from(self.number)),
        ];
        if self.number > 1 {
            attributes.push(KeyValue::new(names::RESUMED, true));
        }
        if let Some(by) = &self.started_by {
            attributes.push(KeyValue::new(names::PARENT_AGENT, by.leg.agent.clone()));
        }
        let name = (format!("{} {}", names::OP_AGENT, self.agent), SpanKind::Internal);
        let mut span = self.start(name, &parent, self.now(), attributes, links);
        let context = span.span_context().clone();
        if let Some(root) = TraceHeaders::of(&context) {
            let calls = kept.map(|kept| kept.calls).unwrap_or_default();
            Kept { root, at: ctx.sources().clock.now(), calls }.keep(ctx);
        }
        let is_recording = span.is_recording();
        if is_recording && self.shared.settings.content.of(Field::Input) != Capture::Off {
            let history = ctx.history().snapshot();
            let asked = history.messages.iter().rfind(|message| message.role == Role::User);
            let said = asked.into_iter().map(|message| &**message);
            span.set_attributes(self.shared.settings.content.input(said, self.shared.redactor()));
        }
        let mut spans = self.spans.lock();
        spans.root_context = Some(context.clone());
        if is_recording {
            spans.root = Some(span);
        }
        is_recording.then_some(context)
    }

    /// A call that started the leg is its parent, since it encloses it; then the leg before, unless that is long ago; then
    /// what was current where the leg was started.
    fn parentage(
        &self,
        ctx: &TurnContext,
        before: Option<(SpanContext, Timestamp)>,
    ) -> (SpanContext, Vec<Link>) {
        let linked = |span: &SpanContext, reason: &'static str| {
            Link::new(span.clone(), vec![KeyValue::new(names::LINK_REASON, reason)], 0)
        };
        let mut links = Vec::new();
        let mut parent = self.started_by.as_ref().map(|by| by.span.clone());
        if let Some((before, at)) = before {
            links.push(linked(&before, "resume"));
            let age = ctx.sources().clock.now().duration_since(at);
            let age = Duration::try_from(age).unwrap_or_default();
            if parent.is_none() && age <= self.shared.settings.resume_in_trace {
                parent = Some(before);
            }
        }
        if self.caller.is_valid() {
            match &parent {
                None if links.is_empty() => parent = Some(self.caller.clone()),
                Some(parent) if *parent == self.caller => {}
                _ => links.push(linked(&self.caller, "started_by")),
            }
        }
        (parent.unwrap_or(SpanContext::NONE), links)
    }

    /// An event of the root.
    pub(crate) fn agent_starts(&self, ctx: &TurnContext) {
        if self.open_root(ctx).is_none() {
            return;
        }
        let (at, messages) = (self.now(), ctx.history().snapshot().messages.len());
        if let Some(root) = &mut self.spans.lock().root {
            let attributes = vec![tokens(names::HISTORY_LENGTH, messages as u64)];
            root.add_event_with_timestamp(names::EVENT_AGENT_START, at, attributes);
        }
    }

    /// The leg is over: everything that is open ends, children before parents, and nothing opens any more.
    pub(crate) fn over(self: &Arc<Self>, outcome: Option<&LegOutcome>) {
        let at = self.now();
        let (mut ended, root) = {
            let mut spans = self.spans.lock();
            spans.is_over = true;
            let mut ended = Vec::new();
            for tool in std::mem::take(&mut spans.tools) {
                ended.extend(self.close_tool(tool, at));
            }
            ended.extend(spans.chat.take().map(|chat| self.close_chat(chat, at)));
            ended.extend(spans.iteration.take().map(|span| (span, at)));
            (ended, spans.root.take())
        };
        if let Some(mut root) = root {
            match outcome {
                Some(LegOutcome::Finished(result)) => self.finished(&mut root, result),
                Some(LegOutcome::Suspended { pending }) => {
                    let calls = pending.iter().map(|request| request.call.id.as_str().to_owned()).collect();
                    let calls = vec![strings(names::PENDING_CALLS, calls)];
                    root.add_event_with_timestamp(names::EVENT_SUSPENDED, at, calls);
                    root.set_attribute(outcome_of(Outcome::Suspended));
                }
                Some(LegOutcome::Drained) => root.set_attribute(outcome_of(Outcome::Drained)),
                None => {}
            }
            ended.push((root, at));
        }
        end_all(ended);
        if let Some(by) = &self.started_by {
            by.leg.agent_over(&by.call, at);
        }
    }

    fn finished(&self, root: &mut Span, result: &AgentResult) {
        let outcome = result.outcome();
        root.set_attribute(outcome_of(outcome));
        let reason = match result.stop_reason {
            StopReason::Completed => "stop",
            StopReason::MaxTokens => "length",
            _ => "error",
        };
        root.set_attribute(strings(names::FINISH_REASONS, vec![reason.into()]));
        if !result.content.is_empty() {
            let (content, by) = (&self.shared.settings.content, self.shared.redactor());
            root.set_attributes(content.answer(&result.content, reason, by));
        }
        if let Some(cause) = &result.cancelled_by {
            self.cancelled(root, cause);
        }
        if outcome == Outcome::Completed {
            return;
        }
        let fault = match (outcome, &result.error) {
            (Outcome::Cancelled, _) => Fault::Cancelled,
            (_, Some(error)) => Fault::of_kind(error.kind),
            (_, None) => match result.stop_reason.error_kind() {
                Some(kind) => Fault::of_kind(kind),
                None => Fault::Error(names::OTHER.into()),
            },
        };
        self.mark(root, &fault);
    }

    /// Who, and why.
    fn cancelled(&self, root: &mut Span, cause: &CancelCause) {
        root.set_attribute(KeyValue::new(names::CANCEL_KIND, word(&cause.kind)));
        root.set_attribute(KeyValue::new(names::CANCEL_ACTOR, self.shared.short(&cause.actor)));
        if let Some(reason) = &cause.reason {
            root.set_attribute(KeyValue::new(names::CANCEL_REASON, self.shared.short(reason)));
        }
    }
}

fn outcome_of(outcome: Outcome) -> KeyValue {
    KeyValue::new(names::OUTCOME, word(&outcome))
}

/// The name of a variant, as it is written.
fn word(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(word)) => word,
        _ => names::OTHER.into(),
    }
}
