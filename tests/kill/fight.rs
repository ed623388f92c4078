//! Two processes that want one session.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use turnwright_core::{ErrorKind, Role, SessionId, history};
use turnwright_react_runtime::{Agent, StartError, store::SessionStore};
use turnwright_store::SqliteStore;
use turnwright_testkit::{Reply, ScriptedModel};

const FIGHT: &str = "TURNWRIGHT_TEST_FIGHT";
const NAME: &str = "TURNWRIGHT_TEST_NAME";
const TURNS: usize = 40;

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// One fighter: says things in turns, each until it was said, and counts what it lost.
#[test]
fn one_fighter() {
    let Some(path) = std::env::var_os(FIGHT) else { return };
    let name = std::env::var(NAME).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn SessionStore> = Arc::new(SqliteStore::open(path).unwrap());
        let replies: Vec<_> = (0..10_000)
            .map(|_| Reply::new().text("ok ").wait(Duration::from_millis(1)).text("then").finish())
            .collect();
        let model = ScriptedModel::new(replies);
        let agent = Agent::builder("t", model.handle()).store(store).build().unwrap();
        let (mut said, mut lost) = (0, 0);
        while said < TURNS {
            let session = agent.open_session(id()).await.unwrap();
            let mut handle = match session.start(format!("{name}.{said}")) {
                Ok(handle) => handle,
                // What is stored is the other's turn in its middle.
                Err(StartError::Parked) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                Err(e) => panic!("{e}"),
            };
            let result = handle.result().await.unwrap();
            match result.error {
                None => said += 1,
                Some(e) if matches!(e.kind, ErrorKind::SessionHeld | ErrorKind::Conflict) => lost += 1,
                Some(e) => panic!("{name}: {e:?}"),
            }
        }
        println!("{name} lost {lost}");
    });
}

fn fighter(path: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fight::one_fighter", "--nocapture"])
        .env(FIGHT, path)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn fault_k1_r8_112_two_processes_fight_for_a_session_and_the_lease_decides() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    drop(SqliteStore::open(&path).unwrap());
    let fighters = [fighter(&path, "a"), fighter(&path, "b")];
    for one in fighters {
        let output = one.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("{}", said.lines().find(|line| line.contains("lost")).unwrap());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.check().await.unwrap().faults, []);
        let messages = store.load(&id()).await.unwrap().unwrap().messages;
        history::check(messages.iter().map(|m| &**m)).unwrap();
        let mut prompts: Vec<_> =
            messages.iter().filter(|m| m.role == Role::User).map(|m| m.text()).collect();
        assert_eq!(messages.len(), 4 * TURNS, "each prompt has its answer, right after it");
        let order = |name: char| -> Vec<usize> {
            let mine = prompts.iter().filter_map(|p| p.strip_prefix(name));
            mine.map(|n| n[1..].parse().unwrap()).collect()
        };
        for name in ['a', 'b'] {
            assert_eq!(order(name), (0..TURNS).collect::<Vec<_>>(), "each once, in order");
        }
        prompts.dedup();
        assert_eq!(prompts.len(), 2 * TURNS);
    });
}
