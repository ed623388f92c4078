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
//! - What was said is on no span unless [`TracesBuilder::content`] asks for it; it is captured innermost, after every layer, and
//!   redacted. Nothing is serialised that is not asked for, or not recorded.
//! - Nothing here can fail a turn. Where the root is sampled out, nothing more is done in its leg.
//! - Times are those of the agent's own clock.

mod batch;
mod content;
mod conventions;
mod hooks;
mod instrument;
mod kept;
mod leg;
#[cfg(feature = "otlp")]
mod otlp;
mod tier;
mod traces;
mod w3c;

/// The names that are written.
pub mod names {
    pub use crate::conventions::*;
}

pub use batch::{BatchLimits, BatchProcessor, ExportCounters, ExportStats};
pub use content::{Capture, Content, Field, UnknownCapture};
#[cfg(feature = "otlp")]
pub use otlp::{Export, Otlp, OtlpError};
pub use tier::{Tier, UnknownTier};
pub use traces::{Traces, TracesBuilder};
pub use w3c::TraceHeaders;
