//! A person at a terminal who is asked.
#![cfg(unix)]

use std::time::Duration;

use pty_process::Command;
use turnwright_testkit::provider::Reply;

use crate::{
    screen::{CTRL_C, CTRL_D, Terminal, messages, send, terminate},
    support::{directory, run, server},
};

/// `fault_a10`, `fault_r5_72`: a turn that asks can be cancelled, which is seen, and the session goes on.
#[test]
fn ctrl_c_ends_a_turn_that_asks_and_a_signal_ends_the_program() {
    run(async {
        let call = || Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let root = directory();
        let server = server([call(), Reply::new().text("Fine."), call()]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.say("do it").await;
        terminal.sees("? y/n > ").await;
        terminal.press(CTRL_C).await;
        terminal.sees("cancelled by user: Ctrl-C\n").await;
        terminal.say("never mind").await;
        terminal.sees("Fine.\n").await;
        terminal.say("again").await;
        terminal.sees("? y/n > ").await;
        terminate(&terminal.program.id().unwrap().to_string());
        assert_eq!(terminal.ends().await.code(), Some(130), "{}", terminal.seen);
        assert!(terminal.seen.contains("cancelled by user: SIGTERM\n"), "{}", terminal.seen);
        assert!(!root.join("x").exists());
    });
}

/// The editor has a way of its own with signals.
#[test]
fn two_signals_leave_the_prompt() {
    run(async {
        let (server, root) = (server([]).await, directory());
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.sees("\n> ").await;
        terminal.press("half").await;
        terminal.sees("half").await;
        let pid = terminal.program.id().unwrap().to_string();
        send("-INT", &pid);
        terminal.sees("once more leaves the chat\n").await;
        send("-INT", &pid);
        assert_eq!(terminal.ends().await.code(), Some(130), "{}", terminal.seen);
    });
}

#[test]
fn what_was_typed_before_a_question_is_no_answer() {
    run(async {
        let call = r#"{"command":"touch x"}"#;
        let first = Reply::new().delay(Duration::from_millis(200)).text("Well").text("then");
        let root = directory();
        let server =
            server([first.tool_call("s1", "shell", call), Reply::new().text("No."), Reply::new()]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.say("do it").await;
        terminal.sees("Well").await;
        terminal.press("y\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\r").await;
        terminal.sees("No.\n").await;
        terminal.sees("> y\n").await;
        assert!(!root.join("x").exists());
    });
    // Several lines at once, as a paste without marks gives them, with an answer among them.
    run(async {
        let call = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let root = directory();
        let server = server([call, Reply::new().text("No."), Reply::new().text("Why?")]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.sees("\n> ").await;
        terminal.press("do it\ry\r").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\r").await;
        terminal.sees("No.\n").await;
        terminal.sees("Why?\n").await;
        assert_eq!(messages(&server, 2).last().unwrap()["content"], "y");
        assert!(!root.join("x").exists());
    });
}

#[test]
fn keys_without_enter_before_a_question_are_no_answer() {
    run(async {
        let first = || Reply::new().delay(Duration::from_millis(200)).text("Well").text("then");
        let call = || first().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        for (args, note) in
            [(&["chat"][..], "not sent: a line that had no end yet"), (&["run", "do it"], "1 line typed")]
        {
            let root = directory();
            let server = server([call(), Reply::new().text("No.")]).await;
            let mut terminal = Terminal::open(&server, &root, args);
            if args.len() == 1 {
                terminal.say("do it").await;
            }
            terminal.sees("Well").await;
            terminal.press("y").await;
            terminal.sees(note).await;
            terminal.sees("? y/n > ").await;
            terminal.press("\n").await;
            terminal.sees("again: nothing is not an answer").await;
            terminal.press("n\n").await;
            terminal.sees("No.\n").await;
            assert!(!root.join("x").exists());
        }
    });
}

#[test]
fn run_asks_on_a_terminal_too() {
    run(async {
        let call = r#"{"path":"a","old_text":"x\n","new_text":"y\n"}"#;
        let root = directory();
        std::fs::write(root.join("a"), "x\n").unwrap();
        let server =
            server([Reply::new().tool_call("e1", "edit_file", call), Reply::new().text("Done.")]).await;
        let mut terminal = Terminal::open(&server, &root, &["run", "edit it"]);
        terminal.sees("  path: a\n  old_text (1 line):\n    - x\n  new_text (1 line):\n    + y\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("y\n").await;
        terminal.sees("Done.\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "y\n");
    });
}

#[test]
fn a_question_is_seen_also_where_standard_error_goes_elsewhere() {
    run(async {
        let root = directory();
        let call = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let server = server([call, Reply::new().text("Done.")]).await;
        let script = r#""$0" chat 2>notes"#;
        let program = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_turnwright")]);
        let mut terminal = Terminal::start(program, "xterm", &server, &root);
        terminal.say("do it").await;
        terminal.sees("  command: touch x\n").await;
        terminal.sees("allow shell (call s1)? y/n ").await;
        terminal.say("y").await;
        terminal.sees("Done.\n").await;
        terminal.sees("> ").await;
        terminal.press(CTRL_D).await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        let notes = std::fs::read_to_string(root.join("notes")).unwrap();
        assert!(notes.contains("approved: call s1, by user\n") && !notes.contains('\x1b'), "{notes}");
    });
}

#[test]
fn run_takes_no_answer_from_before_the_question() {
    run(async {
        let call = r#"{"command":"touch x"}"#;
        let first = Reply::new().delay(Duration::from_millis(200)).text("Well").text("then");
        let root = directory();
        let server = server([first.tool_call("s1", "shell", call), Reply::new().text("No.")]).await;
        let mut terminal = Terminal::open(&server, &root, &["run", "do it"]);
        terminal.sees("Well").await;
        terminal.press("y\n").await;
        terminal.sees("1 line typed before the question: no answer\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\n").await;
        terminal.sees("No.\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert!(!root.join("x").exists());
    });
}

#[test]
fn what_was_not_shown_whole_cannot_be_approved() {
    run(async {
        let content = format!("{}the end\n", "line\n".repeat(500));
        let call = serde_json::json!({ "path": "a.txt", "content": content }).to_string();
        let asks = Reply::new().tool_call("w1", "write_file", call);
        let asks = asks.tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let (server, root) = (server([asks, Reply::new().text("Done.")]).await, directory());
        let mut terminal = Terminal::open(&server, &root, &["run", "do it"]);
        terminal.sees("NOT SHOWN: ").await;
        for answer in ["y", "/approve w1", "/approve all"] {
            terminal.sees("allow write_file (call w1)? y/n > ").await;
            terminal.press(&format!("{answer}\n")).await;
            terminal.sees("again: a part of call w1 was not shown; /show w1 shows all of it").await;
        }
        assert!(!terminal.seen.contains("the end"));
        terminal.sees("y/n > ").await;
        terminal.press("/show\n").await;
        terminal.sees("    + the end\n").await;
        terminal.sees("y/n > ").await;
        assert!(!root.join("a.txt").exists() && !root.join("x").exists());
        terminal.press("/approve all\n").await;
        terminal.sees("Done.\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), content);
    });
}

/// `fault_r5_72`: nobody's answer is a denial, and not the end of the turn.
#[test]
fn a_question_that_expires_counts_as_denied_and_the_turn_goes_on() {
    run(async {
        let root = directory();
        std::fs::write(root.join("turnwright.toml"), "[approvals]\nexpires_seconds = 1\n").unwrap();
        let call = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let server = server([call, Reply::new().text("Then not.")]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.say("do it").await;
        terminal.sees("? y/n > ").await;
        terminal.sees("the approval expired: it counts as denied\n").await;
        terminal.sees("Then not.\n").await;
        assert!(!root.join("x").exists());
        let asked = format!("{:?}", server.requests()[1]);
        assert!(asked.contains("the approval expired"), "{asked}");
    });
}
