//! Instrumentation: paired callbacks around the innermost core of an agent run, a model call, a tool call and a code cell,
//! for whoever times and traces. It sees what the layers made of a call, changes nothing, and hands a value of its own from
//! the callback before to the one after.
//!
//! The callback after follows whenever the one before was invoked, whatever ended the call: an answer, an error, a panic, a
//! cancel, or that its future was dropped. A call that a layer answered in its place has neither. A leg has a pair of its own,
//! around everything: [`Instrumentation::leg_begins`] and [`Instrumentation::leg_over`].
//!
//! ```
//! use turnwright_core::{ToolCall, ToolResult, clock::Instant};
//! use turnwright_hook::instrument::{Call, Ended, Instrumentation};
//!
//! struct Timing;
//! impl Instrumentation for Timing {
//!     type Context = Instant;
//!     fn before_tool_call(&self, call: &Call<'_>, _: &ToolCall) -> Option<Instant> {
//!         Some(call.ctx.sources().clock.instant())
//!     }
//!     fn after_tool_call(
//!         &self,
//!         call: &Call<'_>,
//!         tool: &ToolCall,
//!         ended: Ended<'_, ToolResult>,
//!         began: Option<Instant>,
//!     ) {
//!         let took = began.map(|began| call.ctx.sources().clock.instant().saturating_duration_since(began));
//!         println!("{} took {took:?}: {}", tool.name, ended.word());
//!     }
//! }
//! ```

mod ended;
mod meter;
mod scope;
mod watch;

use std::{fmt, sync::Arc};

use turnwright_core::{BoxFuture, CodeCell, CodeResult, LegOutcome, Part, ToolCall, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

pub use ended::{Ended, Failure};
pub use meter::Overhead;
pub use scope::{CallScope, Scoped, follow};
pub use watch::kind;

use crate::shelf::Shelf;
use meter::Metered;

/// A call that is watched.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The turn it is a part of.
    pub ctx: &'a TurnContext,
    /// Its own name, and that of the call it is a part of.
    pub scope: CallScope,
}

/// Callbacks around calls. Each does nothing unless it is written. All are synchronous and run in the turn: one that takes
/// long delays it. A panic is caught, counted and logged.
///
/// What is remembered from before to after is the context; it may be none, and it is none after a callback that panicked.
/// It is dropped with the call.
pub trait Instrumentation: Send + Sync + 'static {
    /// What the callbacks before hand to those after.
    type Context: Send + 'static;

    /// A leg is about to be spawned. Called where it was started, in the task of whoever started it, so that what is current
    /// there can be kept: a trace, a request's id. [`Self::leg_over`] follows.
    fn leg_begins(&self, ctx: &TurnContext) {
        let _ = ctx;
    }

    /// A leg is over: after its last hook and its last save, right before whoever started it is told. Called once a leg that
    /// began, whatever ended it, also when the async runtime goes away and no hook fires any more. The outcome is none when the
    /// leg could not be spawned, and so never was one.
    fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        let _ = (ctx, outcome);
    }

    /// A leg's work begins; the input is what the layers of `AgentRun` made of the turn's first message.
    fn before_agent_run(&self, call: &Call<'_>, input: &[Part]) -> Option<Self::Context> {
        let _ = (call, input);
        None
    }

    /// A leg's work ended. The points of the unwinding fire after it.
    fn after_agent_run(&self, call: &Call<'_>, ended: Ended<'_, LegOutcome>, context: Option<Self::Context>) {
        let _ = (call, ended, context);
    }

    /// A model is about to be asked: once an attempt, with what the layers made of the request.
    fn before_model_call(&self, call: &Call<'_>, request: &LlmRequest) -> Option<Self::Context> {
        let _ = (call, request);
        None
    }

    /// The request as the client gets it, right before it is sent. Unlike [`Self::before_model_call`]'s it asks by a tool for
    /// an answer of a form that the client's format does not know.
    fn on_request(&self, call: &Call<'_>, request: &LlmRequest) {
        let _ = (call, request);
    }

    /// The first piece of an answer arrived: text, reasoning, or a call. At most once an attempt.
    fn on_first_chunk(&self, call: &Call<'_>) {
        let _ = call;
    }

    /// An attempt at a model call ended: its stream is closed.
    fn after_model_call(
        &self,
        call: &Call<'_>,
        request: &LlmRequest,
        ended: Ended<'_, LlmResponse>,
        context: Option<Self::Context>,
    ) {
        let _ = (call, request, ended, context);
    }

    /// A tool is about to be entered, with the arguments that were allowed.
    fn before_tool_call(&self, call: &Call<'_>, tool: &ToolCall) -> Option<Self::Context> {
        let _ = (call, tool);
        None
    }

    /// A tool returned, or was left. A result may say that the call waits, or failed.
    fn after_tool_call(
        &self,
        call: &Call<'_>,
        tool: &ToolCall,
        ended: Ended<'_, ToolResult>,
        context: Option<Self::Context>,
    ) {
        let _ = (call, tool, ended, context);
    }

    /// A code cell is about to be executed.
    fn before_code(&self, call: &Call<'_>, cell: &CodeCell) -> Option<Self::Context> {
        let _ = (call, cell);
        None
    }

    /// A code cell was executed, or left.
    fn after_code(
        &self,
        call: &Call<'_>,
        cell: &CodeCell,
        ended: Ended<'_, CodeResult>,
        context: Option<Self::Context>,
    ) {
        let _ = (call, cell, ended, context);
    }
}

