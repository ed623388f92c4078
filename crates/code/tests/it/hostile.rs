//! Cells that break what they run in.

use std::time::Duration;

use turnwright_code::Python;
use turnwright_core::{CHILD_ENV, ErrorKind};
use turnwright_react_runtime::tool::{Json, Tool, ToolContext, tool};

use crate::{
    ends::{is_gone, pid},
    support::{NEW, cells_by, run, run_by, texts, turn},
};

/// Never answers.
fn stuck() -> impl Tool {
    tool("stuck", "", async |_: ToolContext, (): ()| {
        std::future::pending::<()>().await;
        Ok(())
    })
}

/// Answers later than anybody waits.
fn slow() -> impl Tool {
    tool("slow", "", async |_: ToolContext, (): ()| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok("slow")
    })
}

fn echo() -> impl Tool {
    tool("echo", "", async |_: ToolContext, arguments: serde_json::Value| Ok(Json(arguments)))
}

#[tokio::test]
async fn a_program_that_never_stops_printing_does_not_hold_the_turn() {
    let cells = [
        "import subprocess, time\np = [subprocess.Popen(['yes']) for _ in range(8)]\ntime.sleep(0.5)\n1",
        "for one in p: one.kill()\n2",
    ];
    let ran = run_by(&Python::default().output_limit(1000), cells).await;
    assert!(ran[0].content.ends_with("[value] 1"), "{}", ran[0].content);
    assert!(ran[1].content.ends_with("[value] 2"), "{}", ran[1].content);
}

#[tokio::test]
async fn a_tool_called_by_what_is_no_name_is_an_error_and_the_next_cell_has_its_own_result() {
    let cells = ["tools(5)", "1", "tools('\\ud800')", "tools('x' * 10_000_000)", "2"];
    let ran = run(cells).await;
    for at in [0, 2, 3] {
        assert!(ran[at].content.contains("ToolError"), "{at}: {}", ran[at].content);
    }
    assert_eq!((ran[1].content.as_str(), ran[4].content.as_str()), ("[value] 1", "[value] 2"));
}

#[tokio::test]
async fn a_tool_may_have_arguments_of_any_name() {
    let cell = "tools('echo', name=1, self=2) + tools.echo(name=3, self=4)";
    let ran = turn(&cells_by(&Python::default(), [cell]).tool(echo()).build().unwrap().new_session()).await;
    let said = &ran[0].content;
    assert!(said.contains("{\"name\":1,\"self\":2}{\"name\":3,\"self\":4}"), "{said}");
}

#[tokio::test]
async fn who_gives_up_waiting_for_a_tool_does_not_take_its_answer_for_another_ones() {
    let given_up = "import signal\ndef late(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\n\
                    signal.setitimer(signal.ITIMER_REAL, 0.2)\ntry:\n    tools.slow()\nexcept TimeoutError:\n    print('given up')";
    let both = format!("{given_up}\ntools.echo(a=1)");
    let cells = [both.as_str(), "1", given_up, "2"];
    let agent = cells_by(&Python::default(), cells).tool(slow()).tool(echo()).build().unwrap();
    let ran = turn(&agent.new_session()).await;
    assert_eq!(
        texts(&ran),
        [&format!("{NEW}\ngiven up\n[value] {{\"a\":1}}"), "[value] 1", "given up", "[value] 2"]
    );
}

/// What a cell writes where the interpreter answers is its own result at most, and never that of another cell.
#[tokio::test]
async fn forged_replies_are_never_the_result_of_the_next_cell() {
    let find = "import gc, json, os\nk, = [o for o in gc.get_objects() if type(o).__name__ == 'Kernel']\n";
    for reply in
        ["dict(done=k.cells, value='forged', error=None)", "dict(value='forged', error=None)", "{}", "5"]
    {
        let forge = format!("{find}_ = os.write(k.replies, (json.dumps({reply}) + '\\n').encode())\n'true'");
        let ran = run([forge.as_str(), "'second'", "'third'"]).await;
        let said = texts(&ran);
        assert!(!said[1].contains("true") && !said[1].contains("forged"), "{reply}: {said:?}");
        // Where replies do not fit, the interpreter is ended, and somebody is told.
        let is_told = said.iter().any(|text| text.contains("the next cell starts in a new interpreter"));
        assert!(is_told, "{reply}: {said:?}");
        assert!(said[2].ends_with("[value] third"), "{reply}: {said:?}");
    }
}

#[tokio::test]
async fn all_of_a_cell_runs_in_one_event_loop() {
    let cells = [
        "import asyncio\nasync def f(): return 3\nt = asyncio.create_task(f())\nawait t",
        "q = asyncio.Queue()\nawait q.put(1)\nt = asyncio.ensure_future(q.get())\n(await t) + 1",
        "f()",
    ];
    let ran = run(cells).await;
    assert_eq!(ran[0].content, format!("{NEW}\n[value] 3"));
    assert_eq!(ran[1].content, "[value] 2");
    assert!(ran[2].content.contains("[value] <coroutine object f"), "{}", ran[2].content);
}

#[tokio::test]
async fn an_interpreter_that_ends_is_known_to_have_ended_though_a_fork_holds_its_pipes() {
    let python = Python::default().time_limit(Duration::from_secs(20));
    let cell = "import os, time\np = os.fork()\nif p == 0:\n    time.sleep(1000)\nprint('pid', p, flush=True)\nos._exit(7)";
    let ran = run_by(&python, [cell, "1"]).await;
    assert!(ran[0].content.contains("the interpreter ended (exit status: 7)"), "{}", ran[0].content);
    assert!(is_gone(pid(&ran[0].content)).await, "the fork goes with it");
    assert_eq!(ran[1].content, format!("{NEW}\n[value] 1"));
}

