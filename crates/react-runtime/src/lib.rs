//! The ReAct runtime: agents, sessions, turns.
//!
//! - [`Agent`]: a model, tools, hooks, interceptors and limits; [`Agent::builder`] makes one.
//! - [`Session`]: a conversation. [`Session::start`] runs a turn and returns its [`TurnHandle`]: a stream of
//!   [`TurnEvent`]s, the result, and control.
//! - [`input`]: the door for messages: commands, busy modes, duplicates.
//! - [`mailbox`]: mail between agents, delivered at least once.
//! - [`Agent::run_typed`], [`generate`]: answers as values of a Rust type.
//! - [`tool`]: tools from typed async functions.
//! - [`approval`]: tiers, path-aware policies and rules that remember: a gate made of parts.
//! - [`gate`]: who decides whether a call runs. A turn suspends while a person decides, and resumes from its snapshot.
//! - [`Record`]: what observers are told of ([`Agent::observers`]); [`Agent::instruments`] times and traces calls.
//! - [`machine`]: the pure turn machine; [`snapshot`] and [`store`]: turns and sessions at rest.
//!
//! A leg of a turn is one future owned by a spawned task; all its work is polled inside it. Whatever ends it (an answer,
//! a cancel, a panic, a dropped handle, a dropped runtime), the history is legal, what was shown is in it, and there is
//! exactly one last event.

mod agent;
pub mod approval;
mod driver;
mod event;
pub mod gate;
pub mod input;
mod ledger;
pub mod machine;
pub mod mailbox;
mod plan;
mod queue;
mod record;
mod session;
pub mod snapshot;
pub mod store;
mod sync;
pub mod tool;
mod typed;

#[cfg(feature = "commit-probe")]
pub use agent::CommitProbe;
pub use agent::{Agent, AgentBuilder, BuildError, ShutdownReport, Spawner};
pub use driver::{GRACE, UNWIND_BUDGET};
pub use event::{FinishedError, TurnEvent, TurnEventKind, TurnFinished};
pub use plan::{Plan, PlannedTool};
pub use queue::{MAX_UNREAD_BYTES, MAX_UNREAD_EVENTS};
pub use record::{Record, RecordKind, RecordName};
pub use session::{
    DecideError, Input, OnDrop, Parent, SAVE_TIMEOUT, Session, StartError, SummaryError, TurnHandle,
};
pub use typed::{Typed, TypedError, TypedOptions, TypedTurn, generate};

const _: fn() = || {
    fn send_sync<T: Send + Sync + 'static>() {}
    fn send<T: Send + 'static>() {}
    fn object_safe(_: &dyn store::SessionStore, _: &dyn tool::DynTool, _: &dyn gate::DynGate) {}
    let _ = object_safe;
    send_sync::<Agent>();
    send_sync::<Session>();
    send::<TurnHandle>();
};
