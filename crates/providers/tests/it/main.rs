//! The client against a server on the loopback interface that does what servers do wrong.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

mod conformance;
mod converse;
mod encodings;
mod faults;
mod formats;
mod idle;
mod misfits;
mod recording;
mod requests;
mod support;
mod waits;
mod ways;