#[tokio::test]
async fn an_interpreter_that_ends_takes_the_tool_with_it_that_it_waits_for() {
    let python = Python::default().time_limit(Duration::from_secs(20));
    let cell = "import os, threading\nthreading.Timer(0.3, lambda: os._exit(7)).start()\ntools.stuck()";
    let agent = cells_by(&python, [cell, "1"]).tool(stuck()).build().unwrap();
    let ran = turn(&agent.new_session()).await;
    assert!(ran[0].content.contains("the interpreter ended (exit status: 7)"), "{}", ran[0].content);
    assert_eq!(ran[1].content, format!("{NEW}\n[value] 1"));
}

#[tokio::test]
async fn what_left_the_group_and_holds_the_output_holds_nobody_up() {
    let python = Python::default().time_limit(Duration::from_secs(2));
    let cell = "import subprocess\np = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
                print('pid', p.pid, flush=True)\nwhile True: pass";
    let ran = run_by(&python, [cell, "1"]).await;
    assert_eq!(ran[0].error.as_ref().map(|e| e.kind), Some(ErrorKind::ToolTimeout));
    assert_eq!(ran[1].content, format!("{NEW}\n[value] 1"));
    // As documented it is not found again; the test does not leave it behind.
    let left = rustix::process::Pid::from_raw(pid(&ran[0].content)).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn recursion_is_an_error_of_the_cell_and_without_its_limit_the_end_of_the_interpreter() {
    let cells = [
        "def f(n): return f(n + 1)\nx = 1\nf(0)",
        "x",
        "import sys\nsys.setrecursionlimit(10**9)\ndef g(n):\n    return [g(n + 1) for _ in (1,)]\ng(0)",
        "2",
    ];
    let ran = run(cells).await;
    assert!(ran[0].content.contains("RecursionError"), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] 1");
    assert_eq!(ran[2].error.as_ref().map(|e| e.kind), Some(ErrorKind::ToolFailed), "{}", ran[2].content);
    assert!(ran[3].content.ends_with("[value] 2"), "{}", ran[3].content);
}

#[tokio::test]
async fn what_a_cell_starts_has_the_limits_of_the_cell() {
    let python = Python::default().memory_limit(256 << 20);
    let cell = "import subprocess, sys\n\
                p = subprocess.run([sys.executable, '-c', 'x = chr(120) * (1 << 30)'], capture_output=True)\n\
                p.returncode, b'MemoryError' in p.stderr";
    assert_eq!(texts(&run_by(&python, [cell]).await), [format!("{NEW}\n[value] (1, True)")]);
}

#[tokio::test]
async fn a_cell_without_a_null_character_in_its_variables_is_the_only_one_that_runs() {
    let tell = |value: &'static str| {
        tool("tell", "", async move |ctx: ToolContext, (): ()| {
            ctx.turn().state().set(&CHILD_ENV, [("TOLD".to_owned(), value.to_owned())].into());
            Ok(())
        })
    };
    let python = Python::default().env("TOLD", "given");
    let cells = ["x = 1\ntools.tell()", "x"];
    let session = cells_by(&python, cells).tool(tell("a\0b")).build().unwrap().new_session();
    let ran = turn(&session).await;
    assert!(ran[1].content.contains("null byte"), "{}", ran[1].content);
    let cells = ["import os\ntools.tell()", "os.environ['TOLD']"];
    let again = cells_by(&python, cells).tool(tell("told")).build().unwrap();
    let again = again.open_session(session.id().clone()).await.unwrap();
    assert_eq!(texts(&turn(&again).await)[1], "[value] told");
    let again = cells_by(&python, ["os.environ['TOLD'], x"]).build().unwrap();
    let again = again.open_session(session.id().clone()).await.unwrap();
    assert_eq!(texts(&turn(&again).await), ["[value] ('given', 1)"], "what was given is there again");
}

#[tokio::test]
async fn the_directory_goes_also_when_something_still_writes_into_it() {
    for _ in 0..5 {
        let python = Python::default();
        let cell = "import os, subprocess\n\
                    for n in range(4):\n    p = subprocess.Popen(['sh', '-c', f'while :; do : > {n}.$i; i=$((i+1)); done'])\nos.getcwd()";
        let ran = run_by(&python, [cell]).await;
        let place = ran[0].content.rsplit_once("[value] ").unwrap().1.to_owned();
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(python);
        let mut is_there = true;
        for _ in 0..300 {
            is_there = std::path::Path::new(&place).exists();
            if !is_there {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!is_there, "{place}");
    }
}

/// A thread that outlives its cell may call nothing until the next cell, and what it prints is the next cell's.
#[tokio::test]
async fn a_tool_called_after_its_cell_is_refused_and_what_is_printed_then_is_shown_with_the_next() {
    let place = tempfile::tempdir().unwrap();
    let python = Python::default().directory(place.path());
    let cells = ["import os, threading, time\n\
                  def late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    \
                  try: tools.echo(a=1)\n    except ToolError as e: print('late:', e, flush=True)\n    open('gone', 'w').close()\n\
                  threading.Thread(target=late).start()"];
    let agent = cells_by(&python, cells).tool(echo()).build().unwrap();
    let session = agent.new_session();
    turn(&session).await;
    std::fs::write(place.path().join("go"), "").unwrap();
    while !place.path().join("gone").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = cells_by(&python, ["1"]).build().unwrap().open_session(session.id().clone()).await.unwrap();
    let ran = turn(&again).await;
    assert_eq!(texts(&ran), ["late: tools are called while a cell runs, and by its own process\n[value] 1"]);
}
