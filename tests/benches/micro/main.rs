//! What things cost: `cargo xtask bench` runs this and prints the ratios.
//!
//! Time is the CPU time of the benchmark's own thread, so that neither a server beside it nor another program on the
//! machine counts. What is measured against what stands in `docs/performance.md`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark stops at the first surprise, reads real clocks, and prints what it found"
)]

mod builtin;
mod cancel;
mod chains;
mod chat;
mod cpu;
mod decode;
mod hooks;
mod streams;
mod turn;

use std::time::Duration;

use criterion::Criterion;

use crate::cpu::ThreadCpu;

/// Short rounds: whoever wants a steadier figure runs more of them and takes the median.
fn criterion() -> Criterion<ThreadCpu> {
    Criterion::default()
        .with_measurement(ThreadCpu)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(2_000)
        .configure_from_args()
}

fn main() {
    let mut c = criterion();
    hooks::all(&mut c);
    builtin::all(&mut c);
    chains::all(&mut c);
    streams::all(&mut c);
    decode::all(&mut c);
    turn::all(&mut c);
    cancel::all(&mut c);
    c.final_summary();
    // Not where one group alone was asked for.
    if !std::env::args().skip(1).any(|arg| !arg.starts_with('-')) {
        turn::pairs();
    }
}
