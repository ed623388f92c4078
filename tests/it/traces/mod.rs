//! Spans of turns.

mod golden;
mod names;
pub(crate) mod spans;
