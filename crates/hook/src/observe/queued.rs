//! Observers that wait: behind a bounded queue, so that no turn waits for them.

use std::{
    any::Any,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::{mpsc, watch};
use turnwright_core::{panic::panic_text, short_name};

use super::{Answer, Observed, Observers, Subscription};

/// An observer behind a queue; see [`Observers::queued`]. Dropping this leaves it where it is.
#[derive(Debug, Clone)]
pub struct Queued {
    subscription: Subscription,
    counts: Arc<Counts>,
    handled: watch::Receiver<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    queued: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// What became of what an observer behind a queue was to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// Events that were queued.
    pub queued: u64,
    /// Of these, events that were handled, whatever came of it.
    pub handled: u64,
    /// Of these, events whose handling failed or panicked. Each is logged as a warning.
    pub failed: u64,
    /// Events that were not queued: the queue was full, or its worker gone.
    pub dropped: u64,
}

/// The worker of a queue was dropped before it had handled what was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue's worker is gone, and {left} events were not handled")]
pub struct QueueGone {
    /// Events that were queued and not handled.
    pub left: u64,
}

impl<E: Observed> Observers<E> {
    /// An observer that may wait. Its events (of one kind, or all) wait in a queue of this many; while it is full further
    /// ones are dropped and counted, and no turn waits.
    ///
    /// The second value is its worker. Whoever spawns it owns it: it handles one event after the other, in the order they
    /// were told, until the observer was removed, or the observers are gone, and the queue is empty. Dropped before that,
    /// it drops the event it handles and those that wait.
    pub fn queued<F, Fut>(
        &self,
        name: Option<E::Name>,
        capacity: NonZeroUsize,
        mut observer: F,
    ) -> (Queued, impl Future<Output = ()> + Send + use<E, F, Fut>)
    where
        F: FnMut(Arc<E>) -> Fut + Send + 'static,
        Fut: Future<Output: Answer> + Send,
    {
        // The queue's own capacity must not panic: beyond its most there is no bound that matters.
        let capacity = capacity.get().min(tokio::sync::Semaphore::MAX_PERMITS);
        let (queue, mut waiting) = mpsc::channel::<Arc<E>>(capacity);
        let (done, handled) = watch::channel(0);
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        let subscription = self.add(name, (short_name::<F>(), Some(capacity)), move |event| {
            let count = match queue.try_send(event.clone()) {
                Ok(()) => &counted.queued,
                Err(_) => &counted.dropped,
            };
            count.fetch_add(1, SeqCst);
            None
        });
        let counted = counts.clone();
        let worker = async move {
            while let Some(event) = waiting.recv().await {
                let begun = catch_unwind(AssertUnwindSafe(|| observer(event)));
                if let Some(why) = failure_of(begun).await {
                    counted.failed.fetch_add(1, Relaxed);
                    tracing::warn!("an observer behind a queue failed: {why}");
                }
                done.send_modify(|handled| *handled += 1);
            }
        };
        (Queued { subscription, counts, handled }, worker)
    }
}

impl Queued {
    /// Removes the observer: nothing more is queued, and the worker ends when it has handled what waits.
    pub fn remove(&self) {
        self.subscription.remove();
    }

    /// What became of its events.
    pub fn stats(&self) -> QueueStats {
        QueueStats {
            queued: self.counts.queued.load(SeqCst),
            handled: *self.handled.borrow(),
            failed: self.counts.failed.load(Relaxed),
            dropped: self.counts.dropped.load(SeqCst),
        }
    }

    /// Waits until everything that was queued before is handled. What was dropped is not waited for.
    ///
    /// # Errors
    /// [`QueueGone`] when the worker is gone before.
    ///
    /// # Cancel safety
    /// Safe: ask again.
    pub async fn flush(&self) -> Result<(), QueueGone> {
        let (queued, mut handled) = (self.counts.queued.load(SeqCst), self.handled.clone());
        let flushed = handled.wait_for(|handled| *handled >= queued).await.is_ok();
        let left = queued.saturating_sub(*self.handled.borrow());
        if flushed || left == 0 { Ok(()) } else { Err(QueueGone { left }) }
    }
}

/// Why the handling of an event failed, if it did.
async fn failure_of<Fut: Future<Output: Answer>>(begun: Result<Fut, Panic>) -> Option<String> {
    let handled = match begun {
        Ok(future) => Caught { future }.await,
        Err(panic) => Err(panic),
    };
    match handled {
        Ok(answer) => answer.failure(),
        Err(panic) => Some(format!("it panicked: {}", panic_text(&*panic))),
    }
}

type Panic = Box<dyn Any + Send>;

pin_project! {
    struct Caught<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Ready(out)) => Poll::Ready(Ok(out)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
