//! What traces cost a turn: none, sampled out, each tier, and the standard one with a backend that is not there. Turn and turn
//! about, as in [`super::pairs`]; what the exporting thread takes does not count, since it is not the turn's.

use std::time::Duration;

use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use turnwright_react_runtime::Agent;
use turnwright_trace_spans::{BatchLimits, BatchProcessor, Otlp, Tier, Traces};

use super::{check, ours, server};
use crate::cpu;

/// A backend that takes everything.
#[derive(Debug)]
struct Takes;

impl SpanExporter for Takes {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

fn provider(sampler: Sampler) -> SdkTracerProvider {
    let batch = BatchProcessor::new(Takes, BatchLimits::default()).unwrap();
    SdkTracerProvider::builder().with_sampler(sampler).with_span_processor(batch).build()
}

fn traced(base_url: &str, provider: &SdkTracerProvider, tier: Tier) -> Agent {
    let traces = Traces::builder().tier(tier).build(provider);
    let agent = ours::builder(base_url).hooks(traces.hooks()).instrument(traces.instrument());
    agent.build().unwrap()
}

pub(super) fn rows() {
    const ROUNDS: usize = 150;
    const TURNS: u32 = 4;
    let runtime = cpu::runtime();
    let on = provider(Sampler::AlwaysOn);
    // Nobody listens on the port that is no port.
    let down = Otlp::new().endpoint("http://127.0.0.1:1").start().unwrap();
    for flow in [server::Flow::Burst, server::Flow::Paced] {
        let url = server::start(flow);
        let agents = [
            ("none", ours::agent(&url, ours::Registered::Nothing)),
            ("sampled_out", traced(&url, &provider(Sampler::AlwaysOff), Tier::Standard)),
            ("minimal", traced(&url, &on, Tier::Minimal)),
            ("standard", traced(&url, &on, Tier::Standard)),
            ("full", traced(&url, &on, Tier::Full)),
            ("down", traced(&url, down.provider(), Tier::Standard)),
        ];
        let mut times = agents.each_ref().map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for ((_, agent), times) in agents.iter().zip(&mut times) {
                let begun = cpu::now();
                (0..TURNS).for_each(|_| check(runtime.block_on(ours::turn(agent))));
                times.push(cpu::now() - begun);
            }
        }
        let times = times.map(|mut times| {
            times.sort();
            times[ROUNDS / 10].as_secs_f64()
        });
        println!("figure trace/{}_none {:.0}", flow.name(), times[0] / f64::from(TURNS) * 1e9);
        for ((name, _), time) in agents.iter().zip(times).skip(1) {
            println!("figure trace/{}_{name} {:.3}", flow.name(), time / times[0]);
        }
    }
    // What it sends to is not there: whether it says so is no matter of this.
    let _ = down.shutdown(Duration::from_secs(1));
}
