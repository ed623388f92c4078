//! Exactly one terminal event a stream, by construction.
//!
//! An [`EventStream`] is made only by [`OneTerminal`] (at the provider's edge) or [`Legal`] (round each layer). Both
//! yield one terminal event, drop what is inside before anybody sees it, and are exhausted for ever after.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::Stream;
use pin_project_lite::pin_project;
use tokio_util::sync::WaitForCancellationFutureOwned;
use turnwright_core::{CancelToken, ErrorInfo, ErrorKind, panic::panic_text};

use crate::{LlmEvent, StreamItem, ToolProgress};

/// Where the progress lane goes. Called while the stream is polled: it must be short.
pub type ProgressSink = Arc<dyn Fn(ToolProgress) + Send + Sync>;

/// A stream of events that ends with exactly one terminal event.
pub struct EventStream<'a>(Pin<Box<dyn Stream<Item = LlmEvent> + Send + 'a>>);

impl<'a> EventStream<'a> {
    /// A provider's stream, made to end exactly once.
    pub fn provider<S>(inner: S, cancel: &CancelToken, progress: Option<ProgressSink>) -> Self
    where
        S: Stream<Item = StreamItem> + Send + 'a,
    {
        Self(Box::pin(OneTerminal::new(inner, cancel, progress)))
    }

    /// A layer's stream, made to end exactly once. `who` names the layer in failures.
    pub fn layer<S>(inner: S, who: &'a str) -> Self
    where
        S: Stream<Item = LlmEvent> + Send + 'a,
    {
        Self(Box::pin(Legal::new(inner, who)))
    }

    /// A stream of nothing but this failure.
    pub fn failed(error: ErrorInfo) -> Self {
        Self(Box::pin(futures::stream::iter([LlmEvent::failure(error)])))
    }
}

impl Stream for EventStream<'_> {
    type Item = LlmEvent;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LlmEvent>> {
        self.0.as_mut().poll_next(cx)
    }
}

pin_project! {
    /// At the provider's edge: end of file, panic and cancel become the one terminal event.
    ///
    /// A cancel is seen first, also while the provider is silent; the waker for it is registered only then.
    pub struct OneTerminal<S> {
        #[pin] inner: Option<S>,
        cancel: CancelToken,
        #[pin] cancelled: WaitForCancellationFutureOwned,
        progress: Option<ProgressSink>,
    }
}

impl<S> OneTerminal<S> {
    /// Wraps a provider's stream.
    pub fn new(inner: S, cancel: &CancelToken, progress: Option<ProgressSink>) -> Self {
        Self { inner: Some(inner), cancelled: cancel.signal_owned(), cancel: cancel.clone(), progress }
    }
}

impl<S: Stream<Item = StreamItem>> Stream for OneTerminal<S> {
    type Item = LlmEvent;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LlmEvent>> {
        let mut this = self.project();
        let event = loop {
            let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
            if this.cancel.is_cancelled() {
                break cancelled(this.cancel);
            }
            match catch_unwind(AssertUnwindSafe(|| inner.poll_next(cx))) {
                Ok(Poll::Ready(Some(StreamItem::Event(event)))) => break event,
                Ok(Poll::Ready(Some(StreamItem::Progress(progress)))) => {
                    // A sink is for display only: when it panics, the answer goes on without it.
                    if let Some(sink) = this.progress
                        && catch_unwind(AssertUnwindSafe(|| sink(progress))).is_err()
                    {
                        drop_sink(this.progress);
                    }
                }
                Ok(Poll::Ready(None)) => {
                    let message = "the stream ended without a terminal event";
                    break LlmEvent::failure(ErrorInfo::new(ErrorKind::Truncated, message));
                }
                Ok(Poll::Pending) => {
                    ready!(this.cancelled.as_mut().poll(cx));
                    break cancelled(this.cancel);
                }
                Err(panic) => {
                    let message = format!("the model client panicked: {}", panic_text(&*panic));
                    break LlmEvent::failure(ErrorInfo::new(ErrorKind::Panic, message));
                }
            }
        };
        if event.is_terminal() {
            drop_quietly(this.inner);
        }
        Poll::Ready(Some(event))
    }
}

fn cancelled(token: &CancelToken) -> LlmEvent {
    let message = token.cause().map_or_else(|| "cancelled".into(), |c| c.to_string());
    LlmEvent::failure(ErrorInfo::new(ErrorKind::Cancelled, message))
}

pin_project! {
    /// Round a layer's own stream: a layer that eats the terminal event, adds after it, or panics ends in one failure
    /// that names it.
    pub struct Legal<'a, S> {
        #[pin] inner: Option<S>,
        who: &'a str,
    }
}

impl<'a, S> Legal<'a, S> {
    /// Wraps the stream of the layer of this name.
    pub fn new(inner: S, who: &'a str) -> Self {
        Self { inner: Some(inner), who }
    }
}

impl<S: Stream<Item = LlmEvent>> Stream for Legal<'_, S> {
    type Item = LlmEvent;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LlmEvent>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let event = match catch_unwind(AssertUnwindSafe(|| inner.poll_next(cx))) {
            Ok(poll) => match ready!(poll) {
                Some(event) => event,
                None => {
                    let message = format!("{} ended the stream without a terminal event", this.who);
                    LlmEvent::failure(ErrorInfo::new(ErrorKind::Interceptor, message))
                }
            },
            Err(panic) => {
                let message = format!("{} panicked: {}", this.who, panic_text(&*panic));
                LlmEvent::failure(ErrorInfo::new(ErrorKind::Panic, message))
            }
        };
        if event.is_terminal() {
            drop_quietly(this.inner);
        }
        Poll::Ready(Some(event))
    }
}

