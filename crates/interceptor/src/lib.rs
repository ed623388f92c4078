//! Interceptors: layers that wrap a call boundary like an onion. A layer may transform what goes in and what comes out,
//! answer in the call's place, repeat it where that is safe, time it out, or block it by failing.
//!
//! ```
//! use turnwright_core::{ToolResult, TurnContext};
//! use turnwright_interceptor::{Around, Exit, Interceptors, Next, interceptor, scope};
//!
//! /// Shouts at every tool.
//! struct Upper;
//! impl Around<scope::ToolCall> for Upper {
//!     async fn around(
//!         &self,
//!         _ctx: &TurnContext,
//!         call: turnwright_core::ToolCall,
//!         next: Next<'_, scope::ToolCall>,
//!     ) -> Result<ToolResult, Exit> {
//!         let result = next.run(call).await?;
//!         let loud = result.content.to_uppercase();
//!         Ok(result.with_content(loud))
//!     }
//! }
//!
//! let interceptors = Interceptors::default();
//! let registration = interceptors.register(interceptor!(Upper));
//! assert_eq!(interceptors.tool_call.len(), 1);
//! registration.remove();
//! assert_eq!(interceptors.tool_call.len(), 0);
//! ```
//!
//! - One trait, [`Around`], for the six scopes that are calls, and [`AroundStream`] for the event stream. A layer of one
//!   of the six can be a closure: see [`layer_fn`].
//! - [`Next`] is consumed by value: a layer calls the rest once, or not at all. A layer that must call twice trades it
//!   for a [`Replay`], where the scope allows that.
//! - Index 0 of a [`Chain`] is outermost: it enters first and leaves last.
//! - A [`ControlError`](turnwright_control::ControlError) passes through everything: each call has a latch, and the
//!   first control error is what the chain returns, whatever a layer makes of it.
//!
//! Approval is not an interceptor, so that no layer can approve a call: the gate stands before the chain and is checked
//! once more inside it.

#[doc(hidden)]
#[path = "probe.rs"]
pub mod __probe;
mod around;
pub mod builtin;
mod call;
mod chain;
mod closure;
mod erased;
mod exit;
mod layer;
mod name;
mod next;
mod registry;
pub mod scope;
mod set;
mod stream;

pub use around::{Around, Core};
pub use call::CallState;
pub use chain::Chain;
pub use closure::layer_fn;
pub use exit::Exit;
pub use layer::{LayerSpec, RegisterError};
pub use name::{ScopeName, UnknownScope};
pub use next::{Next, Refused, Replay};
pub use registry::{Registration, RegistrationGuard};
pub use scope::Scope;
pub use set::{Interceptors, PlannedLayer};
pub use stream::{AroundStream, StreamCall, StreamChain, StreamLayers};

const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent(_: impl Send) {}
    fn object_safe<S: Scope>(
        _: &dyn erased::DynAround<S>,
        _: &dyn erased::DynCore<S>,
        _: &dyn stream::DynAroundStream,
    ) {
    }
    fn of_a_scope<S: Scope>(next: Next<'_, S>, replay: Replay<'_, S>, refused: Refused<'_, S>) {
        sent((next, replay, refused));
        shared::<Chain<S>>();
        shared::<CallState<S>>();
    }
    let _ = (object_safe::<scope::ToolCall>, of_a_scope::<scope::ToolCall>);
    shared::<Interceptors>();
    shared::<LayerSpec>();
    shared::<Registration>();
    shared::<RegistrationGuard>();
    shared::<StreamChain>();
    shared::<StreamLayers>();
    shared::<StreamCall>();
    shared::<Exit>();
};
