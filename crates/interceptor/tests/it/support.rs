//! Layers and cores made of closures, and something of each scope to call with.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use turnwright_control::ControlError;
use turnwright_core::{
    AgentResult, BoxFuture, CodeCell, CodeResult, ErrorInfo, ErrorKind, IterationEnd, LegOutcome, Part,
    SessionId, StopReason, ToolCall, ToolResult, TurnContext,
};
use turnwright_interceptor::{Around, CallState, Core, Exit, Next, Scope, layer_fn, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

pub(crate) fn ctx() -> TurnContext {
    TurnContext::builder(SessionId::new("s").unwrap()).build()
}

pub(crate) fn call() -> ToolCall {
    ToolCall::new("c1", "weather", "in")
}

pub(crate) fn failure(message: &str) -> Exit {
    Exit::failed(ErrorKind::Server, message)
}

pub(crate) fn control(why: &str) -> Exit {
    ControlError::policy_violation(why).into()
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, s: impl Into<String>) {
        self.0.lock().unwrap().push(s.into());
    }
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
    /// Notes the entering now, and the leaving when it is dropped, whatever the reason.
    pub(crate) fn enter(&self, who: impl Into<String>) -> Bracket {
        let who = who.into();
        self.push(format!("{who}>"));
        Bracket(self.clone(), who)
    }
}

pub(crate) struct Bracket(Log, String);
impl Drop for Bracket {
    fn drop(&mut self) {
        self.0.push(format!("<{}", self.1));
    }
}

/// Counts how often it was dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

pub(crate) struct CountDrop(Drops);
impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, SeqCst);
    }
}
impl Drops {
    pub(crate) fn flag(&self) -> CountDrop {
        CountDrop(self.clone())
    }
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Pending once.
#[derive(Default)]
pub(crate) struct Yield(bool);
impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A layer made of a closure that does not ask the context.
pub(crate) fn layer<S: Scope, F>(f: F) -> impl Around<S>
where
    F: for<'a> Fn(S::In, Next<'a, S>) -> BoxFuture<'a, Result<S::Out, Exit>> + Send + Sync + 'static,
{
    layer_fn::<S>(move |_ctx, input, next| f(input, next))
}

/// A core made of a closure. Pending once, so that it is not over in its first poll.
pub(crate) struct CoreFn<F>(pub(crate) F);

impl<S: Scope, F> Core<S> for CoreFn<F>
where
    F: Fn(S::In, &CallState<S>) -> Result<S::Out, Exit> + Send + Sync,
{
    async fn call(&self, _: &TurnContext, input: S::In, call: &CallState<S>) -> Result<S::Out, Exit> {
        Yield::default().await;
        (self.0)(input, call)
    }
}

/// A tool that answers with its arguments in brackets.
pub(crate) fn echo() -> impl Core<scope::ToolCall> {
    CoreFn(|call: ToolCall, _: &CallState<_>| Ok(ToolResult::ok(&call, format!("[{}]", call.arguments))))
}

/// A call of each scope, and an answer to it.
pub(crate) trait Sample: Scope {
    fn ask() -> Self::In;
    fn answer() -> Self::Out;
    /// The output or the failure, in one form for all scopes.
    fn failed(out: Result<Self::Out, Exit>) -> Option<ErrorInfo> {
        out.err().map(|e| e.info())
    }
}

fn leg() -> LegOutcome {
    LegOutcome::Finished(Box::new(AgentResult::new("answer", StopReason::Completed)))
}
impl Sample for scope::AgentRun {
    fn ask() -> Vec<Part> {
        vec![Part::text("hello")]
    }
    fn answer() -> LegOutcome {
        leg()
    }
}
impl Sample for scope::Turn {
    fn ask() {}
    fn answer() -> LegOutcome {
        leg()
    }
}
impl Sample for scope::Iteration {
    fn ask() -> u32 {
        1
    }
    fn answer() -> IterationEnd {
        IterationEnd::Finished
    }
}
impl Sample for scope::LlmCall {
    fn ask() -> LlmRequest {
        LlmRequest::default()
    }
    fn answer() -> LlmResponse {
        LlmResponse::text_only("answer")
    }
}
impl Sample for scope::ToolCall {
    fn ask() -> ToolCall {
        call()
    }
    fn answer() -> ToolResult {
        ToolResult::ok(&call(), "answer")
    }
    fn failed(out: Result<ToolResult, Exit>) -> Option<ErrorInfo> {
        out.map_or_else(|e| Some(e.info()), |out| out.error)
    }
}
impl Sample for scope::ExecuteCode {
    fn ask() -> CodeCell {
        CodeCell { language: "python".into(), code: "1".into(), params: Default::default() }
    }
    fn answer() -> CodeResult {
        CodeResult { output: "answer".into(), ..CodeResult::default() }
    }
}

/// Runs a generic check at every call scope.
macro_rules! at_every_scope {
    ($check:ident) => {{
        $check::<scope::AgentRun>().await;
        $check::<scope::Turn>().await;
        $check::<scope::Iteration>().await;
        $check::<scope::LlmCall>().await;
        $check::<scope::ToolCall>().await;
        $check::<scope::ExecuteCode>().await;
    }};
}
pub(crate) use at_every_scope;
