//! The promises as functions. Each returns what is broken, in words.

mod events;
mod hooks;

use std::sync::Arc;

pub use events::{stream, turn_events, turn_events_after, visible_is_kept};
pub use hooks::{HookExpectation, hook_trace};
use turnwright_core::Message;

/// What a checker found.
pub type Verdict = Result<(), String>;

/// The history is legal: see [`turnwright_core::history::check`].
///
/// # Errors
/// What is wrong with it.
pub fn history(messages: &[Arc<Message>]) -> Verdict {
    turnwright_core::history::check(messages.iter().map(|m| &**m)).map_err(|fault| fault.to_string())
}
