//! Tools for tests of agents.
//!
//! - [`script`]: a model that says what its script says, pauses, fails, hangs and panics on cue.
//! - [`provider`]: a hostile server of any wire format on loopback, with named faults over real sockets.
//! - [`scenario`]: what servers do that is odd or wrong, by name, and what a client must make of it.
//! - [`conformance`]: a suite that every model client must pass, and what a client can do.
//! - [`eventstream`]: messages of AWS's binary event stream.
//! - [`stores`]: suites that every store of sessions and every control channel must pass.
//! - [`check`]: the promises as functions: histories, event streams, turn events, hook traces.
//! - [`trace`]: hooks that write down which point fired when.
//! - [`clock`]: virtual time.
//!
//! Virtual time (tokio's paused clock) goes with the scripted model only: it runs ahead while a socket waits. Tests with
//! the server use real time and short limits.

pub mod check;
pub mod clock;
pub mod conformance;
pub mod eventstream;
pub mod provider;
pub mod scenario;
pub mod script;
pub mod stores;
pub mod trace;

pub use clock::virtual_sources;
pub use script::{Reply, ScriptedModel};
