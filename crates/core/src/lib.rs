//! The vocabulary of turnwright: what every other crate speaks about, and nothing that acts.
//!
//! - [`id`]: time-ordered ids (UUID v7) that cannot be mixed up, session ids and tool call ids.
//! - [`message`]: messages made of parts, as history keeps them and models receive them.
//! - [`tool`]: tool definitions, calls and results. A [`ToolResult`] is legal by construction.
//! - [`usage`]: token usage in which *unknown* is not *zero*.
//! - [`result`]: how a turn, a leg and an iteration end.
//! - [`error`]: one error value with a kind and retry advice as data.
//! - [`approval`]: decisions bound to a digest of the call they decide.
//! - [`budget`]: how much may be used, as a tree.
//! - [`history`]: the object-safe history face and the checker for legal histories.
//! - [`state`]: typed, namespaced, versioned per-turn state.
//! - [`cancel`], [`clock`], [`context`]: the cancel token tree, injected time and ids, and the
//!   [`TurnContext`] that carries them.
//!
//! This crate does no IO, spawns nothing and knows no vendor.

#[doc(hidden)]
#[path = "probe.rs"]
pub mod __probe;
pub mod approval;
pub mod budget;
pub mod cancel;
pub mod child_env;
pub mod clock;
pub mod code;
pub mod context;
pub mod error;
pub mod history;
pub mod id;
pub mod message;
pub mod panic;
pub mod result;
mod short_name;
pub mod state;
mod sync;
pub mod tool;
pub mod usage;

pub use approval::{
    ApprovalRequest, ApprovalTransaction, CallDigest, Decision, DecisionError, Remember, Verdict, Wants,
};
pub use budget::{Budget, BudgetExceeded, BudgetKind, BudgetLimits, BudgetUsed};
pub use cancel::{CancelCause, CancelKind, CancelToken};
pub use child_env::{CHILD_ENV, child_env};
pub use clock::{Clock, IdSource, RandomSource, Sources, Timestamp};
pub use code::{CodeCell, CodeResult};
pub use context::{CountUsage, ParentCall, TurnContext, TurnContextBuilder};
pub use error::{ContextSize, ErrorInfo, ErrorKind, RetryAdvice};
pub use history::{History, HistoryError, HistoryFault, HistorySnapshot, MemoryHistory};
pub use id::{ApprovalId, CallId, CommandId, Id, InvalidId, MessageId, RunId, SessionId, TurnId};
pub use message::{ImageRef, Interrupted, Message, Origin, Part, Reasoning, Role};
pub use result::{AgentResult, IterationEnd, LegOutcome, Outcome, StopReason};
pub use short_name::short_name;
pub use state::{StateError, StateKey, TurnState};
pub use tool::{Concurrency, Recovery, Synthetic, ToolCall, ToolDefinition, ToolResult};
pub use usage::TokenUsage;

/// A boxed, sendable future: what the object-safe twins of our traits return.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    fn object_safe(_: &dyn History, _: &dyn Clock, _: &dyn IdSource, _: &dyn RandomSource) {}
    let _ = object_safe;
    shared::<TurnContext>();
    shared::<Message>();
    shared::<ErrorInfo>();
};
