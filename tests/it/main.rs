//! The workspace's one integration binary: what only all crates together can show.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and the sweep prints what it covered"
)]

mod sweep;
