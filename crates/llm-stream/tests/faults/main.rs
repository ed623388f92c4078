//! Rows of the fault list, each held by every wire format that it can concern.
//!
//! A fault that was seen in one format may come in any other, so the rows stand in tables over all of them. What only one
//! format can do wrong is tested beside its decoder.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

mod calls;
mod endings;
mod errors;
mod format;
mod framing;
mod mutants;
mod read;
mod usage;
mod whole;
