//! What a cell says, and what stays for the next.

use std::time::Duration;

use turnwright_code::Python;
use turnwright_core::{CHILD_ENV, ErrorKind};
use turnwright_react_runtime::tool::{ToolContext, tool};

use crate::support::{NEW, cells_by, run, run_by, texts, turn};

#[tokio::test]
async fn a_cell_says_what_it_printed_and_the_value_of_its_last_expression() {
    let ran = run([
        "print('a'); 1 + 1",
        "None",
        "{'b': [1.5, None, True]}",
        "import sys; print('e', file=sys.stderr)",
    ])
    .await;
    assert_eq!(
        texts(&ran),
        [
            &format!("{NEW}\na\n[value] 2"),
            "[nothing printed, no value]",
            "[value] {\"b\":[1.5,null,true]}",
            "e"
        ]
    );
}

#[tokio::test]
async fn names_and_imports_stay_for_the_next_cell_and_the_next_turn() {
    let python = Python::default();
    let agent = cells_by(&python, ["import math\ndef f(): return math.floor(2.5)"]).build().unwrap();
    let session = agent.new_session();
    turn(&session).await;
    assert_eq!(python.idle(), 1);
    let again = cells_by(&python, ["f()"]).build().unwrap();
    let session = again.open_session(session.id().clone()).await.unwrap();
    assert_eq!(texts(&turn(&session).await), ["[value] 2"]);
    let other = run_by(&python, ["f()"]).await;
    assert!(other[0].content.contains("NameError"), "another session has its own: {}", other[0].content);
}

#[tokio::test]
async fn a_cell_that_fails_is_an_error_with_its_own_lines_and_what_it_printed_is_kept() {
    let ran = run(["x = 1", "print('before')\ndef f():\n    return 1 / 0\nf()", "x"]).await;
    let failed = &ran[1];
    assert_eq!(failed.error.as_ref().map(|e| e.kind), Some(ErrorKind::ToolFailed));
    for part in ["before\n", "<cell 2>\", line 3, in f", "return 1 / 0", "ZeroDivisionError"] {
        assert!(failed.content.contains(part), "{part}: {}", failed.content);
    }
    assert!(!failed.content.contains("worker") && !failed.content.contains("in step"), "{}", failed.content);
    assert_eq!(ran[2].content, "[value] 1", "what was defined is still there");
}

#[tokio::test]
async fn a_cell_that_is_no_python_is_told_so_with_the_line() {
    let ran = run(["x = ("]).await;
    assert!(
        ran[0].content.contains("SyntaxError") && ran[0].content.contains("<cell 1>"),
        "{}",
        ran[0].content
    );
}

#[tokio::test]
async fn what_cannot_come_back_from_json_is_shown_as_python_shows_it() {
    let ran = run(["2 ** 70", "{1: 2}", "float('nan')", "'\\ud800'", "(1, 2)", "object", "1 == 1"]).await;
    let said = texts(&ran);
    assert_eq!(said[0], format!("{NEW}\n[value] {}", 1_180_591_620_717_411_303_424_u128));
    assert_eq!(
        said[1..],
        [
            "[value] {1: 2}",
            "[value] nan",
            "[value] '\\ud800'",
            "[value] (1, 2)",
            "[value] <class 'object'>",
            "[value] true"
        ]
    );
}

#[tokio::test]
async fn a_value_without_a_face_is_the_cells_error_and_not_the_end() {
    let ran = run(["class A:\n    def __repr__(self): raise KeyError('no')\nA()", "1"]).await;
    assert!(ran[0].content.contains("KeyError: 'no'"), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] 1");
}

#[tokio::test]
async fn endless_output_is_cut_in_the_middle_and_stops_nobody() {
    let ran = run_by(
        &Python::default().output_limit(1000),
        ["print('first'); [print('x' * 1000) for _ in range(20_000)]; print('last')", "print('next')"],
    )
    .await;
    let said = &ran[0].content;
    assert!(
        said.contains("first\nxxx") && said.contains("xxx\nlast") && said.contains("bytes left out"),
        "{said}"
    );
    assert!(said.len() < 1500, "{}", said.len());
    assert_eq!(ran[1].content, "next", "and nothing of it is left for the next cell");
}

