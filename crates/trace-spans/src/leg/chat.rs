//! Model calls: one span an attempt.

use std::time::SystemTime;

use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanKind},
};
use opentelemetry_sdk::trace::Span;
use turnwright_core::{ErrorKind, TokenUsage, TurnContext};
use turnwright_hook::instrument;
use turnwright_llm_stream::{FinishReason, LlmRequest, LlmResponse};

use super::{Ended, Fault, Leg, Scope, end_all, strings, tokens};
use crate::conventions as names;

/// A logical call, which may become attempts.
pub(super) struct Asked {
    at: SystemTime,
    model: String,
    provider: Option<String>,
    attempts: u32,
}

/// An attempt. One that was cut or failed is held until it is known how much of the answer and the usage had arrived: then
/// AFTER_LLM_RESPONSE ends it, or the next attempt, or the leg.
pub(super) struct Chat {
    scope: Scope,
    span: Span,
    began: SystemTime,
    is_sent: bool,
    has_first_chunk: bool,
    broke_off: Option<(SystemTime, Fault)>,
}

impl Leg {
    /// The model is about to be asked, outside of every layer.
    pub(crate) fn model_asked(&self, ctx: &TurnContext, request: &LlmRequest) {
        if self.open_root(ctx).is_none() {
            return;
        }
        let provider = request.target.as_ref().map(|target| target.provider().to_owned());
        let asked = Asked { at: self.now(), model: request.model.clone(), provider, attempts: 0 };
        self.spans.lock().asked = Some(asked);
    }

    /// An attempt begins. Says whether it has a span.
    pub(crate) fn chat_begins(&self, ctx: &TurnContext, scope: Scope, request: &LlmRequest) -> bool {
        let Some(root) = self.open_root(ctx) else { return false };
        let now = self.now();
        let before = {
            let mut spans = self.spans.lock();
            // The same instrumentation twice, its own and the parent's: one span.
            if spans.chat.as_ref().is_some_and(|chat| chat.scope == scope) {
                return false;
            }
            if let Some(asked) = &mut spans.asked {
                asked.attempts += 1;
            }
            spans.chat.take()
        };
        end_all(before.map(|before| self.close_chat(before, now)));
        let provider = request.target.as_ref().map(|target| target.provider().to_owned());
        let mut attributes = asked_of(&request.model, provider);
        attributes.push(tokens(names::ITERATION, u64::from(ctx.iteration())));
        attributes.push(tokens(names::ATTEMPT, u64::from(request.attempt)));
        attributes.push(KeyValue::new(names::REQUEST_STREAM, true));
        if let Some(limit) = request.max_output_tokens {
            attributes.push(tokens(names::REQUEST_MAX_TOKENS, limit));
        }
        let floats =
            [(names::REQUEST_TEMPERATURE, request.temperature), (names::REQUEST_TOP_P, request.top_p)];
        for (name, value) in floats {
            // What is no number is no attribute.
            attributes
                .extend(value.filter(|value| value.is_finite()).map(|value| KeyValue::new(name, value)));
        }
        if !request.stop.is_empty() {
            attributes.push(strings(names::REQUEST_STOP, request.stop.clone()));
        }
        if request.output.is_some() {
            attributes.push(KeyValue::new(names::OUTPUT_TYPE, "json"));
        }
        let span = self.start(chat_name(&request.model), &root, now, attributes, Vec::new());
        let chat = Chat { scope, span, began: now, is_sent: false, has_first_chunk: false, broke_off: None };
        self.spans.lock().chat = Some(chat);
        true
    }

    /// The request as the client gets it, after every layer.
    pub(crate) fn chat_sent(&self, scope: Scope, request: &LlmRequest) {
        let (content, by) = (&self.shared.settings.content, self.shared.redactor());
        let is_it = |chat: &&mut Chat| chat.scope == scope && !chat.is_sent;
        {
            let mut spans = self.spans.lock();
            let Some(chat) = spans.chat.as_mut().filter(is_it) else { return };
            chat.is_sent = true;
        }
        let mut said = content.input(request.messages.iter().map(|message| &**message), by);
        if let Some(system) = &request.system {
            said.extend(content.instructions(system, by));
        }
        if !request.tools.is_empty() {
            said.extend(content.tools(request.tools.iter().map(|tool| &**tool), by));
        }
        if let Some(chat) = self.spans.lock().chat.as_mut().filter(|chat| chat.scope == scope) {
            chat.span.set_attributes(said);
        }
    }

    pub(crate) fn first_chunk(&self, scope: Scope) {
        let now = self.now();
        let mut spans = self.spans.lock();
        if let Some(chat) = spans.chat.as_mut().filter(|chat| chat.scope == scope && !chat.has_first_chunk) {
            chat.has_first_chunk = true;
            let took = now.duration_since(chat.began).unwrap_or_default().as_secs_f64();
            chat.span.set_attribute(KeyValue::new(names::TIME_TO_FIRST_CHUNK, took));
        }
    }

    /// An attempt ended.
    pub(crate) fn chat_ends(&self, scope: Scope, ended: &instrument::Ended<'_, LlmResponse>) {
        use instrument::Ended::*;
        let now = self.now();
        let fault = match ended {
            Done(response) => {
                let chat = self.spans.lock().chat.take_if(|chat| chat.scope == scope);
                // Outside of the lock: redacting is the embedder's code.
                end_all(chat.map(|mut chat| {
                    self.answered(&mut chat.span, response);
                    (chat.span, now)
                }));
                return;
            }
            Failed(error) => Fault::of_kind(error.kind),
            Left(control) => Fault::of_kind(control.info().kind),
            Cancelled(cause) => Fault::of_cause(cause.as_ref()),
            Panicked => Fault::of_kind(ErrorKind::Panic),
            _ => Fault::Error(names::OTHER.into()),
        };
        let mut spans = self.spans.lock();
        if let Some(chat) = spans.chat.as_mut().filter(|chat| chat.scope == scope) {
            chat.broke_off = Some((now, fault));
        }
    }

