//! CPU time of one thread, as criterion's measurement.

use std::{hint::black_box, time::Duration};

use criterion::{
    BenchmarkGroup, Criterion,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use rustix::time::{ClockId, clock_gettime};

pub(crate) type Bench = Criterion<ThreadCpu>;
pub(crate) type Group<'a> = BenchmarkGroup<'a, ThreadCpu>;

/// See the module.
pub(crate) struct ThreadCpu;

/// What the thread has used so far.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

impl Measurement for ThreadCpu {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        now()
    }

    fn end(&self, begun: Duration) -> Duration {
        now() - begun
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Measures an async call that never waits, many to one `block_on`.
pub(crate) fn calls<F, T>(group: &mut Group<'_>, id: &str, mut call: F)
where
    F: AsyncFnMut() -> T,
{
    let runtime = runtime();
    group.bench_function(id, |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let begun = now();
                for _ in 0..times {
                    black_box(call().await);
                }
                now() - begun
            })
        });
    });
}

/// A runtime whose tasks run on the thread that is measured.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
