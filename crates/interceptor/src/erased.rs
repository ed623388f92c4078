//! The object-safe twins of layers and cores, and the guard round each of their futures.

use std::{
    any::Any,
    future::ready,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use futures::future::Either;
use pin_project_lite::pin_project;
use turnwright_core::{BoxFuture, ErrorInfo, ErrorKind, TurnContext, panic::panic_text};

use crate::{Around, CallState, Core, Exit, Next, Scope};

pub(crate) trait DynAround<S: Scope>: Send + Sync {
    /// `next` knows under which name the layer is registered.
    fn dyn_around<'a>(
        &'a self,
        ctx: &'a TurnContext,
        input: S::In,
        next: Next<'a, S>,
    ) -> BoxFuture<'a, Result<S::Out, Exit>>;
    fn dyn_is_gating(&self) -> bool;
}

impl<S: Scope, L: Around<S>> DynAround<S> for L {
    fn dyn_around<'a>(
        &'a self,
        ctx: &'a TurnContext,
        input: S::In,
        next: Next<'a, S>,
    ) -> BoxFuture<'a, Result<S::Out, Exit>> {
        let Next { call, who, .. } = next;
        match catch_unwind(AssertUnwindSafe(|| self.around(ctx, input, next))) {
            Ok(future) => Box::pin(Guarded { future, call, who }),
            Err(panic) => Box::pin(ready(call.settle(who, Err(Exit::Failed(panicked(who, &*panic)))))),
        }
    }

    fn dyn_is_gating(&self) -> bool {
        // Fails closed: what cannot say that it lets answers alone may change them.
        catch_unwind(AssertUnwindSafe(|| self.is_gating())).unwrap_or(true)
    }
}

pub(crate) trait DynCore<S: Scope>: Send + Sync {
    fn dyn_call<'a>(
        &'a self,
        ctx: &'a TurnContext,
        input: S::In,
        call: &'a CallState<S>,
    ) -> BoxFuture<'a, Result<S::Out, Exit>>;
}

impl<S: Scope, C: Core<S>> DynCore<S> for C {
    fn dyn_call<'a>(
        &'a self,
        ctx: &'a TurnContext,
        input: S::In,
        call: &'a CallState<S>,
    ) -> BoxFuture<'a, Result<S::Out, Exit>> {
        // Entered when it is polled: a call that is never awaited is no attempt.
        Box::pin(async move { enter(self, ctx, input, call).await })
    }
}

/// Enters the call itself, now; await it at once. No `async fn`, so that an answer is not copied from one future to the next.
pub(crate) fn enter<'a, S: Scope, C: Core<S>>(
    core: &'a C,
    ctx: &'a TurnContext,
    input: S::In,
    call: &'a CallState<S>,
) -> impl Future<Output = Result<S::Out, Exit>> + Send + 'a {
    call.enter();
    let who = S::NAME.name();
    match catch_unwind(AssertUnwindSafe(|| core.call(ctx, input, call))) {
        Ok(future) => Either::Left(Guarded { future, call, who }),
        Err(panic) => Either::Right(ready(call.settle(who, Err(Exit::Failed(panicked(who, &*panic)))))),
    }
}

/// The failure a panic becomes. `who` is the name a layer is registered under, or the scope.
pub(crate) fn panicked(who: &str, payload: &(dyn Any + Send)) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Panic, format!("{who} panicked: {}", panic_text(payload)))
}

pin_project! {
    /// Contains panics and keeps the latch, in the same box as the layer's future.
    struct Guarded<'a, S: Scope, F> {
        #[pin] future: F,
        call: &'a CallState<S>,
        who: &'a str,
    }
}

impl<S: Scope, F: Future<Output = Result<S::Out, Exit>>> Future for Guarded<'_, S, F> {
    type Output = Result<S::Out, Exit>;

    // Inlined, an answer is not copied from one future to the next.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let out = match catch_unwind(AssertUnwindSafe(|| this.future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(out)) => out,
            Err(panic) => Err(Exit::Failed(panicked(this.who, &*panic))),
        };
        Poll::Ready(this.call.settle(this.who, out))
    }
}
