//! How interpreters end, and what ends with them.

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use turnwright_code::Python;
use turnwright_core::{ErrorKind, Outcome};

use crate::support::{NEW, cells_by, run_by, texts, turn};

/// Waits until a process is gone; one that nobody reaped yet counts as gone.
pub(crate) async fn is_gone(pid: i32) -> bool {
    for _ in 0..500 {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if test_kill_process(Pid::from_raw(pid).unwrap()).is_err() || state.contains(") Z ") {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

pub(crate) fn pid(text: &str) -> i32 {
    text.rsplit_once("pid ").unwrap().1.lines().next().unwrap().parse().unwrap()
}

const CHILD: &str =
    "import subprocess, time\np = subprocess.Popen(['sleep', '1000'])\nprint('pid', p.pid)\nx = 1";

#[tokio::test]
async fn a_cell_that_does_not_end_is_killed_with_all_it_started_and_the_next_starts_empty() {
    let python = Python::default().time_limit(Duration::from_secs(2));
    let hang = format!("{CHILD}\nwhile True: pass");
    let ran = run_by(&python, [hang.as_str(), "x", "1"]).await;
    assert_eq!(ran[0].error.as_ref().map(|e| e.kind), Some(ErrorKind::ToolTimeout));
    assert!(
        ran[0].content.contains("within 2 s") && ran[0].content.contains("new interpreter"),
        "{:?}",
        texts(&ran)
    );
    assert!(is_gone(pid(&ran[0].content)).await, "what it printed is kept, and its child is gone");
    assert!(ran[1].content.starts_with(NEW) && ran[1].content.contains("NameError"), "{}", ran[1].content);
    assert_eq!(ran[2].content, "[value] 1", "and the one after it does not start anew");
}

#[tokio::test]
async fn an_interpreter_that_dies_says_how_and_the_next_cell_starts_empty() {
    let python = Python::default();
    let ran = run_by(
        &python,
        [
            "import os\nprint('last words', flush=True)\nos._exit(7)",
            "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
            "2",
        ],
    )
    .await;
    assert!(
        ran[0].content.contains("last words\nthe interpreter ended (exit status: 7)"),
        "{}",
        ran[0].content
    );
    assert!(ran[1].content.contains("SIGSEGV"), "{}", ran[1].content);
    assert_eq!(ran[2].content, format!("{NEW}\n[value] 2"));
}

#[tokio::test]
async fn memory_beyond_the_limit_is_an_error_of_the_cell() {
    let python = Python::default().memory_limit(256 << 20);
    let ran = run_by(&python, ["x = 'x' * (1 << 30)", "1"]).await;
    assert!(ran[0].content.contains("MemoryError"), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] 1");
}

#[tokio::test]
async fn a_cancelled_cell_is_killed_with_all_it_started() {
    let python = Python::default();
    let hang = format!("{CHILD}\nprint('', flush=True)\ntime.sleep(1000)");
    let agent = cells_by(&python, [hang.as_str()]).build().unwrap();
    let session = agent.new_session();
    let mut handle = session.start("go").unwrap();
    let shown = loop {
        use futures::StreamExt;
        let event = handle.next().await.unwrap();
        if let turnwright_react_runtime::TurnEventKind::ToolProgress { text, .. } = &event.kind
            && text.contains("pid")
        {
            break text.clone();
        }
    };
    handle.cancel(turnwright_core::CancelCause::requested("somebody"));
    let result = handle.result().await.unwrap();
    assert_eq!(result.outcome(), Outcome::Cancelled);
    assert!(is_gone(pid(&shown)).await);
    assert_eq!(python.idle(), 0);
}

#[tokio::test]
async fn an_idle_interpreter_ends_when_its_time_is_over_and_the_longest_idle_makes_room() {
    let python = Python::default().keep_idle(Duration::from_millis(300), 16);
    run_by(&python, ["1"]).await;
    assert_eq!(python.idle(), 1);
    for _ in 0..200 {
        if python.idle() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(python.idle(), 0);

    let python = Python::default().keep_idle(Duration::from_secs(100), 2);
    let agent = |cells: [&'static str; 1]| cells_by(&python, cells).build().unwrap();
    let sessions: Vec<_> = (0..3).map(|_| agent(["x = 1"]).new_session()).collect();
    for session in &sessions {
        turn(session).await;
    }
    assert_eq!(python.idle(), 2);
    let again = agent(["x"]).open_session(sessions[0].id().clone()).await.unwrap();
    assert!(turn(&again).await[0].content.contains("NameError"), "the first made room");
    let again = agent(["x"]).open_session(sessions[2].id().clone()).await.unwrap();
    assert_eq!(texts(&turn(&again).await), ["[value] 1"]);
    python.end_session(sessions[2].id());
    assert_eq!(python.idle(), 1);
}

#[tokio::test]
async fn ten_sessions_at_once_have_their_own_and_nothing_is_left_of_them() {
    let python = Python::default();
    let turns = (0..10).map(|n| {
        let python = python.clone();
        async move {
            let cells = [format!("import time\nx = {n}\ntime.sleep(0.05)"), "x".to_owned()];
            let ran = run_by(&python, cells.iter().map(String::as_str)).await;
            assert_eq!(ran[1].content, format!("[value] {n}"));
        }
    });
    futures::future::join_all(turns).await;
    assert_eq!(python.idle(), 10);
    let ran = run_by(&python, ["import os\nprint('pid', os.getpid())"]).await;
    drop(python);
    assert!(is_gone(pid(&ran[0].content)).await, "with the executor");
}

#[tokio::test]
async fn an_interpreter_that_is_none_is_named() {
    let ran = run_by(&Python::default().interpreter("/no/such/python"), ["1"]).await;
    assert!(ran[0].content.contains("/no/such/python cannot be started"), "{}", ran[0].content);
    let ran = run_by(&Python::default().interpreter("/bin/false"), ["1"]).await;
    assert!(ran[0].content.contains("the interpreter ended (exit status: 1)"), "{}", ran[0].content);
    let ran = run_by(&Python::default().directory("/no/such/place"), ["1"]).await;
    assert!(ran[0].content.contains("there is no directory /no/such/place"), "{}", ran[0].content);
}
