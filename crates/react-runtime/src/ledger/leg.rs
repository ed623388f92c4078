//! The state behind the ledger's lock.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use turnwright_core::{
    AgentResult, ApprovalTransaction, CallId, CancelKind, ErrorInfo, ErrorKind, HistoryError,
    HistorySnapshot, Interrupted, LegOutcome, Message, MessageId, Origin, Part, Role, Sources, StopReason,
    Synthetic, Timestamp, TokenUsage, ToolCall, ToolResult,
};
use turnwright_hook::{HookPoint, ToolDecision};
use turnwright_llm_stream::{Assembler, FinishReason, LlmEvent, LlmResponse, ToolProgress};

use crate::{
    event::{TurnEventKind, TurnFinished},
    machine::{Fed, MachineError, ModelEnd, Step, Stop, TurnMachine},
    queue::EventQueue,
    snapshot::{Batch, BatchCall},
};

/// What a leg starts with.
pub(crate) struct LegParts {
    pub(crate) machine: TurnMachine,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) turn_start: usize,
    pub(crate) batch: Option<Batch>,
    pub(crate) deferred: Vec<Message>,
    pub(crate) usage: TokenUsage,
    pub(crate) transaction: Option<ApprovalTransaction>,
}

pub(crate) struct Leg {
    pub(crate) machine: TurnMachine,
    pub(crate) batch: Option<Batch>,
    pub(crate) transaction: Option<ApprovalTransaction>,
    pub(crate) result: Option<AgentResult>,
    messages: Vec<Arc<Message>>,
    revision: u64,
    turn_start: usize,
    call_ids: HashSet<CallId>,
    deferred: Vec<Message>,
    /// The answer that is arriving, or has arrived and is not history yet: layers may still hold it.
    stream: Option<Streaming>,
    /// What was streamed of the last answer, where a layer changed it afterwards.
    streamed: Option<String>,
    /// The answer AFTER_LLM_RESPONSE is owed.
    response: Option<Arc<LlmResponse>>,
    /// The results AFTER_TOOL_EXECUTION is owed.
    results: Arc<[ToolResult]>,
    cursor: Option<(HookPoint, usize)>,
    usage: TokenUsage,
    /// Whether a model call was added to `usage`: the first one is not a sum.
    counted: bool,
    /// Nothing is appended any more.
    closed: bool,
    over: bool,
    /// The user was told what the turn's end has to say.
    told: bool,
    queue: Arc<EventQueue>,
    /// When the commit under way began.
    now: Timestamp,
    /// Ids for the messages of the commits to come.
    ids: VecDeque<MessageId>,
    sources: Sources,
}

struct Streaming {
    assembler: Assembler,
    /// Whether deltas are withheld until the chain returns.
    gated: bool,
    shown: String,
    /// Names of the calls that began to arrive.
    calls: Vec<String>,
    /// The provider's ids of the calls that began to arrive, and the ids they will have: unique in the turn.
    ids: Vec<(CallId, CallId)>,
    ended: bool,
}

impl Leg {
    /// Messages a commit may add beside the results of its batch and the words that wait.
    pub(super) const SPARE_IDS: usize = 4;

    pub(crate) fn new(parts: LegParts, queue: Arc<EventQueue>, sources: Sources) -> Self {
        let turn = parts.messages.get(parts.turn_start..).unwrap_or_default();
        let call_ids = turn.iter().flat_map(|m| m.tool_calls().map(|c| c.id.clone())).collect();
        Self {
            machine: parts.machine,
            batch: parts.batch,
            transaction: parts.transaction,
            result: None,
            messages: parts.messages,
            revision: 0,
            turn_start: parts.turn_start,
            call_ids,
            deferred: parts.deferred,
            stream: None,
            streamed: None,
            response: None,
            results: Arc::new([]),
            cursor: None,
            counted: parts.usage != TokenUsage::UNKNOWN,
            usage: parts.usage,
            closed: false,
            over: false,
            told: false,
            queue,
            now: Timestamp::UNIX_EPOCH,
            ids: VecDeque::new(),
            sources,
        }
    }

    pub(crate) fn emit(&self, kind: TurnEventKind) {
        self.queue.push(self.now, kind);
    }

