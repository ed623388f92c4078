//! Child processes that end with who started them, and what they print.

mod capture;
mod group;
mod progress;

pub use capture::{Capture, printable};
pub use group::{Group, SHELL};
pub use progress::Progress;
