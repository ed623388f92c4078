//! `chat` in a pipe: one line, one message.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{directory, events, feed, run, server, stderr, stdout, talk, turnwright, with_server};

fn last_message(server: &ProviderServer, request: usize) -> Value {
    server.requests()[request].json()["messages"].as_array().unwrap().last().unwrap()["content"].clone()
}

fn says(text: &str) -> Reply {
    Reply::new().text(text)
}

fn stalled() -> Reply {
    says("Hello").fault(Fault::Stall { after: 2 })
}

#[test]
fn lines_are_worked_through_in_order_and_only_answers_are_on_standard_output() {
    run(async {
        let server = server([says("one"), says("two"), says("three")]).await;
        let input = "a question\n\n/usage\r\n//etc is what?\n/thoughts\n/none\n  last";
        let output = talk(&server, &[], input).await;
        let notes = stderr(&output);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(0), "one\ntwo\nthree\n"),
            "{notes}"
        );
        assert!(!notes.contains('\x1b') && !notes.contains("> "), "{notes:?}");
        assert!(notes.contains("last turn: 10 tokens in, 5 out\nsession: 10 tokens in, 5 out, 1 turn\n"));
        assert!(
            notes.contains("unknown command /none; ") && notes.contains("/help      this list\n"),
            "{notes}"
        );
        let asked: Vec<Value> = (0..3).map(|request| last_message(&server, request)).collect();
        assert_eq!(asked, ["a question", "/etc is what?", "  last"]);
        assert_eq!(server.requests()[2].json()["messages"].as_array().unwrap().len(), 6, "one session");
    });
}

#[test]
fn the_exit_code_is_that_of_the_last_turn() {
    run(async {
        let fails = || Reply::new().fault(Fault::JsonErrorWithOk);
        let long = "x".repeat((4 << 20) + 1) + "\n";
        let cases: [(Vec<Reply>, Vec<u8>, i32, &str); 10] = [
            (vec![], b"".into(), 0, ""),
            (vec![], b"/help\n/exit\nnever sent\n".into(), 0, "/stop "),
            (vec![fails()], b"a\n".into(), 1, "error: openai: no such key"),
            (vec![fails(), says("ok")], b"a\nb\n".into(), 0, "error: openai: no such key"),
            (vec![says("ok"), fails()], b"a\nb\n/usage\n".into(), 1, "2 turns"),
            (vec![], long.into_bytes(), 2, "not sent: a line is longer than 4 MiB"),
            (vec![], b"\xff\n".into(), 2, "not sent: a line is not valid UTF-8"),
            (vec![], b"/etc/hosts\n".into(), 2, "unknown command /etc/hosts"),
            (vec![says("ok")], b"/etc/hosts\nb\n".into(), 0, "unknown command /etc/hosts"),
            (vec![says("ok")], b"\xff\nb\n".into(), 0, "not sent: a line is not valid UTF-8"),
        ];
        for (script, input, code, words) in cases {
            let server = server(script).await;
            let output = talk(&server, &[], &input).await;
            let notes = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{words}: {notes}");
            assert!(notes.contains(words), "{words}: {notes}");
        }
    });
}

#[test]
fn stop_acts_at_once_and_the_next_line_goes_on() {
    run(async {
        let server = server([stalled(), says("still here")]).await;
        let mut command = with_server("chat", &server, &[]);
        command.env("TURNWRIGHT_TIMEOUT_IDLE", "50").env("TURNWRIGHT_TIMEOUT_TOTAL", "50");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(b"a\n").await.unwrap();
        stdout.read_exact(&mut [0; 5]).await.unwrap();
        stdin.write_all(b"/stop\nb\n/history\n/stop\n").await.unwrap();
        drop(stdin);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!((output.status.code(), rest.as_str()), (Some(0), "\nstill here\n"), "{notes}");
        assert!(notes.starts_with("cancelled by user: /stop\n"), "{notes}");
        assert!(notes.contains("  2 model: Hello [interrupted: user_stop]\n"), "{notes}");
        assert!(notes.ends_with("no turn is running\n"), "{notes}");
        server.wait_for_client_closes(1).await;
    });
}

#[cfg(unix)]
#[test]
fn a_signal_cancels_the_turn_and_sigterm_ends_the_program_too() {
    run(async {
        for (name, left) in [("-INT", "still here\n"), ("-TERM", "")] {
            let server = server([stalled(), says("still here")]).await;
            let mut command = with_server("chat", &server, &[]);
            command.env("TURNWRIGHT_TIMEOUT_IDLE", "50").env("TURNWRIGHT_TIMEOUT_TOTAL", "50");
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(b"a\nb\n").await.unwrap();
            let mut shown = BufReader::new(child.stdout.take().unwrap());
            shown.read_exact(&mut [0; 5]).await.unwrap();
            let pid = child.id().unwrap().to_string();
            assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
            let (mut end, mut rest) = (String::new(), String::new());
            shown.read_line(&mut end).await.unwrap();
            drop(stdin);
            shown.read_to_string(&mut rest).await.unwrap();
            let code = child.wait().await.unwrap().code();
            assert_eq!((rest.as_str(), code), (left, Some(if left.is_empty() { 130 } else { 0 })), "{name}");
        }
    });
}

