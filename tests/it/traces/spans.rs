//! What was traced, kept in memory, checked, and drawn as text.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write,
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Array, Context, KeyValue, Value,
    trace::{SpanContext, SpanId, SpanKind, Status},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use parking_lot::Mutex;
use turnwright_trace_spans::{Tier, Traces, TracesBuilder};

/// Counts what was started, beside what was exported.
#[derive(Debug, Default, Clone)]
struct Started(Arc<Mutex<Vec<SpanContext>>>);
impl SpanProcessor for Started {
    fn on_start(&self, span: &mut Span, _: &Context) {
        use opentelemetry::trace::Span as _;
        self.0.lock().push(span.span_context().clone());
    }
    fn on_end(&self, _: SpanData) {}
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// A process's provider, with what it exported. Processes that are one test's merge what they exported.
#[derive(Clone)]
pub(crate) struct Spans {
    started: Started,
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
}

impl Spans {
    pub(crate) fn new() -> Self {
        Self::sampled(Sampler::AlwaysOn)
    }

    pub(crate) fn sampled(sampler: Sampler) -> Self {
        let (started, exporter) = (Started::default(), InMemorySpanExporter::default());
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_span_processor(started.clone())
            .with_simple_exporter(exporter.clone())
            .build();
        Self { started, exporter, provider }
    }

    pub(crate) fn traces(&self, tier: Tier) -> Traces {
        self.traces_of(Traces::builder().tier(tier))
    }

    pub(crate) fn traces_of(&self, builder: TracesBuilder) -> Traces {
        builder.build(&self.provider)
    }

    pub(crate) fn ended(&self) -> Vec<SpanData> {
        self.exporter.get_finished_spans().unwrap()
    }

    /// What holds for every trace: each span that was started ended, once; each parent is there, or of a leg before, and
    /// encloses; no key is twice on a span.
    pub(crate) fn check(&self, before: &[SpanData]) -> Result<(), String> {
        let ended = self.ended();
        let ids: HashSet<_> = ended.iter().map(|span| span.span_context.span_id()).collect();
        let started: HashSet<_> = self.started.0.lock().iter().map(SpanContext::span_id).collect();
        if ids.len() != ended.len() || ids != started {
            return Err(format!("{} started, {} ended: {}", started.len(), ended.len(), drawn(&ended)));
        }
        let all: HashMap<_, _> = before.iter().chain(&ended).map(|s| (s.span_context.span_id(), s)).collect();
        for span in &ended {
            let wrong = |what: &str| Err(format!("{}: {what} in {}", span.name, drawn(&ended)));
            let keys: HashSet<_> = span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
            if keys.len() != span.attributes.len() {
                return wrong("a key is there twice");
            }
            if span.end_time < span.start_time {
                return wrong("it ends before it begins");
            }
            if span.parent_span_id == SpanId::INVALID {
                continue;
            }
            let Some(parent) = all.get(&span.parent_span_id) else { return wrong("its parent is nowhere") };
            if parent.span_context.trace_id() != span.span_context.trace_id() {
                return wrong("its parent is in another trace");
            }
            let encloses = parent.start_time <= span.start_time && span.end_time <= parent.end_time;
            if !span.parent_span_is_remote && !encloses {
                return wrong("its parent does not enclose it");
            }
        }
        Ok(())
    }
}

pub(crate) fn attribute<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == key).map(|attribute| &attribute.value)
}

pub(crate) fn text(span: &SpanData, key: &str) -> String {
    attribute(span, key).map(|value| value.as_str().into_owned()).unwrap_or_default()
}

pub(crate) fn int(span: &SpanData, key: &str) -> i64 {
    match attribute(span, key) {
        Some(Value::I64(n)) => *n,
        Some(other) => panic!("{key} is {other:?}"),
        None => 0,
    }
}

pub(crate) fn named<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    let mut of_name = spans.iter().filter(|span| span.name == name);
    let span = of_name.next().unwrap_or_else(|| panic!("no {name} in {}", drawn(spans)));
    assert!(of_name.next().is_none(), "{name} is not one");
    span
}

/// The tree as text: times in milliseconds since the first span began, ids by the order in which they came.
pub(crate) fn drawn(spans: &[SpanData]) -> String {
    let mut drawing = Drawing {
        spans,
        began: spans.iter().map(|span| span.start_time).min().unwrap_or(SystemTime::UNIX_EPOCH),
        names: BTreeMap::new(),
        text: String::new(),
    };
    let here: HashSet<_> = spans.iter().map(|span| span.span_context.span_id()).collect();
    let mut roots: Vec<_> = spans.iter().filter(|span| !here.contains(&span.parent_span_id)).collect();
    roots.sort_by_key(|span| span.start_time);
    for root in roots {
        drawing.draw(root, 0);
    }
    drawing.text
}

struct Drawing<'a> {
    spans: &'a [SpanData],
    began: SystemTime,
    /// Ids that differ from run to run.
    names: BTreeMap<String, String>,
    text: String,
}

impl Drawing<'_> {
    fn draw(&mut self, span: &SpanData, depth: usize) {
        let indent = "  ".repeat(depth);
        let at = |time: SystemTime| time.duration_since(self.began).unwrap_or_default().as_millis();
        let kind = if span.span_kind == SpanKind::Client { "client" } else { "internal" };
        let status = match &span.status {
            Status::Error { description } => format!("error{description}"),
            status => format!("{status:?}").to_lowercase(),
        };
        let remote = if span.parent_span_is_remote { " remote" } else { "" };
        let (from, to) = (at(span.start_time), at(span.end_time));
        writeln!(self.text, "{indent}{} {kind} {status} {from}..{to}{remote}", span.name).unwrap();
        for KeyValue { key, value, .. } in &span.attributes {
            let value = self.value(key.as_str(), value);
            writeln!(self.text, "{indent}  . {key} = {value}").unwrap();
        }
        for event in &span.events.events {
            let given: Vec<_> = event
                .attributes
                .iter()
                .map(|a| format!(" {} = {}", a.key, self.value("", &a.value)))
                .collect();
            writeln!(self.text, "{indent}  ! {}{}", event.name, given.concat()).unwrap();
        }
        for link in &span.links.links {
            let to = link.span_context.span_id();
            let to = self.spans.iter().find(|span| span.span_context.span_id() == to);
            let why: Vec<_> = link.attributes.iter().map(|a| a.value.as_str().into_owned()).collect();
            let to = to.map_or("elsewhere", |span| &span.name);
            writeln!(self.text, "{indent}  > {to} ({})", why.join(" ")).unwrap();
        }
        let mut children: Vec<_> =
            self.spans.iter().filter(|s| s.parent_span_id == span.span_context.span_id()).collect();
        children.sort_by_key(|span| (span.start_time, span.end_time));
        for child in children {
            self.draw(child, depth + 1);
        }
    }

    fn value(&mut self, key: &str, value: &Value) -> String {
        match value {
            Value::Array(Array::String(items)) => {
                format!("{:?}", items.iter().map(opentelemetry::StringValue::as_str).collect::<Vec<_>>())
            }
            Value::String(text)
                if matches!(key, "turnwright.run.id" | "turnwright.turn.id" | "turnwright.approval.id") =>
            {
                let n = self.names.len() + 1;
                self.names.entry(text.as_str().into()).or_insert_with(|| format!("#{n}")).clone()
            }
            Value::String(text) => format!("{:?}", text.as_str()),
            value => value.as_str().into_owned(),
        }
    }
}
