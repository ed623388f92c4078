//! What a layer implements, and what a core implements.

use turnwright_core::TurnContext;

use crate::{CallState, Exit, Next, Scope};

/// A layer around the calls of a scope. Layers are shared by all sessions: what belongs to one call is a local.
/// `None` of an `Option` of a layer is a layer that passes everything.
///
/// # Cancel safety
/// Dropping the call drops the layer's future at its current await, at once: a chain gives no grace. The runtime's
/// driver does: when a turn is cancelled through its control channel, a layer that awaits `next` sees the control
/// error, and work that has not returned after 50 ms is dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no interceptor of this scope",
    note = "implement `Around<{S}>` for `{Self}`"
)]
pub trait Around<S: Scope>: Send + Sync + 'static {
    /// Wraps one call.
    fn around(
        &self,
        ctx: &TurnContext,
        input: S::In,
        next: Next<'_, S>,
    ) -> impl Future<Output = Result<S::Out, Exit>> + Send;

    /// Whether the layer may change a finished answer. In the model call scope streamed deltas are then withheld until
    /// the layer returns, so that nobody sees what it takes back. Asked once a call, before its first layer runs; a
    /// panic counts as yes.
    fn is_gating(&self) -> bool {
        false
    }
}

impl<S: Scope, L: Around<S>> Around<S> for Option<L> {
    async fn around(&self, ctx: &TurnContext, input: S::In, next: Next<'_, S>) -> Result<S::Out, Exit> {
        match self {
            Some(layer) => layer.around(ctx, input, next).await,
            None => next.run(input).await,
        }
    }

    fn is_gating(&self) -> bool {
        self.as_ref().is_some_and(L::is_gating)
    }
}

/// The call itself, inside all layers.
///
/// # Cancel safety
/// Dropping the future drops the call; a core says itself what that loses.
pub trait Core<S: Scope>: Send + Sync {
    /// Makes the call.
    fn call(
        &self,
        ctx: &TurnContext,
        input: S::In,
        call: &CallState<S>,
    ) -> impl Future<Output = Result<S::Out, Exit>> + Send;
}