    /// A commit begins at this time, with these ids beside those that are left.
    pub(super) fn prepare(&mut self, now: Timestamp, ids: Vec<MessageId>) {
        self.now = now;
        self.ids.extend(ids);
    }

    /// How many ids are missing for what the next commit may add.
    pub(super) fn ids_wanted(&self) -> usize {
        let open = self.batch.as_ref().map_or(0, |b| b.calls.len());
        (Self::SPARE_IDS + open).saturating_sub(self.ids.len())
    }

    fn id(&mut self) -> MessageId {
        // Enough were drawn before the lock; should that ever be wrong, one is drawn under it.
        self.ids.pop_front().unwrap_or_else(|| self.sources.id())
    }

    // ---- history

    pub(crate) fn history(&self) -> HistorySnapshot {
        HistorySnapshot { messages: self.messages.clone(), revision: self.revision }
    }

    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn turn_start(&self) -> usize {
        self.turn_start
    }

    pub(crate) fn deferred(&self) -> &[Message] {
        &self.deferred
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Takes words from outside the loop. While an answer arrives or its calls are open they wait: the history stays
    /// legal, and nobody is answered before they spoke.
    pub(crate) fn append(&mut self, message: Message) -> Result<u64, HistoryError> {
        if self.closed {
            return Err(HistoryError::Sealed);
        }
        if self.batch.is_some() || self.stream.is_some() {
            self.deferred.push(message);
        } else {
            self.push(message);
        }
        Ok(self.revision)
    }

    fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
        self.revision += 1;
    }

    fn push_parts(&mut self, parts: Vec<Part>, interrupted: Option<Interrupted>) {
        let id = self.id();
        let mut message = Message::new(id, Role::Assistant, parts);
        message.interrupted = interrupted;
        self.push(message);
    }

    fn flush_deferred(&mut self) {
        for message in std::mem::take(&mut self.deferred) {
            self.push(message);
        }
    }

    /// Commits messages that came through the control channel.
    pub(crate) fn land(&mut self, parts: Vec<Part>, origin: Origin) {
        let id = self.id();
        let message = Message::new(id, Role::User, parts).origin(origin);
        self.push(message);
    }

    // ---- hooks

    pub(crate) fn hook_to_resume(&mut self, point: HookPoint) -> usize {
        match self.cursor {
            Some((p, next)) if p == point => next,
            _ => {
                self.cursor = Some((point, 0));
                0
            }
        }
    }

    pub(crate) fn hook_begun(&mut self, point: HookPoint, index: usize) {
        // A point is begun when its first hook is polled: from here on its after is owed.
        self.machine.begin();
        self.cursor = Some((point, index + 1));
    }

    // ---- the machine

    pub(crate) fn next(&self) -> Step {
        self.machine.next()
    }

    pub(crate) fn feed(&mut self, fed: Fed) -> Result<(), MachineError> {
        self.cursor = None;
        self.machine.feed(fed)
    }

    // ---- the model

