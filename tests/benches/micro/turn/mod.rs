//! A whole turn over loopback HTTP: four streamed model calls and six tool calls, by the runtime and by a hand-written
//! loop with the same HTTP client. Both stream every delta to a reader, in the same thread.

mod hand;
mod ours;
mod server;
mod traced;

use std::{hint::black_box, time::Duration};

use criterion::Throughput;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::cpu::{self, Bench};

/// What the tool takes, in both loops.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Lookup {
    /// The key to look up.
    pub(crate) key: String,
}

/// What the tool does, in both loops.
pub(crate) fn look_up(key: &str) -> String {
    format!("The entry for {key}: ").repeat(8)
}

pub(crate) const SYSTEM: &str = "You answer briefly. Look things up before you answer.";
pub(crate) const QUESTION: &str = "Compare the six entries and say which one is the odd one out.";

/// The bytes of text a turn shows: both loops must have seen all of them.
fn check(shown: usize) {
    assert_eq!(shown, server::TEXT_BYTES, "the turn did not show all of its text");
}

pub(crate) fn all(c: &mut Bench) {
    let mut group = c.benchmark_group("turn");
    group.sample_size(30).measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(1));
    for flow in [server::Flow::Burst, server::Flow::Paced] {
        let base_url = server::start(flow);
        let name = flow.name();
        let runtime = cpu::runtime();

        let hand = hand::Loop::new(&base_url);
        group.bench_function(format!("{name}_hand"), |b| {
            b.iter(|| check(black_box(runtime.block_on(hand.turn()))));
        });
        let bare = ours::agent(&base_url, ours::Registered::Nothing);
        group.bench_function(format!("{name}_bare"), |b| {
            b.iter(|| check(black_box(runtime.block_on(ours::turn(&bare)))));
        });
        let full = ours::agent(&base_url, ours::Registered::Everything);
        group.bench_function(format!("{name}_full"), |b| {
            b.iter(|| check(black_box(runtime.block_on(ours::turn(&full)))));
        });
    }
    group.finish();
}

/// The two loops turn and turn about, so that whatever slows the machine slows both: how many times the hand-written
/// loop's CPU time ours takes. Of each the tenth percentile: what it takes when nothing disturbs it.
pub(crate) fn pairs() {
    const ROUNDS: usize = 150;
    const TURNS: u32 = 4;
    let runtime = cpu::runtime();
    for flow in [server::Flow::Burst, server::Flow::Paced] {
        let base_url = server::start(flow);
        let hand = hand::Loop::new(&base_url);
        let bare = ours::agent(&base_url, ours::Registered::Nothing);
        let full = ours::agent(&base_url, ours::Registered::Everything);
        let built_in = ours::agent(&base_url, ours::Registered::BuiltIns);
        let mut times: [Vec<Duration>; 4] = Default::default();
        for _ in 0..ROUNDS {
            let begun = cpu::now();
            (0..TURNS).for_each(|_| check(runtime.block_on(hand.turn())));
            let by_hand = cpu::now();
            (0..TURNS).for_each(|_| check(runtime.block_on(ours::turn(&bare))));
            let by_bare = cpu::now();
            (0..TURNS).for_each(|_| check(runtime.block_on(ours::turn(&full))));
            let by_full = cpu::now();
            (0..TURNS).for_each(|_| check(runtime.block_on(ours::turn(&built_in))));
            let by_built_in = cpu::now();
            let took = [by_hand - begun, by_bare - by_hand, by_full - by_bare, by_built_in - by_full];
            for (times, took) in times.iter_mut().zip(took) {
                times.push(took);
            }
        }
        let [hand, bare, full, built_in] = times.map(|mut times| {
            times.sort();
            times[ROUNDS / 10].as_secs_f64()
        });
        let name = flow.name();
        println!("figure turn/{name}_bare {:.3}", bare / hand);
        println!("figure turn/{name}_full {:.3}", full / hand);
        println!("figure turn/{name}_built_in {:.3}", built_in / hand);
    }
    traced::rows();
}
