//! Built-in hooks in turns of a scripted model.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod all;
mod checkpoint;
mod context;
mod current_time;
mod experience;
mod inbox_flush;
mod legs;
mod length_guard;
mod logging;
mod loop_detection;
mod memory;
mod noted;
mod nudges;
mod overflow;
mod subagents;
mod summarizer;
mod support;
mod todo;
mod trajectory;