    /// An attempt at a model call begins. What an earlier one had shown stays.
    pub(crate) fn begin_attempt(&mut self, gated: bool, attempt: u32) {
        if let Some(earlier) = self.stream.take() {
            self.keep_shown(earlier, "error");
        }
        if attempt > 1 {
            self.emit(TurnEventKind::Retry { attempt });
        }
        self.stream = Some(Streaming {
            assembler: Assembler::new(),
            gated,
            shown: String::new(),
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

    /// An id that no call of the turn has, nor one that is arriving.
    fn unique_id(&self, id: &CallId) -> CallId {
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
        self.count(response.usage);
        match response.error.take() {
            None => Ok(response),
            Some(error) => Err(error),
        }
    }

    fn count(&mut self, usage: TokenUsage) {
        self.usage = if self.counted { self.usage.plus(usage) } else { usage };
        self.counted = true;
        if !usage.is_unknown() {
            self.emit(TurnEventKind::Usage { usage });
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
        let text = response.text();
        let shown = self.stream.as_ref().map(|s| s.shown.as_str()).unwrap_or_default();
        match text.strip_prefix(shown) {
            Some("") => {}
            Some(rest) => self.emit(TurnEventKind::TextDelta { text: rest.into() }),
            None => self.streamed = Some(shown.into()),
        }
        let shown_ids = self.stream.as_mut().map(|s| std::mem::take(&mut s.ids)).unwrap_or_default();
        if let Some(stream) = self.stream.take()
            && (stream.assembler.has_failed() || !stream.ended)
            && self.streamed.is_some()
        {
            // A layer answered in place of an attempt that had shown something: that stays, marked as what it is.
            self.keep_shown(stream, "error");
            self.streamed = None;
            self.emit(TurnEventKind::TextDelta { text: text.clone() });
        }
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
        self.settle_deferred();
        end
    }

    fn judge(&self, response: &LlmResponse) -> ModelEnd {
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
            _ => ModelEnd::Answer,
        }
    }

    /// Gives every call its id of the turn: the one its progress was shown under, else a fresh one.
    fn make_calls_unique(&mut self, response: &mut LlmResponse, mut shown: Vec<(CallId, CallId)>) {
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

    fn open_batch(&mut self, response: &LlmResponse) {
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
        self.settle_deferred();
        ModelEnd::Failed(error)
    }

    /// Keeps what a broken stream had shown. Withheld deltas were neither seen nor judged: they are not kept.
    fn keep_shown(&mut self, stream: Streaming, reason: &str) -> LlmResponse {
        let Streaming { assembler, gated, calls, ended, .. } = stream;
        let mut response = assembler.finish();
        if !ended {
            self.count(response.usage);
        }
        if gated {
            response.parts.clear();
        }
        self.keep_partial(response.parts.clone(), reason, calls);
        response
    }

    fn keep_partial(&mut self, parts: Vec<Part>, reason: &str, pending_tools: Vec<String>) {
        let kept: Vec<Part> = parts.into_iter().filter(|p| !matches!(p, Part::ToolCall(_))).collect();
        if kept.iter().any(|p| p.as_text().is_some_and(|t| !t.is_empty()) || matches!(p, Part::Reasoning(_)))
        {
            self.push_parts(kept, Some(Interrupted { reason: reason.into(), pending_tools }));
        }
    }

    fn settle_deferred(&mut self) {
        if self.batch.is_none() {
            self.flush_deferred();
        }
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

    // ---- tools

    pub(crate) fn batch_call(&mut self, id: &CallId) -> Option<&mut BatchCall> {
        self.batch.as_mut()?.calls.iter_mut().find(|c| c.call.id == *id)
    }

    /// Commits a result and shows it. A late one is refused.
    pub(crate) fn tool_done(&mut self, id: &CallId, result: ToolResult) -> bool {
        match self.batch_call(id) {
            Some(entry) if entry.result.is_none() => entry.result = Some(result.clone()),
            _ => return false,
        }
        self.emit(TurnEventKind::ToolResult(result));
        true
    }

    pub(crate) fn tool_progress(&mut self, id: &CallId, text: String) -> bool {
        let open = self.batch_call(id).is_some_and(|entry| entry.result.is_none());
        if open {
            self.emit(TurnEventKind::ToolProgress { id: id.clone(), text });
        }
        open
    }

    /// A layer rewrote a call, and the gate asks about the rewrite: nothing ran, and this is what is asked.
    pub(crate) fn tool_asks(&mut self, call: ToolCall, reason: String, expires_at: Option<Timestamp>) {
        if let Some(entry) = self.batch_call(&call.id.clone()) {
            entry.decision = Some(ToolDecision::Pending(reason));
            entry.expires_at = expires_at;
            entry.allowed = None;
            entry.rewritten = Some(call);
        }
    }

    /// Every call has a result: they become history, in model order.
    pub(crate) fn close_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let mut results = Vec::with_capacity(batch.calls.len());
        for entry in batch.calls {
            let result = entry.result.unwrap_or_else(|| interrupted_result(&entry.call));
            let id = self.id();
            self.push(Message::tool(id, result.clone()));
            results.push(result);
        }
        self.results = results.into();
        self.flush_deferred();
    }

    pub(crate) fn results(&self) -> Arc<[ToolResult]> {
        self.results.clone()
    }

    // ---- the end

    /// Makes the history legal, whatever happened: the partial answer is kept, open calls are answered.
    pub(crate) fn seal(&mut self) {
        let reason = interrupt_reason(self.machine.stop_reason());
        if let Some(stream) = self.stream.take() {
            let mut response = self.keep_shown(stream, reason);
            response.error = self.machine.stop_reason().and_then(|s| s.error.clone()).or(response.error);
            self.response = Some(Arc::new(response));
        }
        if let Some(batch) = &mut self.batch {
            let mut answered = Vec::new();
            for entry in batch.calls.iter_mut().filter(|e| e.result.is_none()) {
                let result = interrupted_result(&entry.call);
                answered.push(result.clone());
                entry.result = Some(result);
            }
            for result in answered {
                self.emit(TurnEventKind::ToolResult(result));
            }
        }
        self.close_batch();
        self.flush_deferred();
        if let Some(transaction) = &mut self.transaction {
            transaction.seal();
        }
        if let Some(words) = self.machine.stop_reason().and_then(|s| s.user_content.clone())
            && self.machine.was_cut()
            && self.result.is_none()
        {
            self.tell_user(words);
        }
    }

    /// Shows the user words that are not the model's: they are history too. Once a turn.
    pub(crate) fn tell_user(&mut self, words: String) {
        if !std::mem::replace(&mut self.told, true) {
            self.emit(TurnEventKind::TextDelta { text: words.clone() });
            self.push_parts(vec![Part::text(words)], None);
        }
    }

    /// What the turn, as far as it went, comes to.
    pub(crate) fn attempt_result(&self) -> AgentResult {
        let stop = self.machine.stop_reason().cloned().unwrap_or_else(|| Stop::reason(StopReason::Completed));
        let mut result = AgentResult::new(self.visible_text(stop.reason), stop.reason);
        result.error = stop.error;
        result.cancelled_by = stop.cancelled_by;
        result.streamed.clone_from(&self.streamed);
        if let Some(words) = stop.user_content {
            result.replace_content(words);
        }
        self.fill(&mut result);
        result
    }

    /// Figures that only the ledger knows.
    pub(crate) fn fill(&self, result: &mut AgentResult) {
        result.usage = self.usage;
        result.iterations = self.machine.iterations();
        result.attempts = self.machine.attempt();
    }

    /// The final answer is the last response's own; a turn that was cut or stopped shows its last words.
    pub(crate) fn visible_text(&self, reason: StopReason) -> String {
        let turn = self.messages.get(self.turn_start..).unwrap_or_default();
        let mut answers = turn.iter().rev().filter(|m| m.role == Role::Assistant);
        if reason == StopReason::Completed {
            return answers.next().map(|m| m.text()).unwrap_or_default();
        }
        answers.map(|m| m.text()).find(|t| !t.trim().is_empty()).unwrap_or_default()
    }

    /// Nothing more is taken from now on; these are the messages.
    pub(crate) fn close(&mut self) -> Vec<Arc<Message>> {
        self.closed = true;
        self.messages.clone()
    }

    /// The leg's last event. After it nothing can follow.
    pub(crate) fn finish(&mut self, outcome: &LegOutcome) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let content = self.visible_text(StopReason::Cancelled);
        let finished = TurnFinished::of(outcome, content, self.usage, self.machine.iterations());
        self.emit(TurnEventKind::TurnFinished(Box::new(finished)));
    }
}

fn interrupted_result(call: &ToolCall) -> ToolResult {
    let message = "not finished: the turn was interrupted. It may have had effects";
    ToolResult::synthetic(call, Synthetic::Interrupted, ErrorInfo::new(ErrorKind::NotRun, message))
}

fn interrupt_reason(stop: Option<&Stop>) -> &'static str {
    let Some(stop) = stop else { return "cancelled" };
    match stop.reason {
        StopReason::Cancelled => match stop.cancelled_by.as_ref().map(|cause| cause.kind) {
            Some(CancelKind::Requested) => "user_stop",
            _ => "cancelled",
        },
        StopReason::Timeout => "timeout",
        StopReason::PolicyViolation => "policy",
        StopReason::LoopDetected => "loop_detected",
        StopReason::Error => "error",
        _ => "cancelled",
    }
}
