//! From cancel to stopped, while the provider is silent. Wall time: what is measured is a wake-up.

use std::time::{Duration, Instant};

use criterion::{Criterion, measurement::WallTime};
use futures::StreamExt;
use tokio::sync::oneshot;
use turnwright_core::{CancelCause, Outcome};
use turnwright_llm_stream::ModelHandle;
use turnwright_providers::ChatClient;
use turnwright_react_runtime::{Agent, TurnEventKind};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::cpu::Bench;

/// The measured time is another than that of the other groups, so it has a run of its own.
pub(crate) fn all(_: &mut Bench) {
    let mut c = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(1500))
        .nresamples(2_000)
        .configure_from_args();
    let mut group = c.benchmark_group("cancel");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();

    // What a wake-up across threads costs on this machine.
    group.bench_function("wake_up", |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    let (go, went) = oneshot::channel::<()>();
                    let (tell, told) = oneshot::channel::<()>();
                    tokio::spawn(async move {
                        let _ = went.await;
                        let _ = tell.send(());
                    });
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    let begun = Instant::now();
                    let _ = go.send(());
                    let _ = told.await;
                    sum += begun.elapsed();
                }
                sum
            })
        });
    });
    silent(&mut group, &runtime);
    group.finish();
    c.final_summary();
}

/// One turn after the other, each cancelled once the server has gone silent in mid-stream.
fn silent(group: &mut criterion::BenchmarkGroup<'_, WallTime>, runtime: &tokio::runtime::Runtime) {
    group.bench_function("silent_server", |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let silent = Reply::new().text("Hel").fault(Fault::Stall { after: 2 });
                let server = ProviderServer::start((0..times).map(|_| silent.clone())).await.unwrap();
                let client = ChatClient::builder().base_url(server.base_url()).build().unwrap();
                let agent = Agent::builder("bench", ModelHandle::new(client, "m")).build().unwrap();
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    sum += one(&agent).await;
                }
                sum
            })
        });
    });
}

async fn one(agent: &Agent) -> Duration {
    let mut turn = agent.run("hi").unwrap();
    while let Some(event) = turn.next().await {
        if matches!(event.kind, TurnEventKind::TextDelta { .. }) {
            break;
        }
    }
    let begun = Instant::now();
    turn.cancel(CancelCause::requested("bench"));
    while let Some(event) = turn.next().await {
        if let TurnEventKind::TurnFinished(end) = event.kind {
            let took = begun.elapsed();
            assert_eq!(end.outcome, Outcome::Cancelled);
            return took;
        }
    }
    panic!("the turn ended without an end")
}
