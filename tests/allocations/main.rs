//! How often the hot paths allocate. Counts are exact and equal on every machine, so they are tests; times are benches.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

mod bounds;
mod calls;
mod converse;
mod decode;
mod events;
mod formats;
mod ids;

use futures::FutureExt;

/// How many allocations something that never waits makes in this thread.
fn count<T>(work: impl Future<Output = T>) -> u64 {
    let work = std::pin::pin!(work);
    let counted = allocation_counter::measure(|| {
        work.now_or_never().unwrap_or_else(|| panic!("what is counted must not wait"));
    });
    counted.count_total
}
