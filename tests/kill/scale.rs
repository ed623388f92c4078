//! Many sessions, many starts, many commands.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use turnwright_control::{CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope, Fate};
use turnwright_core::{ErrorKind, Part, SessionId, Sources};
use turnwright_react_runtime::{
    Agent, StartError,
    store::{SessionQuery, SessionStore},
};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel};

const SENDER: &str = "TURNWRIGHT_TEST_SENDER";
const SESSIONS: usize = 100;
const EACH: usize = 2_500;

fn id(n: usize) -> SessionId {
    SessionId::new(format!("s{n}")).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn fault_k1_a_hundred_starts_at_once_run_one_turn() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    runtime().block_on(async {
        let model = ScriptedModel::new([Reply::new()
            .text("ok ")
            .wait(Duration::from_millis(300))
            .text("done")
            .finish()]);
        let build = || {
            let store = Arc::new(SqliteStore::open(&path).unwrap());
            Agent::builder("t", model.handle()).store(store).build().unwrap()
        };
        // Ten processes, as far as the store can tell, with ten callers each.
        let agents: Vec<_> = (0..10).map(|_| build()).collect();
        let starts = (0..100).map(|n| {
            let agent = agents[n % 10].clone();
            tokio::spawn(async move {
                let session = agent.open_session(id(0)).await.unwrap();
                match session.start(format!("{n}")) {
                    Err(StartError::Busy | StartError::Parked) => false,
                    Err(e) => panic!("{e}"),
                    Ok(mut handle) => match handle.result().await.unwrap().error {
                        None => true,
                        Some(e) if matches!(e.kind, ErrorKind::SessionHeld | ErrorKind::Conflict) => false,
                        Some(e) => panic!("{e:?}"),
                    },
                }
            })
        });
        let ran =
            futures::future::join_all(starts).await.into_iter().filter(|ran| *ran.as_ref().unwrap()).count();
        assert_eq!((ran, model.calls()), (1, 1));
        let stored = agents[0].open_session(id(0)).await.unwrap();
        assert_eq!(stored.messages().len(), 2);
    });
}

#[test]
fn fault_k5_k7_ten_thousand_sessions_come_and_go_and_leave_nothing() {
    let directory = TempDir::new().unwrap();
    runtime().block_on(async {
        let store = Arc::new(SqliteStore::open(directory.path().join("s.db")).unwrap());
        let channel = store.channel();
        let model =
            ScriptedModel::new((0..10_000).map(|_| Reply::new().text("ok").finish()).collect::<Vec<_>>());
        let agent = Agent::builder("t", model.handle())
            .store(store.clone())
            .channel(channel.clone())
            .build()
            .unwrap();
        let mut middle = 0;
        for round in 0..100 {
            let turns = (0..100).map(|n| {
                let (agent, store) = (agent.clone(), store.clone());
                tokio::spawn(async move {
                    let id = id(round * 100 + n);
                    let session = agent.open_session(id.clone()).await.unwrap();
                    let result = session.start("hi").unwrap().result().await.unwrap();
                    assert_eq!(result.content, "ok");
                    drop(session);
                    store.delete(&id).await.unwrap();
                })
            });
            for turn in futures::future::join_all(turns).await {
                turn.unwrap();
            }
            if round == 20 {
                middle = resident();
            }
        }
        assert_eq!(agent.open_sessions(), 0);
        assert_eq!(store.list(SessionQuery::default()).await.unwrap(), []);
        let report = store.check().await.unwrap();
        assert_eq!((report.sessions, report.rows), (0, 0), "no row is left");
        let grown = resident().saturating_sub(middle);
        assert!(grown < 8 << 20, "{grown} bytes more after 8,000 further sessions");
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(tasks <= 1, "{tasks} tasks are left");
    });
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let Ok(status) = std::fs::read_to_string("/proc/self/statm") else { return 0 };
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096
}

/// One of the senders: each of its commands has one fate, which it waits for.
#[test]
fn one_sender() {
    let Some(path) = std::env::var_os(SENDER) else { return };
    runtime().block_on(async {
        let store = SqliteStore::open(path).unwrap();
        let channel = store.channel();
        let mut receipts = Vec::with_capacity(EACH);
        for n in 0..EACH {
            let body =
                CommandBody::InjectSteer { parts: vec![Part::text(format!("{}.{n}", std::process::id()))] };
            let scope = ControlScope::session(id(n % SESSIONS));
            let command = ControlCommand::new(&Sources::default(), scope, "sender", body);
            receipts.push(channel.send(command).await.unwrap());
        }
        for receipt in receipts {
            assert_eq!(receipt.fate().await, Fate::Applied);
        }
    });
}

fn sender(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "scale::one_sender"])
        .env(SENDER, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn ten_thousand_commands_of_four_processes_are_each_taken_once() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    runtime().block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        let channel = store.channel();
        let senders: Vec<_> = (0..4).map(|_| sender(&path)).collect();
        let listening: Vec<_> =
            (0..SESSIONS).map(|n| (channel.wakeup(&id(n)), ControlScope::session(id(n)))).collect();
        let drain = async {
            let mut seen = Vec::new();
            while seen.len() < 4 * EACH {
                for (_, scope) in &listening {
                    for delivery in channel.take(scope, &[CommandType::InjectSteer]) {
                        let text = delivery.command.body.message().unwrap()[0].as_text().unwrap().to_owned();
                        seen.push(text);
                        delivery.settle(Fate::Applied);
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            seen
        };
        let mut seen = tokio::time::timeout(Duration::from_secs(240), drain).await.unwrap();
        for sender in senders {
            let output = tokio::task::spawn_blocking(|| sender.wait_with_output().unwrap()).await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 4 * EACH);
        let audit = channel.audit(&id(0), 1_000).await.unwrap();
        assert_eq!(audit.len(), 4 * EACH / SESSIONS);
        assert!(audit.iter().all(|row| row.settled.as_ref().is_some_and(|(fate, _)| *fate == Fate::Applied)));
    });
}
