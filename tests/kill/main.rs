//! A process that is killed, at every step of what it writes and at random ones, and taken up by the next: no effect
//! twice, each missing one reported in doubt, a legal history, one end.
//!
//! `TURNWRIGHT_KILLS=5000 cargo test -p turnwright-tests --test kill` makes more random runs than the usual number.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop at the first surprise"
)]

mod fight;
mod life;
mod scale;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use life::{DONE, KILL_AT, LIFE, Paths};
use tempfile::TempDir;
use turnwright_core::{Message, RandomSource, Role, SessionId, Synthetic, clock::SeededRandom, history};
use turnwright_react_runtime::store::SessionStore;
use turnwright_store::SqliteStore;

/// Random runs, unless the environment says otherwise.
const RUNS: u64 = 150;

/// Runs a process of this very program. Says whether it finished the turn.
pub(crate) fn live(directory: &Path, kill_at: Option<u64>, recovery: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "life::one_life", "--nocapture"]).env(LIFE, directory).env("RECOVERY", recovery);
    if let Some(step) = kill_at {
        command.env(KILL_AT, step.to_string());
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(0) || output.status.code().is_none(),
        "a life failed: {said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.status.code() == Some(0) && said.contains(DONE)
}

/// What must hold when the turn is over. Returns how many calls were in doubt.
fn judge(directory: &Path, recovery: &str, what: &str) -> usize {
    let paths = Paths::of(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (stored, events, report) = runtime.block_on(async {
        let store = SqliteStore::open(&paths.store).unwrap();
        let id = SessionId::new("s").unwrap();
        let stored = store.load(&id).await.unwrap().unwrap();
        (stored, store.events(&id, 0, 100_000).await.unwrap(), store.check().await.unwrap())
    });
    assert_eq!(report.faults, [], "{what}");
    assert!(stored.snapshot.is_none() && stored.journal.is_empty(), "{what}: the turn is over");
    history::check(stored.messages.iter().map(|m| &**m)).unwrap_or_else(|e| panic!("{what}: {e}"));
    let prompts = stored.messages.iter().filter(|m| m.role == Role::User).count();
    assert_eq!(prompts, 1, "{what}: one prompt");
    let ends = events
        .iter()
        .filter(|e| e.recorded.event["type"] == "turn_finished" && e.recorded.event["terminal"] == true);
    assert_eq!(ends.count(), 1, "{what}: one terminal event in the record");
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for line in fs::read_to_string(&paths.effects).unwrap().lines() {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    let results: Vec<_> = stored.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert_eq!(results.len(), 4, "{what}: each call has its result");
    let in_doubt = results.iter().filter(|r| r.synthetic == Some(Synthetic::InDoubt)).count();
    let known = results.iter().filter(|r| r.synthetic.is_none()).count();
    assert_eq!(known + in_doubt, 4, "{what}");
    match recovery {
        "report" => {
            assert!(effects.values().all(|n| *n == 1), "{what}: an effect twice: {effects:?}");
            assert!(known <= effects.len() && effects.len() <= known + in_doubt, "{what}: {effects:?}");
        }
        // With the key each is one effect to a service that honours it.
        _ => assert_eq!((effects.len(), in_doubt), (4, 0), "{what}: {effects:?}"),
    }
    shown_is_kept(&paths, &stored.messages, what);
    in_doubt
}

/// What any life had shown is in the history, but for the last moment before its end: 250 ms or 4 KiB.
fn shown_is_kept(paths: &Paths, messages: &[std::sync::Arc<Message>], what: &str) {
    let kept: Vec<String> = messages.iter().filter(|m| m.role == Role::Assistant).map(|m| m.text()).collect();
    for line in fs::read_to_string(&paths.shown).unwrap().lines() {
        let (_, early) = line.split_once('\t').unwrap();
        assert!(
            kept.iter().any(|text| text.starts_with(early)),
            "{what}: {early:?} was shown more than 250 ms before the kill, and is not in {kept:?}"
        );
    }
}

/// Lives until the turn is over: the first ones are killed at these steps.
fn lives(kills: &[u64], recovery: &str) -> (TempDir, usize) {
    let directory = TempDir::new().unwrap();
    let what = format!("{recovery}, killed at {kills:?}");
    for kill in kills.iter().map(|kill| Some(*kill)).chain([None; 3]) {
        if live(directory.path(), kill, recovery) {
            let in_doubt = judge(directory.path(), recovery, &what);
            return (directory, in_doubt);
        }
    }
    panic!("{what}: the turn never ended");
}

/// How many steps a life has that nobody kills.
fn steps() -> u64 {
    let (directory, in_doubt) = lives(&[], "report");
    assert_eq!(in_doubt, 0);
    fs::read_to_string(Paths::of(directory.path()).steps).unwrap().trim().parse().unwrap()
}

#[test]
fn fault_c1_r5_78_a_kill_at_every_step_repeats_nothing_and_reports_what_is_missing() {
    let steps = steps();
    assert!(steps > 30, "{steps}");
    let mut doubts = 0;
    for recovery in ["report", "rerun"] {
        for step in 1..=steps {
            doubts += lives(&[step], recovery).1;
        }
    }
    println!("killed at each of {steps} steps, twice; {doubts} calls in doubt");
    assert!(doubts >= 4, "{doubts}: each tool was killed between its intent and its result");
}

#[test]
fn fault_c1_n10_random_kills_repeat_nothing() {
    let runs = std::env::var("TURNWRIGHT_KILLS").map_or(RUNS, |runs| runs.parse().unwrap());
    let (steps, random) = (steps(), SeededRandom::new(7));
    let (mut kills, mut doubts) = (0, 0);
    for run in 0..runs {
        let lives_of_run: Vec<u64> =
            (0..1 + random.next_u64() % 5).map(|_| 1 + random.next_u64() % (steps + 5)).collect();
        kills += lives_of_run.len();
        doubts += lives(&lives_of_run, if run % 4 == 3 { "rerun" } else { "report" }).1;
    }
    println!("{runs} random runs, up to {kills} kills; {doubts} calls in doubt");
}
