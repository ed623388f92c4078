//! A time limit that costs nothing for hooks that never wait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::Sleep;
use turnwright_core::panic::panic_text;

/// How a limited call ended.
pub(crate) enum Limited<T> {
    Done(T),
    TimedOut,
    Panicked(String),
}

pin_project! {
    /// Polls once, and arms a timer only if that was not enough. A limit of zero means: polled once.
    pub(crate) struct Limit<F> {
        #[pin] inner: Option<F>,
        limit: Duration,
        #[pin] timer: Option<Sleep>,
    }
}

impl<F> Limit<F> {
    pub(crate) fn new(inner: F, limit: Duration) -> Self {
        Self { inner: Some(inner), limit, timer: None }
    }
}

impl<F: Future> Future for Limit<F> {
    type Output = Limited<F::Output>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Pending };
        let ended = match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(Poll::Ready(out)) => Limited::Done(out),
            Err(panic) => Limited::Panicked(panic_text(&*panic).to_owned()),
            Ok(Poll::Pending) => {
                if !this.limit.is_zero() {
                    if this.timer.is_none() {
                        this.timer.set(Some(tokio::time::sleep(*this.limit)));
                    }
                    let timer = this.timer.as_mut().as_pin_mut();
                    if timer.is_some_and(|timer| timer.poll(cx).is_pending()) {
                        return Poll::Pending;
                    }
                }
                Limited::TimedOut
            }
        };
        // What it says on its way out changes nothing: how it ended is known.
        let _ = catch_unwind(AssertUnwindSafe(|| this.inner.set(None)));
        Poll::Ready(ended)
    }
}
