//! Hooks: observe the fifteen lifecycle points of a turn, lightly modify its context, leave by raising a
//! [`ControlError`](turnwright_control::ControlError). A hook has no veto; what must wrap, transform or block a call is
//! an interceptor.
//!
//! A hook type implements one or more traits of [`point`]. [`hook!`] finds out which ones at compile time:
//!
//! ```
//! use turnwright_core::TurnContext;
//! use turnwright_hook::{HookError, HookRunner, hook, point::BeforeTurn};
//!
//! struct Greeter;
//! impl BeforeTurn for Greeter {
//!     async fn before_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
//!         println!("turn {} begins", ctx.turn());
//!         Ok(())
//!     }
//! }
//!
//! let runner = HookRunner::new([hook!(Greeter).priority(10)]);
//! assert_eq!(runner.plan().len(), 1);
//! ```
//!
//! A hook of one point can be a closure: see [`on`].
//!
//! In generic code `hook!` sees only the bounds in scope and would lose points silently: write [`hook_points!`] once
//! beside the impls and bound on [`AnyHook`], or use [`HookSpec::builder`].
//!
//! Two smaller surfaces stand beside hooks: [`observe`] (react after something was recorded) and [`instrument`] (time and
//! trace by paired callbacks). Neither can change what a turn does.
//!
//! Hooks are shared by all sessions. What a hook remembers about a turn belongs into
//! [`TurnContext::state`](turnwright_core::TurnContext::state), never into the hook.

mod any;
mod dispatch;
mod erased;
mod error;
mod finally;
pub mod instrument;
mod limit;
mod memory;
pub mod observe;
pub mod point;
mod runner;
mod shelf;
mod spec;

#[doc(hidden)]
pub use any::__probe;
pub use any::AnyHook;
pub use dispatch::{Dispatch, DispatchLog};
pub use erased::on;
pub use error::{HookError, HookFailure, HookFailureKind};
pub use finally::{LegEnd, OutcomeFinallyHook, is_suspend_leg};
pub use memory::{ContextSection, MemoryEvent, MemoryHook, MemoryRunner};
pub use point::{DecidedCall, HookPoint, ToolDecision, TurnAnswer};
pub use runner::{HookRunner, PlannedHook};
pub use spec::{ErrorPolicy, HookBuilder, HookSpec};
