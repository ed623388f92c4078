//! Built-in hooks in turns of a scripted model.

mod current_time;
mod support;
