//! The handle: settings, and the legs that run.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use opentelemetry::{InstrumentationScope, trace::TracerProvider as _};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use parking_lot::Mutex;
use turnwright_core::{LegOutcome, TurnContext, TurnId};
use turnwright_hook::{
    HookSpec,
    instrument::{CallScope, Instrumentation},
};
use turnwright_interceptor::builtin::Redactor;

use crate::{Content, Tier, TraceHeaders, hooks, instrument::SpanInstrument, leg::Leg};

/// Who the user of a turn is.
type UserOf = Arc<dyn Fn(&TurnContext) -> Option<String> + Send + Sync>;

/// Texts that are not content are cut here: who cancelled, and why.
const SHORT_TEXT: usize = 256;

/// Spans of the turns of any number of agents. Cheap to clone; clones are the same.
///
/// Each agent needs both parts: `.hooks(traces.hooks()).instrument(traces.instrument())`. An agent that is built with `inherit`
/// has its parent's instrumentation, and needs the hooks.
#[derive(Clone)]
pub struct Traces(Arc<Shared>);

pub(crate) struct Shared {
    tracer: SdkTracer,
    pub(crate) settings: Settings,
    /// The legs that run. Turns have ids of their own, so a parent and a child in one trace are two entries.
    legs: Mutex<HashMap<TurnId, Arc<Leg>>>,
}

pub(crate) struct Settings {
    pub(crate) tier: Tier,
    pub(crate) cancel_as_error: bool,
    pub(crate) resume_in_trace: Duration,
    pub(crate) older_names: bool,
    pub(crate) content: Content,
    pub(crate) redactor: Option<Arc<dyn Redactor>>,
    pub(crate) user: Option<UserOf>,
}

impl Traces {
    /// Sets up the standard tier, without content.
    pub fn builder() -> TracesBuilder {
        TracesBuilder(Settings {
            tier: Tier::default(),
            cancel_as_error: true,
            resume_in_trace: Duration::from_secs(3600),
            older_names: true,
            content: Content::default(),
            redactor: None,
            user: None,
        })
    }

    /// The hooks of the tier, the root's first. To be added to an agent, with [`Traces::instrument`].
    pub fn hooks(&self) -> Vec<HookSpec> {
        hooks::of_tier(self.0.settings.tier, &self.0)
    }

    /// Opens and ends the spans of legs, model calls and tools. To be added to an agent, with [`Traces::hooks`].
    pub fn instrument(&self) -> impl Instrumentation {
        SpanInstrument(self.0.clone())
    }

    /// The headers that make a request of another service a part of this trace: the span of the tool call that the code runs
    /// in, else the leg's. None where nothing is traced.
    pub fn headers(&self, ctx: &TurnContext) -> Option<TraceHeaders> {
        let scope = CallScope::current().map(|scope| scope.id);
        TraceHeaders::of(&self.0.leg(ctx)?.span_in(scope)?)
    }

    /// How many legs run that are traced.
    pub fn open_legs(&self) -> usize {
        self.0.legs.lock().len()
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("tier", &self.0.settings.tier).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn tracer(&self) -> &SdkTracer {
        &self.tracer
    }

    pub(crate) fn redactor(&self) -> Option<&dyn Redactor> {
        self.settings.redactor.as_deref()
    }

    pub(crate) fn user(&self, ctx: &TurnContext) -> Option<String> {
        self.settings.user.as_ref().and_then(|user| user(ctx))
    }

    /// A text that is not content, without what must not be seen.
    pub(crate) fn short(&self, text: &str) -> String {
        let text = self.redactor().map_or_else(|| text.into(), |redactor| redactor.redact(text));
        text.chars().take(SHORT_TEXT).collect()
    }

    /// The leg of this context.
    pub(crate) fn leg(&self, ctx: &TurnContext) -> Option<Arc<Leg>> {
        self.leg_of(ctx.turn()).filter(|leg| leg.number() == ctx.leg())
    }

    /// The leg of this turn that runs.
    pub(crate) fn leg_of(&self, turn: TurnId) -> Option<Arc<Leg>> {
        self.legs.lock().get(&turn).cloned()
    }

    pub(crate) fn leg_begins(self: &Arc<Self>, ctx: &TurnContext) {
        // The same instrumentation twice, its own and the parent's: one leg.
        if self.leg(ctx).is_some() {
            return;
        }
        let leg = Leg::begin(self, ctx);
        let before = self.legs.lock().insert(ctx.turn(), leg);
        if let Some(before) = before {
            before.over(None);
        }
    }

    pub(crate) fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        let leg = {
            let mut legs = self.legs.lock();
            let is_it = legs.get(&ctx.turn()).is_some_and(|leg| leg.number() == ctx.leg());
            if is_it { legs.remove(&ctx.turn()) } else { None }
        };
        if let Some(leg) = leg {
            leg.over(outcome);
        }
    }
}

/// Builds [`Traces`].
#[must_use]
pub struct TracesBuilder(Settings);

impl TracesBuilder {
    /// How much is traced; [`Tier::Standard`] by default.
    pub fn tier(mut self, tier: Tier) -> Self {
        self.0.tier = tier;
        self
    }

    /// Whether the spans that a cancel cut are errors, of type `cancelled`. They are by default, since the conventions know no
    /// other way; without it the outcome alone says so.
    pub fn cancel_as_error(mut self, is: bool) -> Self {
        self.0.cancel_as_error = is;
        self
    }

    /// For how long after its last leg a turn goes on in the same trace: an hour by default. After that a leg begins a trace of
    /// its own, which is linked. It is linked in both cases.
    pub fn resume_in_trace(mut self, within: Duration) -> Self {
        self.0.resume_in_trace = within;
        self
    }

    /// Whether names are written too that readers which lag know. They are by default.
    pub fn older_names(mut self, are: bool) -> Self {
        self.0.older_names = are;
        self
    }

    /// What is written of what was said: nothing by default.
    pub fn content(mut self, content: Content) -> Self {
        self.0.content = content;
        self
    }

    /// Takes out of every text what this finds, before it is written: the same value as
    /// [`Redact`](turnwright_interceptor::builtin::Redact) gets.
    pub fn redact(mut self, redactor: impl Redactor) -> Self {
        self.0.redactor = Some(Arc::new(redactor));
        self
    }

    /// Says who the user of a turn is. Called once a leg, where it is started.
    pub fn user(mut self, of: impl Fn(&TurnContext) -> Option<String> + Send + Sync + 'static) -> Self {
        self.0.user = Some(Arc::new(of));
        self
    }

    /// Traces that go to this provider: the program's own, or one of theirs alone. Whoever made it shuts it down.
    pub fn build(self, provider: &SdkTracerProvider) -> Traces {
        let scope =
            InstrumentationScope::builder("turnwright").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        Traces(Arc::new(Shared { tracer, settings: self.0, legs: Mutex::default() }))
    }
}

impl fmt::Debug for TracesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracesBuilder").field("tier", &self.0.tier).finish_non_exhaustive()
    }
}
