//! OpenTelemetry spans of turns, by the conventions for generative AI: `invoke_agent` for each leg, `chat` for each attempt at a
//! model call, `execute_tool` for each tool, `approval` for each decision.
//!
//! [`Traces`] is set up once, with a provider, and added to agents in two parts: [`Traces::hooks`] and
//! [`Traces::instrument`]. What is written where, name by name, is in `docs/traces.md`.
//!
//! - A leg that is suspended ends its `invoke_agent`, with the outcome `suspended` and no error. The leg that resumes it, in
//!   whatever process, has it as its parent, and a link to it: the turn's snapshot has the span's context.
//! - Whatever ends a leg ends its spans, children before parents, before the leg's last event: also a cancel, a panic, and an
//!   async runtime that goes away.
//! - Nothing here can fail a turn. Where the root is sampled out, nothing more is done in its leg.
//! - Times are those of the agent's own clock.

mod conventions;
mod hooks;
mod instrument;
mod kept;
mod leg;
mod tier;
mod traces;
mod w3c;

/// The names that are written.
pub mod names {
    pub use crate::conventions::*;
}

pub use tier::{Tier, UnknownTier};
pub use traces::{Traces, TracesBuilder};
pub use w3c::TraceHeaders;