#[tokio::test]
async fn a_long_value_and_a_long_error_are_cut() {
    let ran = run(["'v' * 1_000_000", "raise ValueError('e' * 1_000_000)", "list(range(100_000))"]).await;
    for result in &ran {
        assert!(
            result.content.len() < 25_000 && result.content.contains("characters left out"),
            "{}",
            result.content.len()
        );
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_made_visible() {
    let ran =
        run(["import os\nprint('a', flush=True)\n_ = os.write(1, b'\\xff\\x00\\n')\nprint('\\ud800')"]).await;
    assert_eq!(ran[0].content, format!("{NEW}\na\n\u{fffd}␀\n\\ud800\n[value] 3").replace("\n[value] 3", ""));
}

#[tokio::test]
async fn await_works_and_input_does_not() {
    let ran = run(["import asyncio\nawait asyncio.sleep(0, 'slept')", "input()"]).await;
    assert!(ran[0].content.ends_with("[value] slept"), "{}", ran[0].content);
    assert!(ran[1].content.contains("EOFError"), "{}", ran[1].content);
}

#[tokio::test]
async fn leaving_the_interpreter_politely_ends_the_cell_only() {
    let ran = run(["x = 1\nimport sys\nsys.exit(3)", "x"]).await;
    assert!(ran[0].content.contains("SystemExit: 3"), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] 1");
}

#[tokio::test]
async fn a_fork_of_a_cell_answers_nothing() {
    let ran = run([
        "import os\nif os.fork() == 0:\n    print('child', flush=True)\nelse:\n    os.wait()\nos.getpid()",
        "2",
    ])
    .await;
    assert!(ran[0].content.contains("child"), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] 2");
}

#[tokio::test]
async fn streams_that_a_cell_closed_or_replaced_end_nothing() {
    let ran = run(["import sys\nsys.stdout.close()\nsys.stderr = None", "1 + 1"]).await;
    assert_eq!(ran[1].content, "[value] 2", "{:?}", texts(&ran));
}

#[tokio::test]
async fn the_environment_and_the_directory_are_its_own() {
    let python = Python::default().env("GIVEN", "value");
    let ran = run_by(
        &python,
        [
            "import os\nopen('here', 'w').write('x')\nsorted(os.environ)",
            "os.environ['GIVEN'], os.listdir('.'), os.stat('.').st_mode & 0o777",
            "os.getcwd()",
        ],
    )
    .await;
    for ours in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "USER"] {
        assert!(!ran[0].content.contains(ours), "{}", ran[0].content);
    }
    assert!(ran[0].content.contains("\"GIVEN\""), "{}", ran[0].content);
    assert_eq!(ran[1].content, "[value] ('value', ['here'], 448)");
    let place = std::path::PathBuf::from(ran[2].content.strip_prefix("[value] ").unwrap());
    assert!(place.is_dir());
    drop(python);
    for _ in 0..200 {
        if !place.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!place.exists(), "it goes with its interpreter");
}

#[tokio::test]
async fn what_hooks_tell_child_processes_is_there_for_the_cells_of_the_turn_only() {
    let python = Python::default().env("GIVEN", "value");
    let tell = tool("tell", "", async |ctx: ToolContext, (): ()| {
        ctx.turn().state().set(&CHILD_ENV, [("TOLD".to_owned(), "1".to_owned())].into());
        Ok(())
    });
    let cell = "import os\n[os.environ.get(n) for n in ('TOLD', 'GIVEN')]";
    let session = cells_by(&python, ["tools.tell()", cell]).tool(tell).build().unwrap().new_session();
    assert_eq!(texts(&turn(&session).await)[1], "[value] [\"1\",\"value\"]");
    let again = cells_by(&python, [cell]).build().unwrap().open_session(session.id().clone()).await.unwrap();
    assert_eq!(
        texts(&turn(&again).await),
        ["[value] [null,\"value\"]"],
        "the same interpreter, another turn"
    );
}

#[tokio::test]
async fn a_cell_in_a_fence_runs_and_an_empty_one_does_not() {
    let ran = run(["```python\nprint(1)\n```", " \n", &"#".repeat(200_000)]).await;
    assert_eq!(ran[0].content, format!("{NEW}\n1"));
    assert!(ran[1].content.contains("the cell is empty") && ran[2].content.contains("100000 are the most"));
}
