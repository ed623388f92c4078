//! Commands, their output, and that nothing is left of them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::StreamExt;
use serde_json::json;
use tempfile::TempDir;
use turnwright::{CancelCause, TurnEventKind};

use crate::tools::tests::{call, refused, told, tree, turn};

fn place() -> (TempDir, PathBuf) {
    let base = tree();
    let root = base.path().join("root");
    (base, root)
}

async fn sh(root: &Path, command: &str) -> String {
    told(root, "shell", json!({ "command": command })).await
}

/// Whether a process still runs. One that is dead and that nobody reaped does not.
fn runs(pid: &str) -> bool {
    let state = if Path::new("/proc/self/stat").exists() {
        // `17 (name) S …`
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").map(|(_, state)| state.to_owned()).unwrap_or_default()
    } else {
        let ps = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
        String::from_utf8(ps.stdout).unwrap().trim().to_owned()
    };
    !state.is_empty() && !state.starts_with('Z')
}

/// Waits for something to become true.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true");
}

fn pids(root: &Path) -> Vec<String> {
    let pids = fs::read_to_string(root.join("pids")).unwrap_or_default();
    pids.lines().map(str::to_owned).collect()
}

/// A child, a grandchild and one that lets go of the pipe; each says its number. The shell itself is the fourth.
const FAMILY: &str = "echo $$ > pids
    sleep 1000 & echo $! >> pids
    sh -c 'sleep 1000 & echo $! >> pids; wait' &
    sleep 1000 > /dev/null 2>&1 & echo $! >> pids
    while [ $(wc -l < pids) -lt 4 ]; do sleep 0.01; done
    echo ready";

#[tokio::test]
async fn a_command_runs_in_the_root_and_tells_how_it_ended() {
    let (_base, root) = place();
    assert_eq!(sh(&root, "echo out; echo err >&2; echo out").await, "exit code 0\nout\nerr\nout\n");
    assert_eq!(sh(&root, "true").await, "exit code 0, nothing printed");
    assert_eq!(sh(&root, "echo no; exit 3").await, "exit code 3\nno\n");
    assert_eq!(sh(&root, "no-such-program-here 2>/dev/null").await, "exit code 127, nothing printed");
    assert_eq!(sh(&root, "kill -TERM $$").await, "ended by signal: 15 (SIGTERM), nothing printed");
    let real = root.canonicalize().unwrap();
    assert_eq!(sh(&root, "pwd -P").await, format!("exit code 0\n{}\n", real.display()));
    assert_eq!(sh(&root, "-l").await.lines().next(), Some("exit code 127"), "a command is no option");
}

#[tokio::test]
async fn nobody_answers_a_command_that_asks() {
    let (_base, root) = place();
    assert_eq!(sh(&root, "read answer; echo \"$? [$answer]\"").await, "exit code 0\n1 []\n");
    assert_eq!(sh(&root, "cat; echo end").await, "exit code 0\nend\n");
}

#[tokio::test]
async fn a_command_inherits_no_secrets_and_its_shell_is_no_login_shell() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something not to be passed on");
    let (_base, root) = place();
    let told = sh(&root, "env | sed 's/=.*//'").await;
    // The shell's own are among them.
    let known = [
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "PWD", "OLDPWD",
        "SHLVL", "_",
    ];
    for name in told.lines().skip(1) {
        assert!(known.contains(&name) || name.starts_with("LC_"), "{name} is passed on");
    }
    assert_eq!(sh(&root, "echo $TERM $0 ${-##*i*}").await, "exit code 0\ndumb /bin/sh\n");
}

#[tokio::test]
async fn what_is_no_command_is_refused() {
    let (_base, root) = place();
    for (arguments, words) in [
        (json!({ "command": " " }), "is empty"),
        (json!({ "command": "x".repeat(100_001) }), "write a script"),
        (json!({ "command": "a\0b" }), "cannot be run"),
        (json!({ "command": "true", "timeout_seconds": 0 }), "from 1 to 500"),
        (json!({ "command": "true", "timeout_seconds": 501 }), "from 1 to 500"),
        (json!({ "command": "true", "timeout": 5 }), "unknown field `timeout`"),
    ] {
        let why = refused(&root, "shell", arguments).await;
        assert!(why.contains(words), "{words}: {why}");
    }
}