/// What instrumentation an agent has: any number, each with contexts of its own, called in the order they were added, before
/// and after. Clones are the same.
#[derive(Clone, Default)]
pub struct Instruments(Arc<Shelf<Metered>>);

impl Instruments {
    /// Adds one. Calls under way keep those they began with.
    pub fn register(&self, instrumentation: impl Instrumentation) -> Instrument {
        let metered = Arc::new(Metered::new(instrumentation));
        self.0.push(metered.clone());
        Instrument { shelf: self.0.clone(), metered }
    }

    /// Adds those of others, in their order, that are not here yet: for agents that an agent starts.
    pub fn inherit(&self, from: &Self) {
        self.0.extend(&from.0.list());
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names, which are those of their types, in the order in which they are called.
    pub fn plan(&self) -> Vec<&'static str> {
        self.0.list().iter().map(|metered| metered.name()).collect()
    }

    /// What all of them cost so far.
    pub fn overhead(&self) -> Overhead {
        self.0.list().iter().map(|metered| metered.overhead()).sum()
    }

    /// Watches a call: for runtimes and executors. The work is polled in a scope of its own, under the current one. With no
    /// instrumentation it is the work and nothing else.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work; the callbacks after follow.
    pub fn watch<'a, K, E>(
        &'a self,
        ctx: &'a TurnContext,
        given: &'a K::In,
        failure: fn(&E) -> Failure<'_>,
        work: impl Future<Output = Result<K::Out, E>> + Send + 'a,
    ) -> impl Future<Output = Result<K::Out, E>> + Send + 'a
    where
        K: watch::Kind,
        E: Send + 'a,
    {
        if self.is_empty() {
            return watch::Watched::Plain { work };
        }
        let watched: BoxFuture<'a, _> =
            Box::pin(watch::watch::<K, E>(self.0.list(), ctx, given, failure, work));
        watch::Watched::Watched { watched }
    }

    /// Calls [`Instrumentation::on_request`] in the current call: for runtimes. Outside of one nothing is done.
    pub fn request(&self, ctx: &TurnContext, request: &LlmRequest) {
        self.in_call(ctx, |metered, call| metered.request(call, request));
    }

    /// Calls [`Instrumentation::on_first_chunk`] in the current call: for runtimes. Outside of one nothing is done.
    pub fn first_chunk(&self, ctx: &TurnContext) {
        self.in_call(ctx, Metered::first_chunk);
    }

    fn in_call(&self, ctx: &TurnContext, tell: impl Fn(&Metered, &Call<'_>)) {
        if self.is_empty() {
            return;
        }
        let Some(scope) = CallScope::current() else { return };
        for metered in &*self.0.list() {
            tell(metered, &Call { ctx, scope });
        }
    }

    /// Calls [`Instrumentation::leg_begins`]: for runtimes.
    pub fn leg_begins(&self, ctx: &TurnContext) {
        for metered in &*self.0.list() {
            metered.leg_begins(ctx);
        }
    }

    /// Calls [`Instrumentation::leg_over`]: for runtimes.
    pub fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        for metered in &*self.0.list() {
            metered.leg_over(ctx, outcome);
        }
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instruments({})", self.0.list().len())
    }
}

/// An instrumentation that was added. Dropping this leaves it where it is.
#[derive(Clone)]
pub struct Instrument {
    shelf: Arc<Shelf<Metered>>,
    metered: Arc<Metered>,
}

impl Instrument {
    /// Removes it, and no other. Calls that it saw begin it also sees end. A second time does nothing.
    pub fn remove(&self) {
        self.shelf.take_off(&self.metered);
    }

    /// What it cost so far.
    pub fn overhead(&self) -> Overhead {
        self.metered.overhead()
    }

    /// Removes it when dropped.
    pub fn into_guard(self) -> InstrumentGuard {
        InstrumentGuard(self)
    }
}

impl fmt::Debug for Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.overhead().fmt(f)
    }
}

/// Removes an instrumentation when dropped, also on panic.
#[derive(Debug)]
#[must_use = "the instrumentation is removed when this is dropped"]
pub struct InstrumentGuard(Instrument);

impl Drop for InstrumentGuard {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests;