#[test]
fn json_has_the_events_of_every_turn_and_nothing_else() {
    run(async {
        let call = Reply::new().tool_call("w1", "write_file", r#"{"path":"a","content":"b"}"#);
        let server = server([says("one"), call, says("two")]).await;
        let output = talk(&server, &["--json"], "a\n/usage\nb\ny\n").await;
        let (lines, notes) = (stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{notes}");
        assert!(notes.contains("last turn: ") && notes.contains("approval: write_file (call w1)"), "{notes}");
        let mut legs: Vec<String> = vec![String::new()];
        for line in lines.lines() {
            let leg = legs.last_mut().unwrap();
            leg.push_str(&format!("{line}\n"));
            if line.contains("\"type\":\"turn_finished\"") {
                legs.push(String::new());
            }
        }
        assert_eq!(legs.pop().as_deref(), Some(""));
        let legs: Vec<Vec<Value>> = legs.iter().map(|leg| events(leg)).collect();
        let outcomes: Vec<&Value> = legs.iter().map(|leg| &leg.last().unwrap()["outcome"]).collect();
        assert_eq!(outcomes, ["completed", "suspended", "completed"]);
        assert_eq!(legs[1][0]["turn"], legs[2][0]["turn"]);
        assert_eq!(legs[2][1]["type"], "approval_resolved");
        assert_eq!(legs[2][1]["actor"], "user");
    });
}

/// Two calls in one answer.
fn two_calls() -> Reply {
    Reply::new().tool_call("a", "shell", r#"{"command":"printf a >> out"}"#).tool_call(
        "b",
        "shell",
        r#"{"command":"printf b >> out"}"#,
    )
}

#[test]
fn calls_are_decided_one_by_one_or_together_and_nothing_else_is_an_answer() {
    run(async {
        let cases = [
            ("go\ny\ny\n", "ab", &[][..]),
            ("go\nn\nY\n", "b", &[]),
            ("go\n/approve all\n", "ab", &[]),
            ("go\n/approve b\n/deny\n", "b", &[]),
            ("go\n/deny a too early\nyes\n", "b", &["too early"]),
            ("go\n\nok\n/deny c\n/usage\n/deny all not today\n", "", &["not today", "not today"]),
            ("go\ny\n", "a", &["nobody answered"]),
            ("go", "", &["nobody answered", "nobody answered"]),
        ];
        for (input, written, reasons) in cases {
            let server = server([two_calls(), says("done")]).await;
            let root = directory();
            let mut command = with_server("chat", &server, &[]);
            let output = feed(command.current_dir(&root), input).await;
            let notes = stderr(&output);
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(0), "done\n"),
                "{input:?}: {notes}"
            );
            let out = std::fs::read_to_string(root.join("out")).unwrap_or_default();
            assert_eq!(out, written, "{input:?}: {notes}");
            let told = server.requests()[1].json()["messages"].to_string();
            for reason in reasons {
                assert!(told.contains(reason), "{input:?}: {told}");
            }
            let unclear = input.contains("ok");
            assert_eq!(notes.matches("again: ").count(), if unclear { 4 } else { 0 }, "{input:?}: {notes}");
            assert_eq!(server.request_count(), 2, "{input:?}");
            // Both are seen before the first is decided.
            let seen: Vec<&str> = notes.lines().filter(|line| line.starts_with("  command: ")).collect();
            assert_eq!(
                seen,
                ["  command: printf a >> out", "  command: printf b >> out"],
                "{input:?}: {notes}"
            );
        }
    });
}

#[test]
fn stop_ends_a_turn_that_asks() {
    run(async {
        let (server, root) = (server([two_calls(), says("fine")]).await, directory());
        let mut command = with_server("chat", &server, &[]);
        let mut child = command.current_dir(&root).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"go\n").await.unwrap();
        // Earlier it would end the turn before there is a question.
        let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
        while !notes.next_line().await.unwrap().unwrap().starts_with("answer: ") {}
        stdin.write_all(b"/stop\nnever mind\n").await.unwrap();
        drop(stdin);
        let mut rest = String::new();
        while let Some(line) = notes.next_line().await.unwrap() {
            rest.push_str(&(line + "\n"));
        }
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "fine\n"), "{rest}");
        assert!(rest.contains("cancelled by user: /stop\n"), "{rest}");
        assert!(!root.join("out").exists());
    });
}

#[test]
fn mistakes_exit_with_2_before_anything_is_read() {
    run(async {
        for (args, words) in [
            (&["chat"][..], "no provider is configured"),
            (&["chat", "--base-url", "http://127.0.0.1:9/v1"], "no model is named"),
            (&["chat", "what?"], "unexpected argument 'what?'"),
        ] {
            let output = turnwright(args).output().await.unwrap();
            let notes = stderr(&output);
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{notes}");
            assert!(notes.contains(words), "{notes}");
        }
    });
}
