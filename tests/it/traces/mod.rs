//! Spans of turns.

mod export;
mod faults;
mod golden;
mod names;
pub(crate) mod spans;
