//! The workspace's one integration binary: what only all crates together can show.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and the sweep prints what it covered"
)]

mod again;
mod approvals;
mod at_rest;
mod batch;
mod budgets;
mod checklists;
mod control;
mod durability;
mod edges;
mod elsewhere;
mod endings;
mod faults;
mod hostile;
mod inbox;
mod inner;
mod instruments;
mod layers;
mod middleware;
mod observers;
mod policies;
mod recordings;
mod repeats;
mod rows;
mod steering;
mod stored;
mod streams;
mod subagents;
mod support;
mod sweep;
mod threads;
mod traces;
mod turns;
mod typed;
mod wire;
