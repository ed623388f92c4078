//! The program as its users see it: run as a process, against a server on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: the helpers of tests count as such"
)]

mod allow;
mod chat;
mod config;
mod decode;
mod demo;
mod doctor;
mod durable;
mod faults;
mod formats;
mod hooks;
mod human;
mod layers;
mod memory;
mod plan;
mod questions;
mod record;
mod screen;
mod sessions;
mod stop;
mod store;
mod subagents;
mod support;
mod terminal;
mod tools;
mod traces;
mod trajectory;
mod usage;
