//! Exporting off the turn's path: a bounded queue, one thread, counters.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use futures::executor::block_on;
use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};
use parking_lot::Mutex;

/// How spans are gathered. The variables are those of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// How many spans may wait: 2,048, or `OTEL_BSP_MAX_QUEUE_SIZE`. Further ones are dropped and counted.
    pub queue: usize,
    /// How many are sent at once: 512, or `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
    pub batch: usize,
    /// How long a span waits for others: 5 s, or `OTEL_BSP_SCHEDULE_DELAY` in milliseconds.
    pub delay: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { queue: 2048, batch: 512, delay: Duration::from_secs(5) }
    }
}

impl BatchLimits {
    /// As the variables say; what they do not say, or say wrongly, is as by default.
    pub fn from_env() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok().filter(|n| *n > 0);
        let usual = Self::default();
        let queue = number("OTEL_BSP_MAX_QUEUE_SIZE").unwrap_or(usual.queue);
        let batch = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").unwrap_or(usual.batch).min(queue);
        let delay = number("OTEL_BSP_SCHEDULE_DELAY").map(|ms| Duration::from_millis(ms as u64));
        Self { queue, batch, delay: delay.unwrap_or(usual.delay) }
    }
}

/// What became of spans so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportStats {
    /// Taken by the backend.
    pub exported: u64,
    /// Not taken: refused, or not sent within the exporter's time.
    pub failed: u64,
    /// Never sent, since too many waited, or came after the end.
    pub dropped: u64,
}

#[derive(Default)]
struct Counters {
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    waiting: AtomicUsize,
    is_shut: AtomicBool,
}

enum Order {
    Span(Box<SpanData>),
    Resource(Resource),
    /// Sends what waits, then answers.
    Flush(Sender<OTelSdkResult>),
    Shutdown(Sender<OTelSdkResult>, Duration),
}

/// Hands spans to an exporter on a thread of its own. Ending a span costs a turn a send into a queue, whatever the backend does. An
/// exporter that fails or panics loses its batch and nothing else.
///
/// The thread ends with [`SdkTracerProvider::shutdown`](opentelemetry_sdk::trace::SdkTracerProvider::shutdown), or when the
/// processor is dropped, after what waits was sent once. Both waits are bounded by the caller's or the exporter's time.
pub struct BatchProcessor {
    orders: Mutex<Option<Sender<Order>>>,
    limits: BatchLimits,
    counters: Arc<Counters>,
}

/// Reads what became of spans, also after the processor was given away.
#[derive(Clone)]
pub struct ExportCounters(Arc<Counters>);

impl ExportCounters {
    /// What became of spans so far.
    pub fn stats(&self) -> ExportStats {
        let Counters { exported, failed, dropped, .. } = &*self.0;
        ExportStats {
            exported: exported.load(Relaxed),
            failed: failed.load(Relaxed),
            dropped: dropped.load(Relaxed),
        }
    }
}

impl fmt::Debug for ExportCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl BatchProcessor {
    /// Starts the thread. The exporter is used and dropped there, and nowhere else.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub fn new(exporter: impl SpanExporter + 'static, limits: BatchLimits) -> std::io::Result<Self> {
        let (orders, taken) = channel();
        let counters = Arc::new(Counters::default());
        let worker = Worker { exporter, limits, counters: counters.clone(), batch: Vec::new() };
        thread::Builder::new().name("turnwright-traces".into()).spawn(move || worker.work(&taken))?;
        Ok(Self { orders: Mutex::new(Some(orders)), limits, counters })
    }

    /// What becomes of spans.
    pub fn counters(&self) -> ExportCounters {
        ExportCounters(self.counters.clone())
    }

    /// Orders something and waits for the answer.
    fn ask(&self, order: impl FnOnce(Sender<OTelSdkResult>) -> Order, within: Duration) -> OTelSdkResult {
        let (answer, answered) = channel();
        let is_sent = self.orders.lock().as_ref().is_some_and(|orders| orders.send(order(answer)).is_ok());
        if !is_sent {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        match answered.recv_timeout(within) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Err(OTelSdkError::Timeout(within)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(OTelSdkError::InternalFailure("the thread is gone".into()))
            }
        }
    }
}

impl fmt::Debug for BatchProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchProcessor").field("stats", &self.counters().stats()).finish_non_exhaustive()
    }
}

/// How long a flush may take that names no time.
const FLUSH: Duration = Duration::from_secs(5);

impl SpanProcessor for BatchProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let has_room = || {
            let room = |n: usize| (n < self.limits.queue).then_some(n + 1);
            self.counters.waiting.fetch_update(Relaxed, Relaxed, room).is_ok()
        };
        let is_taken = !self.counters.is_shut.load(Relaxed)
            && has_room()
            && self
                .orders
                .lock()
                .as_ref()
                .is_some_and(|orders| orders.send(Order::Span(Box::new(span))).is_ok());
        if !is_taken {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.ask(Order::Flush, FLUSH)
    }

    fn shutdown_with_timeout(&self, within: Duration) -> OTelSdkResult {
        if self.counters.is_shut.swap(true, Relaxed) {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        let done = self.ask(|answer| Order::Shutdown(answer, within), within);
        self.orders.lock().take();
        done
    }

    fn set_resource(&mut self, resource: &Resource) {
        if let Some(orders) = &*self.orders.lock() {
            // A thread that is gone exports nothing.
            let _ = orders.send(Order::Resource(resource.clone()));
        }
    }
}