/// Drops what is inside before the terminal event is seen; a panic in a destructor must not become a second ending.
fn drop_quietly<S>(mut slot: Pin<&mut Option<S>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| slot.set(None)));
}

fn drop_sink(sink: &mut Option<ProgressSink>) {
    let sink = sink.take();
    let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FinishReason;
    use futures::{FutureExt, StreamExt, stream};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use turnwright_core::CancelCause;

    fn items(events: Vec<LlmEvent>) -> impl Stream<Item = StreamItem> + Send + Unpin {
        stream::iter(events.into_iter().map(StreamItem::Event))
    }
    fn drain(s: EventStream<'_>) -> Vec<LlmEvent> {
        s.collect::<Vec<_>>().now_or_never().expect("never waits")
    }
    fn kind(events: &[LlmEvent]) -> ErrorKind {
        assert_eq!(events.iter().filter(|e| e.is_terminal()).count(), 1, "{events:?}");
        match events.last() {
            Some(LlmEvent::StreamFailure(f)) => f.error.kind,
            e => panic!("{e:?}"),
        }
    }

    #[test]
    fn fault_d1_r1_7_every_ending_is_one_terminal_event_and_then_nothing() {
        let token = CancelToken::new();
        let provider = |s| EventStream::provider(s, &token, None);
        assert_eq!(kind(&drain(provider(items(vec![LlmEvent::text("a")])))), ErrorKind::Truncated);

        let twice = vec![
            LlmEvent::finish(FinishReason::Stop),
            LlmEvent::text("b"),
            LlmEvent::finish(FinishReason::Stop),
        ];
        assert_eq!(drain(provider(items(twice))).len(), 1);

        let mut s = EventStream::provider(
            stream::poll_fn(|_| -> Poll<Option<StreamItem>> { panic!("in the client") }),
            &token,
            None,
        );
        let first = s.next().now_or_never().unwrap().unwrap();
        assert_eq!(kind(&[first]), ErrorKind::Panic);
        assert_eq!(s.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_cancel_is_seen_while_the_provider_is_silent_and_drops_it_first() {
        struct Flag(Arc<AtomicUsize>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let (token, dropped) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let flag = Flag(dropped.clone());
        let silent = stream::poll_fn(move |_| {
            let _ = &flag;
            Poll::<Option<StreamItem>>::Pending
        });
        let mut s = EventStream::provider(silent, &token, None);
        assert_eq!(s.next().now_or_never(), None);
        token.cancel(CancelCause::requested("me"));
        let e = s.next().now_or_never().unwrap().unwrap();
        assert_eq!(kind(&[e]), ErrorKind::Cancelled);
        assert_eq!(dropped.load(SeqCst), 1);
    }

    #[test]
    fn a_layer_that_breaks_the_rule_ends_in_a_failure_that_names_it() {
        let events = || stream::iter([LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]);
        let eats = EventStream::layer(events().filter(|e| std::future::ready(!e.is_terminal())), "Eats");
        let out = drain(eats);
        assert_eq!(kind(&out), ErrorKind::Interceptor);
        assert!(format!("{out:?}").contains("Eats"), "{out:?}");
        let adds = EventStream::layer(events().chain(stream::iter([LlmEvent::text("late")])), "Eats");
        assert_eq!(drain(adds).len(), 2);
        let panics = EventStream::layer(
            events().map(|e| match e.is_terminal() {
                true => panic!("in the layer"),
                false => e,
            }),
            "Eats",
        );
        assert_eq!(kind(&drain(panics)), ErrorKind::Panic);
    }

    #[test]
    fn progress_goes_beside_the_events() {
        let seen = Arc::new(parking_lot_free::Log::default());
        let sink = seen.clone();
        let progress = ToolProgress::Started { id: "c".into(), name: "t".into() };
        let s = stream::iter([
            StreamItem::Progress(progress.clone()),
            LlmEvent::finish(FinishReason::Stop).into(),
        ]);
        let token = CancelToken::new();
        let out = drain(EventStream::provider(s, &token, Some(Arc::new(move |p| sink.push(p)))));
        assert_eq!(out.len(), 1);
        assert_eq!(seen.take(), [progress]);
    }

    #[test]
    fn a_sink_that_panics_is_dropped_and_the_stream_goes_on() {
        let progress = || ToolProgress::Started { id: "c".into(), name: "t".into() };
        let items = [
            StreamItem::Progress(progress()),
            StreamItem::Progress(progress()),
            LlmEvent::finish(FinishReason::Stop).into(),
        ];
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let sink: ProgressSink = Arc::new(move |_| {
            counted.fetch_add(1, SeqCst);
            panic!("in the sink")
        });
        let out = drain(EventStream::provider(stream::iter(items), &CancelToken::new(), Some(sink)));
        assert_eq!(out, [LlmEvent::finish(FinishReason::Stop)]);
        assert_eq!((calls.load(SeqCst), Arc::strong_count(&calls)), (1, 1));
    }

    mod parking_lot_free {
        use super::ToolProgress;
        #[derive(Default)]
        pub(super) struct Log(std::sync::Mutex<Vec<ToolProgress>>);
        impl Log {
            pub(super) fn push(&self, p: ToolProgress) {
                self.0.lock().unwrap().push(p);
            }
            pub(super) fn take(&self) -> Vec<ToolProgress> {
                std::mem::take(&mut *self.0.lock().unwrap())
            }
        }
    }
}
