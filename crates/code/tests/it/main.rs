//! Cells of a scripted model, run by Python.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cells;
mod chain;
mod ends;
mod hostile;
mod support;
mod tools;
mod waits;