#[tokio::test]
async fn output_is_bounded_and_made_visible() {
    let (_base, root) = place();
    let told = sh(&root, "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    assert!(told.len() < 41_000, "{}", told.len());
    assert!(told.starts_with("exit code 0\nfirst\nxxx") && told.ends_with("xxx\nlast\n"));
    assert!(told.contains("[… 4960012 bytes left out …]"));
    assert_eq!(sh(&root, "printf 'a\\000\\033[1m\\377'").await, "exit code 0\na␀␛[1m\u{fffd}");
}

#[tokio::test]
async fn a_background_child_neither_hangs_the_call_nor_outlives_it() {
    let (_base, root) = place();
    let told = sh(&root, FAMILY).await;
    assert_eq!(told, "exit code 0\nready\n");
    let pids = pids(&root);
    assert_eq!(pids.len(), 4);
    for pid in pids {
        assert!(!runs(&pid), "{pid} is left");
    }
}

#[tokio::test]
async fn at_the_time_limit_everything_is_killed_and_what_was_printed_is_told() {
    let (_base, root) = place();
    // Politely asked nobody would go.
    let command = format!("trap '' TERM INT HUP\n{FAMILY}\nwait");
    let result = call(&root, "shell", json!({ "command": command, "timeout_seconds": 3 })).await;
    assert!(result.is_error());
    assert!(result.content.contains("did not end within 3 s and was killed"), "{}", result.content);
    assert!(result.content.ends_with("\nready\n"), "{}", result.content);
    let pids = pids(&root);
    assert_eq!(pids.len(), 4);
    for pid in pids {
        assert!(!runs(&pid), "{pid} is left");
    }
}

/// Whoever leaves the group is not found, but does not hold up the call by the pipe it took along.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_left_the_group_does_not_hang_the_call() {
    let (_base, root) = place();
    let told = sh(&root, "setsid sleep 1000 & echo $! > pids; echo ready").await;
    assert_eq!(told, "exit code 0\nready\n");
    // Ours to clean up, if it came so far before the group was killed.
    for pid in pids(&root) {
        let _ = std::process::Command::new("kill").args(["-KILL", &pid]).status();
    }
}

/// How a turn is cut while its command runs.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Cancel,
    Interrupt,
    DropHandle,
}

#[tokio::test]
async fn every_cut_of_the_turn_kills_the_group() {
    for cut in [Cut::Cancel, Cut::Interrupt, Cut::DropHandle] {
        let (_base, root) = place();
        let mut turn = turn(&root, &[("shell", json!({ "command": format!("{FAMILY}\nwait") }))]);
        while let Some(event) = turn.next().await {
            if matches!(&event.kind, TurnEventKind::ToolProgress { text, .. } if text == "ready") {
                break;
            }
        }
        let pids = pids(&root);
        assert_eq!(pids.len(), 4, "{cut:?}");
        assert!(pids.iter().all(|pid| runs(pid)), "{cut:?}");
        let cause = CancelCause::requested("test");
        match cut {
            Cut::Cancel => assert!(turn.cancel(cause)),
            Cut::Interrupt => assert!(turn.interrupt(cause)),
            Cut::DropHandle => drop(turn),
        }
        for pid in pids {
            until(|| !runs(&pid)).await;
        }
    }
}

/// The runtime goes away with the turn in it: nothing is polled any more, only dropped.
#[test]
fn the_end_of_the_runtime_kills_the_group() {
    let (_base, root) = place();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let first = runtime().unwrap();
    let turn = first.block_on(async {
        let turn = turn(&root, &[("shell", json!({ "command": format!("{FAMILY}\nwait") }))]);
        until(|| pids(&root).len() == 4).await;
        turn
    });
    drop(first);
    let pids = pids(&root);
    runtime().unwrap().block_on(async {
        for pid in pids {
            until(|| !runs(&pid)).await;
        }
    });
    drop(turn);
}

#[tokio::test]
async fn progress_shows_the_first_lines_and_is_bounded() {
    let (_base, root) = place();
    let command = "for n in $(seq 1 5000); do echo line $n; done; head -c 5000 /dev/zero | tr '\\0' x; echo";
    let mut turn = turn(&root, &[("shell", json!({ "command": command }))]);
    let mut lines = Vec::new();
    while let Some(event) = turn.next().await {
        if let TurnEventKind::ToolProgress { text, .. } = event.kind {
            lines.push(text);
        }
    }
    let first: Vec<_> = (1..=20).map(|n| format!("line {n}")).collect();
    assert_eq!(lines[..20], first);
    // One a second from there on; the command is over within a few.
    assert!((21..60).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().all(|line| line.len() <= 200));
}
