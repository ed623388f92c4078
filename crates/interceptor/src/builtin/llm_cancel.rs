//! Takes cancels from the control channel while a model streams.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::*},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::{Stream, task::AtomicWaker};
use pin_project_lite::pin_project;
use turnwright_control::{ControlChannel, ControlError, drain_control_channel};
use turnwright_core::TurnContext;
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest};

use crate::{AroundStream, StreamCall};

/// Ends the stream of a model at once when its turn is cancelled, before its next event and also while the provider is
/// silent.
///
/// The control channel is drained when the stream opens and after a command arrived. Between events nothing is drained
/// and nothing allocated: an event costs a look at one flag, which a command and the turn's cancel token set.
pub struct LlmCancel(Arc<dyn ControlChannel>);

impl LlmCancel {
    /// Drains this channel.
    pub fn new(channel: Arc<dyn ControlChannel>) -> Self {
        Self(channel)
    }
}

impl fmt::Debug for LlmCancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmCancel").finish_non_exhaustive()
    }
}

impl AroundStream for LlmCancel {
    fn around_stream(
        &self,
        ctx: &TurnContext,
        _request: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        // It rings once, for the drain at open.
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: AtomicWaker::new() });
        let waker = Waker::from(bell.clone());
        UntilCancelled { inner, watch: watch(&*self.0, ctx), call, bell, waker }
    }
}

/// Ready once the turn is cancelled.
async fn watch(channel: &dyn ControlChannel, ctx: &TurnContext) -> ControlError {
    let mut wakeup = channel.wakeup(ctx.session());
    let mut cancelled = pin!(ctx.cancel().signal());
    loop {
        // Also looks at the token: a cancel that another drain took is found there.
        if let Err(control) = drain_control_channel(channel, ctx) {
            return control;
        }
        let mut arrived = pin!(wakeup.arrived());
        poll_fn(|cx| match cancelled.as_mut().poll(cx) {
            Poll::Pending => arrived.as_mut().poll(cx),
            ready => ready,
        })
        .await;
    }
}

/// Notes that the watch has something to see, and wakes whoever polls the stream.
struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Release);
        self.task.wake();
    }
}

pin_project! {
    struct UntilCancelled<'c, 's, W> {
        inner: EventStream<'s>,
        // Polled with its own waker, and only when the bell rang.
        #[pin] watch: W,
        call: &'c StreamCall,
        bell: Arc<Bell>,
        waker: Waker,
    }
}

impl<W: Future<Output = ControlError>> Stream for UntilCancelled<'_, '_, W> {
    type Item = LlmEvent;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LlmEvent>> {
        let mut this = self.project();
        loop {
            if this.bell.rung.swap(false, AcqRel)
                && let Poll::Ready(control) = this.watch.as_mut().poll(&mut Context::from_waker(this.waker))
            {
                return Poll::Ready(Some(this.call.raise(control)));
            }
            if let Poll::Ready(event) = Pin::new(&mut *this.inner).poll_next(cx) {
                return Poll::Ready(event);
            }
            this.bell.task.register(cx.waker());
            if !this.bell.rung.load(Acquire) {
                return Poll::Pending;
            }
        }
    }
}
