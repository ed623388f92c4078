//! The answer that arrives, and what becomes of it.

use std::sync::Arc;

use turnwright_core::{
    AgentResult, CallId, ErrorInfo, ErrorKind, Interrupted, Message, Part, Role, Synthetic, TokenUsage,
    ToolResult,
};
use turnwright_hook::ToolDecision;
use turnwright_llm_stream::{Assembler, FinishReason, LlmEvent, LlmRequest, LlmResponse, ToolProgress};

use super::leg::{Leg, Streaming};
use crate::{
    event::TurnEventKind,
    machine::ModelEnd,
    snapshot::{Batch, BatchCall},
};

impl Leg {
    /// An attempt at a model call begins. What an earlier one had shown stays; what nobody saw leaves no trace.
    pub(crate) fn begin_attempt(&mut self, gated: bool, attempt: u32, request: &LlmRequest) {
        if let Some(earlier) = self.stream.take() {
            if earlier.has_shown() {
                self.keep_shown(earlier, "error");
            } else if !earlier.ended {
                self.count(earlier.assembler.finish().usage, None);
            }
        }
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.begin_answer();
        }
        if attempt > 1 {
            self.emit(TurnEventKind::Retry { attempt, model: request.asked() });
        }
        self.stream = Some(Streaming {
            assembler: Assembler::new(),
            gated,
            shown: String::new(),
            shown_reasoning: false,
            calls: Vec::new(),
            ids: Vec::new(),
            ended: false,
        });
    }

    /// Commits an event and shows it. Returns whether it became visible.
    pub(crate) fn event(&mut self, event: LlmEvent) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        stream.assembler.feed(&event);
        let kind = match event {
            LlmEvent::TextDelta { text } if !text.is_empty() && !stream.gated => {
                stream.shown.push_str(&text);
                TurnEventKind::TextDelta { text }
            }
            LlmEvent::ReasoningDelta(delta) if !delta.text.is_empty() && !stream.gated => {
                stream.shown_reasoning = true;
                TurnEventKind::ReasoningDelta { text: delta.text }
            }
            LlmEvent::ToolCallComplete(call) => {
                if !stream.calls.contains(&call.name) {
                    stream.calls.push(call.name);
                }
                return false;
            }
            _ => return false,
        };
        self.emit(kind);
        true
    }

    /// Shows progress of a call that is still arriving, under the id it will have.
    pub(crate) fn tool_arrives(&mut self, progress: ToolProgress) {
        let kind = match progress {
            ToolProgress::Started { id, name } => {
                let unique = self.unique_id(&id);
                let Some(stream) = &mut self.stream else { return };
                if !stream.calls.contains(&name) {
                    stream.calls.push(name.clone());
                }
                stream.ids.push((id, unique.clone()));
                TurnEventKind::ToolArgsDelta { id: unique, name: Some(name), fragment: String::new() }
            }
            ToolProgress::Arguments { id, fragment } => {
                let Some(stream) = &self.stream else { return };
                let known = stream.ids.iter().rev().find(|(provider, _)| *provider == id);
                let id = known.map_or(id, |(_, unique)| unique.clone());
                TurnEventKind::ToolArgsDelta { id, name: None, fragment }
            }
            _ => return,
        };
        if self.stream.as_ref().is_some_and(|stream| !stream.gated) {
            self.emit(kind);
        }
    }

    /// An id that no call of the conversation has, nor one that is arriving.
    pub(super) fn unique_id(&self, id: &CallId) -> CallId {
        let arriving = self.stream.iter().flat_map(|s| &s.ids).map(|(_, unique)| unique);
        let is_taken = |id: &CallId| self.call_ids.contains(id) || arriving.clone().any(|taken| taken == id);
        if !is_taken(id) {
            return id.clone();
        }
        let numbered = (2..).map(|n| CallId::from(format!("{id}~{n}")));
        numbered.into_iter().find(|id| !is_taken(id)).unwrap_or_else(|| id.clone())
    }

    /// An attempt ended: its usage counts, whatever came of it. The ledger keeps what arrived until it is history, since
    /// the layers that now hold the answer may be dropped.
    pub(crate) fn end_attempt(&mut self) -> Result<LlmResponse, ErrorInfo> {
        let Some(stream) = &mut self.stream else {
            return Err(ErrorInfo::new(ErrorKind::Internal, "no model call is under way"));
        };
        stream.ended = true;
        let mut response = stream.assembler.clone().finish();
        self.count(response.usage, None);
        match response.error.take() {
            None => Ok(response),
            Some(error) => Err(error),
        }
    }

    /// What model calls used and no budget was charged for yet.
    pub(crate) fn take_uncharged(&mut self) -> Vec<TokenUsage> {
        self.uncharged.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Counts what the turn's own model call used, or what was used for this purpose beside it.
    pub(super) fn count(&mut self, usage: TokenUsage, purpose: Option<&str>) {
        if let Some(uncharged) = &mut self.uncharged {
            uncharged.push(usage);
        }
        self.count_charged(usage, purpose);
    }

    /// The same for what was charged to the budget already.
    pub(super) fn count_charged(&mut self, usage: TokenUsage, purpose: Option<&str>) {
        self.usage = if self.counted { self.usage.plus(usage) } else { usage };
        self.counted = true;
        if !usage.is_unknown() {
            self.emit(TurnEventKind::Usage { usage, purpose: purpose.map(str::to_owned) });
        }
    }

    /// The chain of a model call returned an answer: it becomes history, in the step that makes the rest of it
    /// visible.
    pub(crate) fn model_answered(&mut self, mut response: LlmResponse) -> ModelEnd {
        if let Some(error) = response.error.take() {
            return self.model_failed(error);
        }
        if response.parts.iter().any(|p| matches!(p, Part::Image(_) | Part::ToolResult(_))) {
            let message = "an interceptor answered with parts that an assistant cannot say";
            return self.model_failed(ErrorInfo::new(ErrorKind::Interceptor, message));
        }
        self.streamed = None;
        // A layer answered in the place of an attempt that had shown something: that stays, marked as what it is.
        if let Some(abandoned) = self.stream.take_if(|s| s.is_abandoned()) {
            self.keep_shown(abandoned, "error");
        }
        let text = response.text();
        let stream = self.stream.take();
        let shown = stream.as_ref().map(|s| s.shown.as_str()).unwrap_or_default();
        match text.strip_prefix(shown) {
            Some("") => {}
            Some(rest) => self.emit(TurnEventKind::TextDelta { text: rest.into() }),
            None => self.streamed = Some(shown.into()),
        }
        let shown_ids = stream.map(|s| s.ids).unwrap_or_default();
        let end = self.judge(&response);
        let keeps_calls = matches!(end, ModelEnd::Calls | ModelEnd::CutCalls);
        self.make_calls_unique(&mut response, shown_ids);
        let parts: Vec<Part> = response
            .parts
            .iter()
            .filter(|p| match p {
                Part::Text { text } => !text.is_empty(),
                Part::ToolCall(_) => keeps_calls,
                _ => true,
            })
            .cloned()
            .collect();
        // An answer of nothing leaves no trace. Blanks and reasoning were seen: they stay, and the model is asked again.
        if !parts.is_empty() {
            self.push_parts(parts, None);
        }
        if keeps_calls {
            self.open_batch(&response);
        }
        self.response = Some(Arc::new(response));
        let failure = if let ModelEnd::Failed(error) = &end { Some(error) } else { None };
        self.record_model_end(failure);
        self.settle_deferred();
        end
    }

    pub(super) fn judge(&self, response: &LlmResponse) -> ModelEnd {
        let has_calls = response.tool_calls().next().is_some();
        let stopped_by = |kind: ErrorKind, message: &str| {
            ModelEnd::Failed(ErrorInfo::new(kind, message).retry(turnwright_core::RetryAdvice::Never))
        };
        match response.finish_reason {
            Some(FinishReason::ContentFilter) => {
                stopped_by(ErrorKind::ContentFilter, "a content filter cut the answer")
            }
            Some(FinishReason::Refusal) => stopped_by(ErrorKind::Refusal, "the model declined to answer"),
            Some(FinishReason::Length) if !has_calls => ModelEnd::CutAnswer,
            _ if has_calls && response.calls_may_run().is_ok() => ModelEnd::Calls,
            _ if has_calls => ModelEnd::CutCalls,
            _ if response.is_empty() => ModelEnd::Empty,
            Some(FinishReason::Other) if lost_call(response.raw_finish_reason.as_deref()) => stopped_by(
                ErrorKind::MalformedToolCall,
                "the model wanted to call a tool, and the provider could not read its call",
            ),
            _ => ModelEnd::Answer,
        }
    }

    /// Gives every call its id of the conversation: the one its progress was shown under, else a fresh one.
    pub(super) fn make_calls_unique(&mut self, response: &mut LlmResponse, mut shown: Vec<(CallId, CallId)>) {
        for part in &mut response.parts {
            if let Part::ToolCall(call) = part {
                let known = shown.iter().position(|(provider, _)| *provider == call.id);
                call.id = match known {
                    Some(at) => shown.remove(at).1,
                    None => self.unique_id(&call.id),
                };
                self.call_ids.insert(call.id.clone());
            }
        }
    }

    pub(super) fn open_batch(&mut self, response: &LlmResponse) {
        let refused = response.calls_may_run().err();
        let mut calls = Vec::new();
        for call in response.tool_calls() {
            self.emit(TurnEventKind::ToolCall(call.clone()));
            let mut entry = BatchCall::new(call.clone());
            if let Some(error) = &refused {
                entry.decision = Some(ToolDecision::Unrunnable(error.message.clone()));
                entry.result = Some(ToolResult::synthetic(call, Synthetic::ResponseCut, error.clone()));
            }
            calls.push(entry);
        }
        for entry in &calls {
            if let Some(result) = &entry.result {
                self.emit(TurnEventKind::ToolResult(result.clone()));
            }
        }
        self.batch = Some(Batch { calls });
    }

    /// The chain of a model call failed: what had been shown is kept.
    pub(crate) fn model_failed(&mut self, error: ErrorInfo) -> ModelEnd {
        let mut response = match self.stream.take() {
            Some(stream) => self.keep_shown(stream, "error"),
            None => LlmResponse::default(),
        };
        response.error = Some(error.clone());
        self.response = Some(Arc::new(response));
        self.record_model_end(Some(&error));
        self.settle_deferred();
        ModelEnd::Failed(error)
    }

    /// Keeps what a broken stream had shown. Withheld deltas were neither seen nor judged: they are not kept.
    pub(super) fn keep_shown(&mut self, stream: Streaming, reason: &str) -> LlmResponse {
        let Streaming { assembler, gated, calls, ended, .. } = stream;
        let mut response = assembler.finish();
        if !ended {
            self.count(response.usage, None);
        }
        if gated {
            response.parts.clear();
        }
        self.keep_partial(response.parts.clone(), reason, calls);
        response
    }

    pub(super) fn keep_partial(&mut self, parts: Vec<Part>, reason: &str, pending_tools: Vec<String>) {
        let kept: Vec<Part> = parts.into_iter().filter(|p| !matches!(p, Part::ToolCall(_))).collect();
        if kept.iter().any(|p| p.as_text().is_some_and(|t| !t.is_empty()) || matches!(p, Part::Reasoning(_)))
        {
            self.push_parts(kept, Some(Interrupted { reason: reason.into(), pending_tools }));
        }
    }

    pub(super) fn settle_deferred(&mut self) {
        if self.batch.is_none() {
            self.flush_deferred();
        }
    }

    /// A new logical call begins.
    pub(crate) fn forget_response(&mut self) {
        self.response = None;
    }

    pub(crate) fn response(&self) -> Option<Arc<LlmResponse>> {
        self.response.clone()
    }

    /// The turn's first message, as a layer around the agent's call changed it.
    pub(crate) fn rewrite_input(&mut self, parts: Vec<Part>) -> Result<(), ErrorInfo> {
        if !crate::session::is_sayable(&parts) {
            let message = "an interceptor changed the input to something a user cannot say";
            return Err(ErrorInfo::new(ErrorKind::Interceptor, message));
        }
        if let Some(first) = self.messages.get_mut(self.turn_start)
            && first.role == Role::User
            && first.parts != parts
        {
            let mut message = Message::clone(first);
            message.parts = parts;
            *first = Arc::new(message);
            self.revision += 1;
        }
        self.record_input();
        Ok(())
    }

    /// Takes a result that a layer gave in the turn's place: what it says becomes visible and history.
    pub(crate) fn adopt(&mut self, result: AgentResult) {
        if !result.content.is_empty() {
            self.emit(TurnEventKind::TextDelta { text: result.content.clone() });
            self.push_parts(vec![Part::text(result.content.clone())], None);
        }
        self.result = Some(result);
    }
}

/// Whether these are a provider's words for a call it threw away, such as `MALFORMED_FUNCTION_CALL` and
/// `UNEXPECTED_TOOL_CALL`: what was said before is no whole answer then.
fn lost_call(raw_reason: Option<&str>) -> bool {
    raw_reason.is_some_and(|raw| raw.ends_with("FUNCTION_CALL") || raw.ends_with("TOOL_CALL"))
}
