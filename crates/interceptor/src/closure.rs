//! Layers from closures.

use std::marker::PhantomData;

use turnwright_core::{BoxFuture, TurnContext};

use crate::{Around, Exit, Next, Scope};

/// Its future is boxed: a bound on `AsyncFn` could not say that it is `Send`.
struct Closure<S, F>(F, PhantomData<fn(S)>);

/// A layer of one scope from a closure: named on the left, so that the closure's arguments need no types.
///
/// ```
/// use turnwright_interceptor::{interceptor, layer_fn, scope};
///
/// let upper = layer_fn::<scope::ToolCall>(|_ctx, call, next| {
///     Box::pin(async move {
///         let result = next.run(call).await?;
///         let loud = result.content.to_uppercase();
///         Ok(result.with_content(loud))
///     })
/// });
/// let spec = interceptor!(upper).name("upper");
/// # assert_eq!(spec.scopes(), [turnwright_interceptor::ScopeName::ToolCall]);
/// ```
///
/// The future is boxed by the closure, since it borrows from what the closure is given. What else it needs is cloned
/// into it. Give it a name: every closure's own is `Closure`. A layer of several scopes, or one that is gating, is a type
/// that implements [`Around`].
pub fn layer_fn<S: Scope>(
    layer: impl for<'a> Fn(&'a TurnContext, S::In, Next<'a, S>) -> BoxFuture<'a, Result<S::Out, Exit>>
    + Send
    + Sync
    + 'static,
) -> impl Around<S> {
    Closure::<S, _>(layer, PhantomData)
}

impl<S: Scope, F> Around<S> for Closure<S, F>
where
    F: for<'a> Fn(&'a TurnContext, S::In, Next<'a, S>) -> BoxFuture<'a, Result<S::Out, Exit>>,
    F: Send + Sync + 'static,
{
    async fn around(&self, ctx: &TurnContext, input: S::In, next: Next<'_, S>) -> Result<S::Out, Exit> {
        (self.0)(ctx, input, next).await
    }
}
