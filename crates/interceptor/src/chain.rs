//! Chains of one scope.

use std::{fmt, sync::Arc};

use turnwright_core::{TurnContext, short_name};

use crate::{
    Around, CallState, Core, Exit, Registration, Scope,
    erased::{DynAround, enter},
    next::step,
    registry::Registry,
};

/// The layers of one scope. Index 0 is outermost; registering appends, so the first registered is outermost. Clones
/// are the same chain.
pub struct Chain<S: Scope>(pub(crate) Registry<dyn DynAround<S>>);

impl<S: Scope> Clone for Chain<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Scope> Default for Chain<S> {
    fn default() -> Self {
        Self(Registry::default())
    }
}

impl<S: Scope> fmt::Debug for Chain<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&S::NAME).field(&self.0).finish()
    }
}

impl<S: Scope> Chain<S> {
    /// Appends a layer, innermost so far, under the name of its type. The handle removes exactly this one; dropping
    /// the handle leaves it.
    pub fn register<L: Around<S>>(&self, layer: L) -> Registration {
        self.register_as(short_name::<L>(), false, layer)
    }

    /// The same under another name, and inherited by the agents this one starts if that is wanted. What
    /// [`interceptor!`](crate::interceptor!) and [`LayerSpec`](crate::LayerSpec) do for concrete types, for generic
    /// code.
    pub fn register_as<L: Around<S>>(
        &self,
        name: impl Into<Arc<str>>,
        inherited: bool,
        layer: L,
    ) -> Registration {
        self.0.push(name.into(), inherited, Arc::new(layer))
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none; such a chain is a direct call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a layer that is registered now may change finished answers. A call under way may have other layers: its
    /// core asks [`CallState::is_gating`].
    pub fn is_gating(&self) -> bool {
        self.0.list().iter().any(|e| e.layer.dyn_is_gating())
    }

    /// Makes a call through the layers that are registered now. `no_replay` says why this call must not be repeated,
    /// if it must not.
    ///
    /// # Errors
    /// The latched control error, or the failure that left the outermost layer.
    ///
    /// # Cancel safety
    /// Dropping the future drops all layers and the call.
    pub async fn call<C: Core<S>>(
        &self,
        ctx: &TurnContext,
        input: S::In,
        core: &C,
        no_replay: Option<&'static str>,
    ) -> Result<S::Out, Exit> {
        if self.is_empty() {
            let call = CallState::new(S::key(&input), no_replay, false);
            return enter(core, ctx, input, &call).await;
        }
        let layers = self.0.list();
        let gating = layers.iter().any(|e| e.layer.dyn_is_gating());
        let call = CallState::new(S::key(&input), no_replay, gating);
        step(&layers, core, ctx, &call, input).await
    }
}
