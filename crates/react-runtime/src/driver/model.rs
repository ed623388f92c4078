//! Calling the model.

use std::sync::Arc;

use futures::StreamExt;
use parking_lot::Mutex;
use turnwright_core::{ErrorKind, TurnContext, history};
use turnwright_hook::instrument::kind;
use turnwright_interceptor::{CallState, Core, Exit, StreamCall, scope};
use turnwright_llm_stream::{AnswerTool, EventStream, LlmRequest, LlmResponse, ModelHandle, ProgressSink};

use super::{LegRt, failure};
use crate::{ledger::Leg, machine::Fed};

impl LegRt {
    /// The request as it enters the interceptors, and the revision of the history in it.
    pub(crate) fn build_request(&self) -> (LlmRequest, u64) {
        let history = self.ledger.read(Leg::history);
        let mut request = self.agent.request.clone();
        request.messages = history::view(history.messages);
        if let Some(answer) = &self.answer {
            request.output = Some(answer.output.clone());
        }
        (request, history.revision)
    }

    pub(crate) async fn call_model(&self) -> Result<(), Exit> {
        // What BEFORE_LLM hooks appended belongs into the request.
        let shown = self.request.lock().take();
        let revision = self.ledger.read(Leg::revision);
        let request = match shown {
            Some((request, built)) if built == revision => request,
            _ => self.build_request().0,
        };
        history::check(request.messages.iter().map(|m| &**m))
            .map_err(|fault| Exit::failed(ErrorKind::InvalidHistory, fault.to_string()))?;
        let chain = &self.agent.interceptors.llm_call;
        let once = goes_on_with_server_state(&request).then_some(
            "the request goes on with a conversation that the server keeps, and may have been taken up by it",
        );
        if self.agent.observers.is_heard() {
            self.ledger.with(|leg| leg.record_model_call(|| request.asked()));
        }
        // Commits follow in the same poll in which the chain returns.
        let end = match chain.call(&self.ctx, request, &ModelCore(self), once).await {
            Ok(response) => self.ledger.with(|leg| leg.model_answered(response)),
            Err(Exit::Failed(error)) => self.ledger.with(|leg| leg.model_failed(error)),
            Err(control) => return Err(control),
        };
        self.feed(Fed::Model(end))
    }
}

/// Whether the server adds what is said to something it keeps. A failure then leaves open whether it did, so that asking
/// again might say it twice.
fn goes_on_with_server_state(request: &LlmRequest) -> bool {
    const FIELDS: [&str; 3] = ["conversation", "conversation_id", "previous_response_id"];
    FIELDS.iter().any(|name| request.extra.get(*name).is_some_and(|value| !value.is_null()))
}

impl LegRt {
    /// Asks the model. Where its format knows no form of answers, it is asked to answer by a tool; what comes out is the
    /// same, so that layers and history see one kind of answer, whoever gave it.
    fn ask(&self, target: &ModelHandle, request: &LlmRequest) -> EventStream<'static> {
        let (ctx, ledger) = (&self.ctx, self.ledger.clone());
        if request.output.is_some() {
            let mut by_tool = request.clone();
            if let Some(tool) = AnswerTool::take(&mut by_tool, target.client()) {
                let tool = Arc::new(Mutex::new(tool));
                let shown = tool.clone();
                let progress: ProgressSink = Arc::new(move |progress| {
                    if shown.lock().is_of_other(&progress) {
                        ledger.with(|leg| leg.tool_arrives(progress));
                    }
                });
                self.agent.instruments.request(ctx, &by_tool);
                let provider = target.client().dyn_stream(ctx, &by_tool);
                let events = EventStream::provider(provider, ctx.cancel(), Some(progress));
                return EventStream::layer(
                    events.map(move |event| tool.lock().event(event)),
                    "the answer tool",
                );
            }
        }
        let progress: ProgressSink = Arc::new(move |progress| ledger.with(|leg| leg.tool_arrives(progress)));
        self.agent.instruments.request(ctx, request);
        EventStream::provider(target.client().dyn_stream(ctx, request), ctx.cancel(), Some(progress))
    }
}

struct ModelCore<'a>(&'a LegRt);

impl Core<scope::LlmCall> for ModelCore<'_> {
    async fn call(
        &self,
        ctx: &TurnContext,
        mut request: LlmRequest,
        call: &CallState<scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let rt = self.0;
        request.attempt = call.attempt();
        rt.take_model_call(request.target.as_ref().unwrap_or(&rt.agent.model))?;
        // When a layer may still change the answer, nothing is shown before the chain returned.
        rt.ledger.with(|leg| leg.begin_attempt(call.is_gating(), call.attempt(), &request));
        // A layer may have awaited something since the cancel: no further model call starts.
        if let Some(cause) = ctx.cancel().cause() {
            return Err(Exit::Control(cause.into()));
        }
        // Whom a layer named is asked. A client that keeps what it was asked must not keep itself alive by it.
        let target = request.target.take().unwrap_or_else(|| rt.agent.model.clone());
        // A copy of the request is made only where somebody watches: the call has to begin before the client is asked.
        let is_watched = !rt.agent.instruments.is_empty();
        let provider = (!is_watched).then(|| rt.ask(&target, &request));
        request.target = Some(target.clone());
        let read = async {
            let provider =
                provider.unwrap_or_else(|| rt.ask(&target, &LlmRequest { target: None, ..request.clone() }));
            rt.read_answer(ctx, call, &request, &target, provider).await
        };
        rt.agent.instruments.watch::<kind::ModelCall, _>(ctx, &request, failure, read).await
    }
}

impl LegRt {
    /// Reads the answer of the model to its end.
    async fn read_answer(
        &self,
        ctx: &TurnContext,
        call: &CallState<scope::LlmCall>,
        request: &LlmRequest,
        target: &ModelHandle,
        provider: EventStream<'static>,
    ) -> Result<LlmResponse, Exit> {
        let shared = StreamCall::new();
        let layers = self.agent.interceptors.llm_stream.snapshot();
        let mut events = layers.wrap(ctx, request, &shared, provider);
        let mut awaits_first = !self.agent.instruments.is_empty();
        while let Some(event) = events.next().await {
            if awaits_first && event.is_output() {
                awaits_first = false;
                self.agent.instruments.first_chunk(ctx);
            }
            if self.ledger.with(|leg| leg.event(event)) {
                call.mark_visible();
            }
        }
        drop(events);
        // The token is asked, not the event: a layer may have rewritten a cancelled failure into a finish.
        if let Some(control) = shared.raised() {
            return Err(Exit::Control(control.clone()));
        }
        if let Some(cause) = ctx.cancel().cause() {
            return Err(Exit::Control(cause.into()));
        }
        let ended = self.ledger.with(Leg::end_attempt);
        self.charge(target);
        let mut response = ended.map_err(|error| {
            // Of a stream that just ended nobody but we know whose it was.
            let is_nameless = error.kind == ErrorKind::Truncated && error.provider.is_none();
            Exit::Failed(if is_nameless { error.provider(target.provider()) } else { error })
        })?;
        // A provider that does not say who answered was asked for this one.
        if response.model.is_none() {
            response.model = Some(request.model.clone());
        }
        Ok(response)
    }
}
