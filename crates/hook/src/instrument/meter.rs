//! Callbacks that are guarded and metered.

use std::{
    any::Any,
    iter::Sum,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use turnwright_core::{
    CodeCell, CodeResult, LegOutcome, Part, ToolCall, ToolResult, TurnContext, panic::panic_text, short_name,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use super::{Call, Ended, Instrumentation};

/// What instrumentation cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Callbacks that were called.
    pub calls: u64,
    /// How long they took together, by the turns' own clock.
    pub time: Duration,
    /// Callbacks that panicked; their time counts too.
    pub panics: u64,
}

impl Sum for Overhead {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |a, b| Self {
            calls: a.calls + b.calls,
            time: a.time.saturating_add(b.time),
            panics: a.panics + b.panics,
        })
    }
}

/// The context of one instrumentation in one call.
pub(super) type Context = Option<Box<dyn Any + Send>>;

/// One instrumentation, whatever its context is.
pub(super) struct Metered {
    name: &'static str,
    inner: Box<dyn Erased>,
    calls: AtomicU64,
    nanos: AtomicU64,
    panics: AtomicU64,
}

impl Metered {
    pub(super) fn new<I: Instrumentation>(instrumentation: I) -> Self {
        Self {
            name: short_name::<I>(),
            inner: Box::new(instrumentation),
            calls: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn overhead(&self) -> Overhead {
        Overhead {
            calls: self.calls.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
            panics: self.panics.load(Relaxed),
        }
    }

    pub(super) fn before(&self, call: &Call<'_>, given: Given<'_>) -> Context {
        self.metered(call.ctx, || self.inner.before(call, given)).flatten()
    }

    pub(super) fn request(&self, call: &Call<'_>, request: &LlmRequest) {
        self.metered(call.ctx, || self.inner.request(call, request));
    }

    pub(super) fn first_chunk(&self, call: &Call<'_>) {
        self.metered(call.ctx, || self.inner.first_chunk(call));
    }

    pub(super) fn leg_begins(&self, ctx: &TurnContext) {
        self.metered(ctx, || self.inner.leg_begins(ctx));
    }

    pub(super) fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        self.metered(ctx, || self.inner.leg_over(ctx, outcome));
    }

    pub(super) fn after(&self, call: &Call<'_>, over: Over<'_>, context: Context) {
        self.metered(call.ctx, || self.inner.after(call, over, context));
    }

    fn metered<T>(&self, ctx: &TurnContext, callback: impl FnOnce() -> T) -> Option<T> {
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let called = catch_unwind(AssertUnwindSafe(callback));
        let took = clock.instant().saturating_duration_since(began);
        self.calls.fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        match called {
            Ok(out) => Some(out),
            Err(panic) => {
                self.panics.fetch_add(1, Relaxed);
                tracing::warn!("an instrumentation panicked: {}", panic_text(&*panic));
                None
            }
        }
    }
}

/// What a call is given.
#[derive(Clone, Copy)]
pub enum Given<'a> {
    AgentRun(&'a [Part]),
    ModelCall(&'a LlmRequest),
    ToolCall(&'a ToolCall),
    Code(&'a CodeCell),
}

/// What a call was given, and how it ended.
#[derive(Clone)]
pub enum Over<'a> {
    AgentRun(Ended<'a, LegOutcome>),
    ModelCall(&'a LlmRequest, Ended<'a, LlmResponse>),
    ToolCall(&'a ToolCall, Ended<'a, ToolResult>),
    Code(&'a CodeCell, Ended<'a, CodeResult>),
}

/// The object-safe twin of [`Instrumentation`].
trait Erased: Send + Sync {
    fn before(&self, call: &Call<'_>, given: Given<'_>) -> Context;
    fn request(&self, call: &Call<'_>, request: &LlmRequest);
    fn first_chunk(&self, call: &Call<'_>);
    fn leg_begins(&self, ctx: &TurnContext);
    fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>);
    fn after(&self, call: &Call<'_>, over: Over<'_>, context: Context);
}

impl<I: Instrumentation> Erased for I {
    fn before(&self, call: &Call<'_>, given: Given<'_>) -> Context {
        let context = match given {
            Given::AgentRun(input) => self.before_agent_run(call, input),
            Given::ModelCall(request) => self.before_model_call(call, request),
            Given::ToolCall(tool) => self.before_tool_call(call, tool),
            Given::Code(cell) => self.before_code(call, cell),
        };
        context.map(|context| Box::new(context) as Box<dyn Any + Send>)
    }

    fn request(&self, call: &Call<'_>, request: &LlmRequest) {
        self.on_request(call, request);
    }

    fn first_chunk(&self, call: &Call<'_>) {
        self.on_first_chunk(call);
    }

    fn leg_begins(&self, ctx: &TurnContext) {
        Instrumentation::leg_begins(self, ctx);
    }

    fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        Instrumentation::leg_over(self, ctx, outcome);
    }

    fn after(&self, call: &Call<'_>, over: Over<'_>, context: Context) {
        let context = context.and_then(|context| context.downcast().ok()).map(|context| *context);
        match over {
            Over::AgentRun(ended) => self.after_agent_run(call, ended, context),
            Over::ModelCall(request, ended) => self.after_model_call(call, request, ended, context),
            Over::ToolCall(tool, ended) => self.after_tool_call(call, tool, ended, context),
            Over::Code(cell, ended) => self.after_code(call, cell, ended, context),
        }
    }
}
