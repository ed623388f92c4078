//! Tools for tests of agents.
//!
//! - [`script`]: a model that says what its script says, pauses, fails, hangs and panics on cue.
//! - [`provider`]: a hostile chat-completions server on loopback, with named faults over real sockets.
//! - [`eventstream`]: messages of AWS's binary event stream.
//! - [`check`]: the promises as functions: histories, event streams, turn events, hook traces.
//! - [`trace`]: hooks that write down which point fired when.
//! - [`clock`]: virtual time.
//!
//! Virtual time (tokio's paused clock) goes with the scripted model only: it runs ahead while a socket waits. Tests with
//! the server use real time and short limits.

pub mod check;
pub mod clock;
pub mod eventstream;
pub mod provider;
pub mod script;
pub mod trace;

pub use clock::virtual_sources;
pub use script::{Reply, ScriptedModel};
