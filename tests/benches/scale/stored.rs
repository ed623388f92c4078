//! How long a command takes from one process to another by a SQLite file, and a commit beside it.

use std::time::{Duration, Instant};

use turnwright_control::{CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope, Fate};
use turnwright_core::{Part, SessionId, Sources};
use turnwright_react_runtime::store::{SessionCommit, SessionStore};
use turnwright_store::SqliteStore;

const TIMES: usize = 200;

/// Medians in microseconds. Two stores of one file know as little of each other as two processes do.
pub(crate) fn latencies() -> (f64, f64) {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (here, there) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
        let (sends, listens) = (here.channel(), there.channel());
        let id = SessionId::new("s").unwrap();
        let scope = ControlScope::session(id.clone());
        let mut wakeup = listens.wakeup(&id);
        let sources = Sources::default();
        let (mut wakeups, mut commits) = (Vec::new(), Vec::new());
        for n in 0..TIMES {
            let body = CommandBody::InjectSteer { parts: vec![Part::text("left")] };
            let command = ControlCommand::new(&sources, scope.clone(), "ann", body);
            let began = now();
            sends.send(command).await.unwrap();
            let delivery = loop {
                match listens.take(&scope, &[CommandType::InjectSteer]).pop() {
                    Some(delivery) => break delivery,
                    None => wakeup.arrived().await,
                }
            };
            wakeups.push(began.elapsed());
            delivery.settle(Fate::Applied);
            let change = SessionCommit::new(id.clone(), sources.id(), n as u64);
            let began = now();
            here.commit(change).await.unwrap();
            commits.push(began.elapsed());
        }
        (median(wakeups), median(commits))
    })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