struct Worker<E> {
    exporter: E,
    limits: BatchLimits,
    counters: Arc<Counters>,
    batch: Vec<SpanData>,
}

impl<E: SpanExporter> Worker<E> {
    fn work(mut self, orders: &Receiver<Order>) {
        loop {
            // The first of a batch is waited for as long as it takes, the others for the delay in all.
            let order = if self.batch.is_empty() {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(self.limits.delay)
            };
            match order {
                Ok(Order::Span(span)) => {
                    self.batch.push(*span);
                    if self.batch.len() >= self.limits.batch {
                        self.send().ok();
                    }
                }
                Ok(Order::Resource(resource)) => self.exporter.set_resource(&resource),
                Ok(Order::Flush(answer)) => drop(answer.send(self.send())),
                Ok(Order::Shutdown(answer, within)) => {
                    let sent = self.send();
                    let shut = self.exporter.shutdown_with_timeout(within);
                    return drop(answer.send(sent.and(shut)));
                }
                Err(RecvTimeoutError::Timeout) => drop(self.send()),
                Err(RecvTimeoutError::Disconnected) => return drop(self.send()),
            }
        }
    }

    fn send(&mut self) -> OTelSdkResult {
        let batch = std::mem::take(&mut self.batch);
        let spans = batch.len();
        if spans == 0 {
            return Ok(());
        }
        let exported = catch_unwind(AssertUnwindSafe(|| block_on(self.exporter.export(batch))));
        self.counters.waiting.fetch_sub(spans, Relaxed);
        let exported =
            exported.unwrap_or_else(|_| Err(OTelSdkError::InternalFailure("the exporter panicked".into())));
        let count = match &exported {
            Ok(()) => &self.counters.exported,
            Err(e) => {
                tracing::warn!("{spans} spans were not exported: {e}");
                &self.counters.failed
            }
        };
        count.fetch_add(spans as u64, Relaxed);
        exported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    /// Does what its gate says; the backend that the tests need.
    #[derive(Debug, Clone, Default)]
    struct Backend(Arc<Mutex<Vec<usize>>>, Arc<Mutex<()>>, bool);
    impl SpanExporter for Backend {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            drop(self.1.lock());
            let first = self.0.lock().is_empty();
            self.0.lock().push(batch.len());
            if self.2 && first {
                panic!("the exporter is broken");
            }
            Ok(())
        }
    }

    fn provider(backend: &Backend, limits: BatchLimits) -> (SdkTracerProvider, ExportCounters) {
        let batch = BatchProcessor::new(backend.clone(), limits).unwrap();
        let counters = batch.counters();
        (SdkTracerProvider::builder().with_span_processor(batch).build(), counters)
    }

    fn spans(provider: &SdkTracerProvider, n: usize) {
        (0..n).for_each(|_| provider.tracer("t").start("s").end());
    }

    fn stats(exported: u64, failed: u64, dropped: u64) -> ExportStats {
        ExportStats { exported, failed, dropped }
    }

    const LIMITS: BatchLimits = BatchLimits { queue: 8, batch: 4, delay: Duration::from_secs(3600) };

    #[test]
    fn a_backend_that_hangs_costs_spans_and_no_time_and_what_is_lost_is_counted() {
        let backend = Backend::default();
        let (provider, counters) = provider(&backend, LIMITS);
        let hangs = backend.1.lock();
        // Returns, though nobody takes anything.
        spans(&provider, 100);
        assert_eq!(counters.stats(), stats(0, 0, 92));
        let late = provider.shutdown_with_timeout(Duration::from_millis(10));
        assert!(late.unwrap_err().to_string().contains("Timeout"));
        drop(hangs);
        spans(&provider, 1);
        assert!(counters.stats().dropped >= 92);
    }

    #[test]
    fn fault_g17_an_exporter_that_panics_loses_its_batch_and_the_next_one_is_sent() {
        let backend = Backend(Arc::default(), Arc::default(), true);
        let (provider, counters) = provider(&backend, LIMITS);
        spans(&provider, 4);
        provider.force_flush().unwrap();
        spans(&provider, 3);
        provider.force_flush().unwrap();
        provider.shutdown_with_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!((counters.stats(), backend.0.lock().clone()), (stats(3, 4, 0), vec![4, 3]));
        assert!(provider.shutdown().is_err(), "a second end is none");
    }

    #[test]
    fn the_variables_bound_the_queue_and_what_is_no_number_is_as_by_default() {
        let of = |value: &str| BatchLimits::of(|_| Some(value.into()));
        assert_eq!(of("16"), BatchLimits { queue: 16, batch: 16, delay: Duration::from_millis(16) });
        assert_eq!(of("0"), BatchLimits::default());
        assert_eq!(of("many"), BatchLimits::default());
    }
}
