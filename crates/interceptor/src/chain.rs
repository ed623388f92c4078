//! Chains of one scope.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::RwLock;
use pin_project_lite::pin_project;
use turnwright_core::{BoxFuture, ErrorKind, TurnContext, panic::panic_text};

use crate::{CallState, Exit, Next, Scope, next::step};

/// A layer around the calls of a scope. Layers are shared by all sessions: what belongs to one call is a local.
///
/// # Cancel safety
/// A cancel drops the layer's future at its current await. A layer that awaits something of its own is given 50 ms to
/// see the cancel as an error of `next`, and is then dropped.
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
    /// the layer returns, so that nobody sees what it takes back.
    fn is_gating(&self) -> bool {
        false
    }
}

/// The call itself, inside all layers.
pub trait Core<S: Scope>: Send + Sync {
    /// Makes the call.
    fn call(
        &self,
        ctx: &TurnContext,
        input: S::In,
        call: &CallState<S>,
    ) -> impl Future<Output = Result<S::Out, Exit>> + Send;
}

pub(crate) trait DynAround<S: Scope>: Send + Sync {
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
        let call = next.call;
        match catch_unwind(AssertUnwindSafe(|| self.around(ctx, input, next))) {
            Ok(future) => Box::pin(Guarded { future, call, who: type_name::<L> }),
            Err(panic) => Box::pin(std::future::ready(call.settle(Err(panicked(type_name::<L>(), &*panic))))),
        }
    }

    fn dyn_is_gating(&self) -> bool {
        self.is_gating()
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
        Box::pin(enter(self, ctx, input, call))
    }
}

async fn enter<S: Scope, C: Core<S>>(
    core: &C,
    ctx: &TurnContext,
    input: S::In,
    call: &CallState<S>,
) -> Result<S::Out, Exit> {
    call.enter();
    match catch_unwind(AssertUnwindSafe(|| core.call(ctx, input, call))) {
        Ok(future) => Guarded { future, call, who: || S::NAME.name() }.await,
        Err(panic) => call.settle(Err(panicked(S::NAME.name(), &*panic))),
    }
}

fn panicked(who: &str, payload: &(dyn std::any::Any + Send)) -> Exit {
    Exit::failed(ErrorKind::Panic, format!("{who} panicked: {}", panic_text(payload)))
}

pin_project! {
    /// Contains panics and keeps the latch, in the same box as the layer's future.
    struct Guarded<'a, S: Scope, F> {
        #[pin] future: F,
        call: &'a CallState<S>,
        who: fn() -> &'static str,
    }
}

impl<S: Scope, F: Future<Output = Result<S::Out, Exit>>> Future for Guarded<'_, S, F> {
    type Output = Result<S::Out, Exit>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match catch_unwind(AssertUnwindSafe(|| this.future.poll(cx))) {
            Ok(poll) => poll.map(|out| this.call.settle(out)),
            Err(panic) => Poll::Ready(this.call.settle(Err(panicked((this.who)(), &*panic)))),
        }
    }
}

/// One registered layer.
pub(crate) struct Entry<L: ?Sized> {
    pub(crate) id: Arc<()>,
    pub(crate) name: Arc<str>,
    pub(crate) inherited: bool,
    pub(crate) layer: Arc<L>,
}

impl<L: ?Sized> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            name: self.name.clone(),
            inherited: self.inherited,
            layer: self.layer.clone(),
        }
    }
}

/// A list of layers that is replaced as a whole: what runs keeps the list it started with.
pub(crate) struct Registry<L: ?Sized>(Arc<RwLock<List<L>>>);

struct List<L: ?Sized> {
    entries: Vec<Entry<L>>,
    layers: Arc<[Arc<L>]>,
}

impl<L: ?Sized> Clone for Registry<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: ?Sized> Default for Registry<L> {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(List { entries: Vec::new(), layers: Arc::new([]) })))
    }
}

impl<L: ?Sized + Send + Sync + 'static> Registry<L> {
    pub(crate) fn layers(&self) -> Arc<[Arc<L>]> {
        self.0.read().layers.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().layers.is_empty()
    }

    pub(crate) fn entries(&self) -> Vec<Entry<L>> {
        self.0.read().entries.clone()
    }

    pub(crate) fn push(&self, name: Arc<str>, inherited: bool, layer: Arc<L>) -> Registration {
        let id = Arc::new(());
        let entry = Entry { id: id.clone(), name, inherited, layer };
        self.change(|entries| entries.push(entry));
        let list = Arc::downgrade(&self.0);
        Registration::new(move || {
            if let Some(list) = list.upgrade() {
                Self(list).change(|entries| entries.retain(|e| !Arc::ptr_eq(&e.id, &id)));
            }
        })
    }

    pub(crate) fn extend(&self, more: Vec<Entry<L>>) {
        self.change(|entries| entries.extend(more));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry<L>>)) {
        let mut list = self.0.write();
        let mut entries = list.entries.clone();
        change(&mut entries);
        let layers = entries.iter().map(|e| e.layer.clone()).collect();
        let old = std::mem::replace(&mut *list, List { entries, layers });
        drop(list);
        // May be the last of a layer, and its destructor is user code: it runs after the lock is gone.
        drop(old);
    }
}

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

impl<S: Scope> Chain<S> {
    /// Appends a layer, innermost so far. The handle removes exactly this one; dropping the handle leaves it.
    pub fn register<L: Around<S>>(&self, layer: L) -> Registration {
        self.0.push(type_name::<L>().into(), false, Arc::new(layer))
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.0.layers().len()
    }

    /// Whether there are none; such a chain is a direct call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a layer may change finished answers, so that what is streamed must be withheld.
    pub fn is_gating(&self) -> bool {
        self.0.layers().iter().any(|l| l.dyn_is_gating())
    }

    /// Makes a call through the layers. `no_replay` says why this call must not be repeated, if it must not.
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
        let call = CallState::new(S::key(&input), no_replay);
        if self.0.is_empty() {
            return enter(core, ctx, input, &call).await;
        }
        let layers = self.0.layers();
        step(&layers, core, ctx, &call, input).await
    }
}

/// Removes one registered layer. Dropping it leaves the layer registered.
#[must_use = "keep it to remove the layer later, or drop it on purpose with `.keep()`"]
pub struct Registration(Box<dyn FnOnce() + Send + Sync>);

impl Registration {
    pub(crate) fn new(remove: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Box::new(remove))
    }

    /// Removes the layer. Calls that run keep it to their end.
    pub fn remove(self) {
        (self.0)();
    }

    /// Leaves the layer registered for good.
    pub fn keep(self) {}

    /// Removes the layer when dropped.
    pub fn into_guard(self) -> RegistrationGuard {
        RegistrationGuard(Some(self))
    }

    /// Both at once.
    pub fn and(self, other: Self) -> Self {
        Self::new(move || {
            self.remove();
            other.remove();
        })
    }
}

/// Removes a layer when dropped, also on panic.
#[must_use = "the layer is removed when this is dropped"]
pub struct RegistrationGuard(Option<Registration>);

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        if let Some(registration) = self.0.take() {
            registration.remove();
        }
    }
}