    /// The logical call is over: what had arrived of a broken answer is known now. A call that no attempt was made for was
    /// answered by a layer, unless the turn was cut before it could be asked.
    pub(crate) fn model_answered(&self, ctx: &TurnContext, response: &LlmResponse) {
        let Some(root) = self.open_root(ctx) else { return };
        let now = self.now();
        let (asked, held) = {
            let mut spans = self.spans.lock();
            (spans.asked.take(), spans.chat.take_if(|chat| chat.broke_off.is_some()))
        };
        if let Some(mut held) = held {
            if response.error.is_some() {
                self.arrived(&mut held.span, response);
            }
            end_all([self.close_chat(held, now)]);
            return;
        }
        let Some(asked) = asked.filter(|asked| asked.attempts == 0) else { return };
        if response.error.as_ref().is_some_and(|error| is_control(error.kind)) {
            return;
        }
        let mut attributes = asked_of(&asked.model, asked.provider);
        attributes.push(tokens(names::ITERATION, u64::from(ctx.iteration())));
        attributes.push(KeyValue::new(names::SHORT_CIRCUITED, true));
        let mut span = self.start(chat_name(&asked.model), &root, asked.at, attributes, Vec::new());
        self.answered(&mut span, response);
        end_all([(span, now)]);
    }

    /// A whole answer, or one that says itself that it is none.
    fn answered(&self, span: &mut Span, response: &LlmResponse) {
        self.arrived(span, response);
        match &response.error {
            Some(error) => self.broke_off(span, &Fault::of_kind(error.kind)),
            None => span.set_attribute(strings(names::FINISH_REASONS, vec![finish_reason(response)])),
        }
    }

    /// What is known of an answer, whole or not.
    fn arrived(&self, span: &mut Span, response: &LlmResponse) {
        let texts = [(names::RESPONSE_ID, &response.response_id), (names::RESPONSE_MODEL, &response.model)];
        for (name, text) in texts {
            if let Some(text) = text {
                span.set_attribute(KeyValue::new(name, text.clone()));
            }
        }
        let reason = if response.error.is_some() { "error".into() } else { finish_reason(response) };
        span.set_attributes(self.shared.settings.content.output(response, &reason, self.shared.redactor()));
        span.set_attributes(usage(&response.usage, self.shared.settings.older_names));
    }

    fn broke_off(&self, span: &mut Span, fault: &Fault) {
        span.set_attribute(strings(names::FINISH_REASONS, vec!["error".into()]));
        self.mark(span, fault);
    }

    /// Ends an attempt as it broke off; one that was not told to have ended was dropped.
    pub(super) fn close_chat(&self, mut chat: Chat, now: SystemTime) -> Ended {
        let (at, fault) = chat.broke_off.take().unwrap_or((now, Fault::Cancelled));
        self.broke_off(&mut chat.span, &fault);
        (chat.span, at)
    }
}

fn chat_name(model: &str) -> (String, SpanKind) {
    (format!("{} {model}", names::OP_CHAT), SpanKind::Client)
}

fn asked_of(model: &str, provider: Option<String>) -> Vec<KeyValue> {
    vec![
        KeyValue::new(names::OPERATION, names::OP_CHAT),
        KeyValue::new(names::PROVIDER, provider.unwrap_or_else(|| names::OTHER.into())),
        KeyValue::new(names::REQUEST_MODEL, model.to_owned()),
    ]
}

/// Errors that say why a call was not made.
fn is_control(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    matches!(kind, Cancelled | DeadlineExceeded | PolicyViolation | LoopDetected | LimitReached | Control)
}

fn finish_reason(response: &LlmResponse) -> String {
    let reason = match response.finish_reason {
        // A layer that answers need not say why it stopped.
        Some(FinishReason::Stop) | None => "stop",
        Some(FinishReason::ToolCalls) => "tool_call",
        Some(FinishReason::Length) => "length",
        Some(FinishReason::ContentFilter | FinishReason::Refusal) => "content_filter",
        Some(_) => response.raw_finish_reason.as_deref().unwrap_or(names::OTHER),
    };
    reason.into()
}

/// Totals where they are known, also when they are zero; details only where they say something.
fn usage(usage: &TokenUsage, older_names: bool) -> Vec<KeyValue> {
    let totals = [(names::INPUT_TOKENS, usage.input_tokens), (names::OUTPUT_TOKENS, usage.output_tokens)];
    let written = usage.cache_creation_input_tokens;
    let details = [
        (names::CACHE_READ, usage.cache_read_input_tokens),
        (names::CACHE_WRITE, written),
        (names::CACHE_CREATION, written.filter(|_| older_names)),
        (names::REASONING_TOKENS, usage.reasoning_tokens),
    ];
    let details = details.into_iter().filter(|(_, count)| *count != Some(0));
    let counts = totals.into_iter().chain(details);
    let mut attributes: Vec<_> = counts.filter_map(|(name, count)| Some(tokens(name, count?))).collect();
    if usage.partial && !attributes.is_empty() {
        attributes.push(KeyValue::new(names::USAGE_PARTIAL, true));
    }
    attributes
}
