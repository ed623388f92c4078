//! The spans of one leg. They live here and nowhere else: whatever ended the leg, what is still open is ended from here,
//! children before parents.
//!
//! The lock is held for looking and moving only: spans are started and ended outside of it, since that runs samplers and
//! processors, which are the embedder's.

mod chat;
mod root;
mod tool;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Array, Context, KeyValue, StringValue, Value,
    trace::{Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _},
};
use opentelemetry_sdk::trace::Span;
use parking_lot::Mutex;
use turnwright_core::{
    CallId, CancelCause, CancelKind, Clock, ErrorKind, Timestamp, TurnContext, clock::Instant, id::Id,
};
use turnwright_hook::instrument::CallScope;

use crate::{conventions as names, traces::Shared};

/// Wall clock time that only moves forward: read once, and counted on by the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct Anchor {
    wall: SystemTime,
    instant: Instant,
}

impl Anchor {
    fn new(clock: &dyn Clock) -> Self {
        // Before 1970 it stands at its beginning.
        let since = Duration::try_from(clock.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
        Self { wall: SystemTime::UNIX_EPOCH + since, instant: clock.instant() }
    }

    fn now(&self, clock: &dyn Clock) -> SystemTime {
        self.wall + clock.instant().saturating_duration_since(self.instant)
    }
}

/// The call of another leg, in this process, that started this one.
struct StartedBy {
    leg: Arc<Leg>,
    call: CallId,
    span: SpanContext,
}

pub(crate) struct Leg {
    shared: Arc<Shared>,
    number: u32,
    clock: Arc<dyn Clock>,
    anchor: Anchor,
    agent: String,
    /// On every span.
    common: Vec<KeyValue>,
    /// What was current where the leg was started.
    caller: SpanContext,
    started_by: Option<StartedBy>,
    spans: Mutex<Spans>,
}

/// What is open, and what later spans must know of earlier ones. Bounded by what one leg has at once.
#[derive(Default)]
struct Spans {
    root: Option<Span>,
    /// Known as long as the leg, also when its root was sampled out.
    root_context: Option<SpanContext>,
    iteration: Option<Span>,
    asked: Option<chat::Asked>,
    chat: Option<chat::Chat>,
    tools: Vec<tool::ToolSpan>,
    /// Of this leg's calls, for agents that they start.
    calls: HashMap<CallId, SpanContext>,
    /// The batch, as the gate and people decided about it.
    batch: BTreeMap<CallId, tool::Gated>,
    /// Nothing is opened any more.
    is_over: bool,
}

/// What went wrong, as a span says it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A word of few.
    Error(String),
    /// Somebody stopped it.
    Cancelled,
}

impl Fault {
    pub(crate) fn of_kind(kind: ErrorKind) -> Self {
        if kind == ErrorKind::Cancelled { Self::Cancelled } else { Self::Error(kind.name()) }
    }

    /// Without a cause it was dropped by somebody.
    pub(crate) fn of_cause(cause: Option<&CancelCause>) -> Self {
        match cause.map(|cause| cause.kind) {
            Some(CancelKind::Deadline) => Self::of_kind(ErrorKind::DeadlineExceeded),
            Some(CancelKind::Budget) => Self::of_kind(ErrorKind::LimitReached),
            _ => Self::Cancelled,
        }
    }
}

/// A span and when it ended.
type Ended = (Span, SystemTime);

fn end_all(ended: impl IntoIterator<Item = Ended>) {
    for (mut span, at) in ended {
        span.end_with_timestamp(at);
    }
}

impl Leg {
    /// Called where the leg is started: what is current there is its parent, not what is current where it runs.
    pub(crate) fn begin(shared: &Arc<Shared>, ctx: &TurnContext) -> Arc<Self> {
        let clock = ctx.sources().clock.clone();
        let started_by = ctx.parent().and_then(|parent| {
            let leg = shared.leg_of(parent.turn)?;
            let span = leg.agent_begins(&parent.call, ctx.agent())?;
            Some(StartedBy { leg, call: parent.call.clone(), span })
        });
        // Times of one tree come from one reading of the wall clock.
        let anchor = started_by.as_ref().map_or_else(|| Anchor::new(&*clock), |by| by.leg.anchor);
        let session = ctx.session().as_str().to_owned();
        let mut common = vec![
            KeyValue::new(names::CONVERSATION, session.clone()),
            KeyValue::new(names::SESSION, session),
            KeyValue::new(names::AGENT, ctx.agent().to_owned()),
        ];
        common.extend(shared.user(ctx).map(|user| KeyValue::new(names::USER, user)));
        Arc::new(Self {
            shared: shared.clone(),
            number: ctx.leg(),
            agent: ctx.agent().to_owned(),
            caller: Context::current().span().span_context().clone(),
            clock,
            anchor,
            common,
            started_by,
            spans: Mutex::default(),
        })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    fn now(&self) -> SystemTime {
        self.anchor.now(&*self.clock)
    }

    /// Starts a span with what every one has.
    fn start(
        &self,
        (name, kind): (String, SpanKind),
        parent: &SpanContext,
        at: SystemTime,
        mut attributes: Vec<KeyValue>,
        links: Vec<Link>,
    ) -> Span {
        attributes.extend_from_slice(&self.common);
        let tracer = self.shared.tracer();
        let builder = tracer
            .span_builder(name)
            .with_kind(kind)
            .with_start_time(at)
            .with_attributes(attributes)
            .with_links(links);
        // An explicit parent, and none of what happens to be current.
        let mut cx = Context::new();
        if parent.is_valid() {
            cx = cx.with_remote_span_context(parent.clone());
        }
        builder.start_with_context(tracer, &cx)
    }

    fn mark(&self, span: &mut Span, fault: &Fault) {
        let word = match fault {
            Fault::Error(word) => word.clone(),
            Fault::Cancelled if !self.shared.settings.cancel_as_error => return,
            Fault::Cancelled => ErrorKind::Cancelled.name(),
        };
        span.set_attribute(KeyValue::new(names::ERROR_TYPE, word));
        // No words: they may repeat what was said.
        span.set_status(Status::error(""));
    }

    /// An iteration begins; the one before is over.
    pub(crate) fn iteration_begins(&self, ctx: &TurnContext) {
        self.iteration_ends();
        let Some(root) = self.open_root(ctx) else { return };
        let n = i64::from(ctx.iteration());
        let name = (format!("iteration {n}"), SpanKind::Internal);
        let span = self.start(name, &root, self.now(), vec![KeyValue::new(names::ITERATION, n)], Vec::new());
        self.spans.lock().iteration = Some(span);
    }

    pub(crate) fn iteration_ends(&self) {
        let open = self.spans.lock().iteration.take();
        end_all(open.map(|span| (span, self.now())));
    }
}

fn strings(key: &'static str, values: Vec<String>) -> KeyValue {
    let values: Vec<StringValue> = values.into_iter().map(Into::into).collect();
    KeyValue::new(key, Value::Array(Array::String(values)))
}

fn tokens(key: &'static str, count: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(count).unwrap_or(i64::MAX))
}

/// Spans are looked for by the call that has them.
type Scope = Id<CallScope>;
