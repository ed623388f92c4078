//! Spans of turns.

mod faults;
mod golden;
mod names;
pub(crate) mod spans;
