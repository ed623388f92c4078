//! The SQLite store against the suites, and against what happens to files.
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod across;
mod approvals;
mod commands;
mod conformance;
mod faults;
mod forms;
mod mail;
