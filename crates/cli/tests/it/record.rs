//! `--record` and `--replay`.

use std::{fs, path::Path};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{ask, directory, events, feed, run, server, stderr, stdout, talk, turnwright};

/// The events without what differs from run to run: ids of ours, times, where one piece of a text ends (pieces that nobody
/// read yet grow in place), and which of two tools that ran at once was faster.
fn bare(stdout: &str) -> Vec<Value> {
    let mut bare: Vec<Value> = Vec::new();
    for mut event in events(stdout) {
        let fields = event.as_object_mut().unwrap();
        for name in ["session", "turn", "at", "seq", "elapsed_ms"] {
            fields.remove(name);
        }
        let joined = ["text", "fragment"].into_iter().find(|name| {
            let last = bare.last().filter(|last| last["type"] == event["type"] && last["id"] == event["id"]);
            last.is_some_and(|last| last[*name].is_string() && event[*name].is_string())
        });
        match (joined, bare.last_mut()) {
            (Some(name), Some(last)) => {
                let text = format!("{}{}", last[name].as_str().unwrap(), event[name].as_str().unwrap());
                last[name] = text.into();
            }
            _ => bare.push(event),
        }
    }
    for results in bare.chunk_by_mut(|a, b| a["type"] == "tool_result" && b["type"] == "tool_result") {
        results.sort_by_key(|result| result["id"].to_string());
    }
    bare
}

/// A place with something to list, and where recordings go.
fn place() -> (std::path::PathBuf, String) {
    let root = directory();
    fs::write(root.join("a.txt"), "alpha\n").unwrap();
    let tape = directory().join("tape");
    (root, tape.to_str().unwrap().to_owned())
}

fn replay(root: &Path, args: &[&str]) -> Command {
    let mut command = turnwright(&["run", "--json", "hi"]);
    command.env("TURNWRIGHT_MODEL", "m").args(args).current_dir(root);
    command
}

#[test]
fn a_run_with_tools_replays_to_equal_events_without_server_and_key() {
    run(async {
        let (root, tape) = place();
        let script = [
            Reply::new()
                .reasoning("Let me see.")
                .text("I look.")
                .tool_call_in_fragments("c1", "list_dir", r#"{"path":"."}"#, 4)
                .tool_call("c2", "read_file", r#"{"path":"a.txt"}"#),
            Reply::new().text("There is ").text("one file.").usage(30, 4),
        ];
        let server = server(script).await;
        let mut command = ask(&server, &["--json", "hi", "--record", &tape]);
        let recorded =
            command.env("OPENAI_API_KEY", "sk-0123456789").current_dir(&root).output().await.unwrap();
        assert_eq!((recorded.status.code(), stderr(&recorded).as_str()), (Some(0), ""));
        drop(server);
        let output = replay(&root, &["--replay", &tape]).output().await.unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let (recorded, replayed) = (bare(&stdout(&recorded)), bare(&stdout(&output)));
        assert_eq!(replayed, recorded);
        assert!(recorded.iter().any(|event| event["type"] == "tool_args_delta"), "{recorded:?}");
        assert!(recorded.iter().any(|event| event["type"] == "tool_result"), "{recorded:?}");
        for file in fs::read_dir(&tape).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(!text.contains("sk-0123456789"), "{text}");
        }

        // Another question, another format, another model: each is told.
        let output =
            turnwright(&["run", "ho", "--model", "m", "--replay", &tape]).current_dir(&root).output().await;
        let output = output.unwrap();
        let notes = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{notes}");
        assert!(
            notes.contains("0001.json, differs at messages[1].content: the texts differ from character 2 on"),
            "{notes}"
        );
        let output =
            replay(&root, &["--replay", &tape, "--provider", "openai-responses"]).output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
        assert!(notes.contains("another format: openai, and this is openai-responses"), "{notes}");
        let output = replay(&root, &["--replay", &tape, "--model", "n"]).output().await.unwrap();
        assert!(stderr(&output).contains("0001.json m, not n"), "{}", stderr(&output));

        // `decode` reads both files of an exchange.
        for file in ["0002.json", "0002.body"] {
            let path = Path::new(&tape).join(file);
            let output = turnwright(&["decode", "--assemble"]).arg(path).output().await.unwrap();
            let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!((output.status.code(), &answer["text"]), (Some(0), &"There is one file.".into()));
            assert_eq!(answer["raw_usage"]["prompt_tokens"], 30);
        }
    });
}

#[test]
fn a_failed_run_replays_to_the_same_failure_and_decodes_to_it() {
    run(async {
        let cases = [
            (Fault::AbruptClose { after: 2 }, 5),
            (Fault::Stall { after: 2 }, 5),
            (Fault::RateLimited { retry_after: std::time::Duration::from_secs(2) }, 1),
            (Fault::HtmlWithOk, 1),
        ];
        for (fault, code) in cases {
            let (root, tape) = place();
            let server = server([Reply::new().text("Hel").text("lo").fault(fault)]).await;
            let mut command = ask(&server, &["--json", "hi", "--record", &tape]);
            let recorded = command.current_dir(&root).output().await.unwrap();
            let replayed = replay(&root, &["--replay", &tape]).output().await.unwrap();
            assert_eq!((recorded.status.code(), replayed.status.code()), (Some(1), Some(1)), "{fault:?}");
            assert_eq!(bare(&stdout(&replayed)), bare(&stdout(&recorded)), "{fault:?}");
            assert_eq!(stderr(&replayed), stderr(&recorded), "{fault:?}");
            let head = Path::new(&tape).join("0001.json");
            let output = turnwright(&["decode", "--assemble"]).arg(head).output().await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{fault:?}");
            let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let shown = bare(&stdout(&recorded)).pop().unwrap();
            assert_eq!(answer["text"], shown["content"], "{fault:?}");
            if code == 1 {
                assert_eq!(answer["error"]["kind"], shown["error"]["kind"], "{fault:?}");
            }
        }
    });
}

#[test]
fn without_an_answer_there_is_a_failure_to_decode() {
    run(async {
        let (root, tape) = place();
        let gone = server([]).await.base_url();
        let mut command = turnwright(&["run", "hi", "--model", "m", "--base-url", &gone, "--record", &tape]);
        assert_eq!(command.current_dir(&root).output().await.unwrap().status.code(), Some(1));
        let head = Path::new(&tape).join("0001.json");
        let output = turnwright(&["decode"]).arg(head).output().await.unwrap();
        let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((output.status.code(), &line["type"]), (Some(1), &"stream_failure".into()));
        assert_eq!(line["error"]["kind"], "connection");
    });
}

#[test]
fn a_chat_replays_too() {
    run(async {
        let (_, tape) = place();
        let script = ["One.", "Two."].map(|text| Reply::new().text(text));
        let server: ProviderServer = server(script).await;
        let output = talk(&server, &["--record", &tape], "a\nb\n").await;
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "One.\nTwo.\n"));
        let mut command = turnwright(&["chat", "--model", "m", "--replay", &tape]);
        let output = feed(command.current_dir(directory()), "a\nb\n").await;
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "One.\nTwo.\n"));
    });
}

#[cfg(unix)]
#[test]
fn a_recording_that_is_not_whole_is_told_and_the_turn_is_not_well() {
    run(async {
        let (root, tape) = place();
        let remove = serde_json::json!({ "command": format!("rm -r '{tape}'") }).to_string();
        let server = server([Reply::new().tool_call("c", "shell", remove), Reply::new().text("Done.")]).await;
        let mut command = ask(&server, &["hi", "--allow", "shell", "--record", &tape]);
        command.env("PATH", std::env::var_os("PATH").unwrap()).current_dir(&root);
        let output = command.output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "Done.\n"), "{notes}");
        assert!(notes.lines().any(|l| l.starts_with("error: an exchange is not recorded in ")), "{notes}");
    });
}

#[test]
fn an_answer_that_is_none_of_a_model_is_decoded_to_the_same_failure() {
    run(async {
        let (_root, tape) = place();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 65536]).await.unwrap();
            let answer = "HTTP/1.1 200 O\r\ncontent-type: application/pdf\r\ncontent-length: 4\r\n\r\n%PDF";
            socket.write_all(answer.as_bytes()).await.unwrap();
        });
        let args = ["run", "hi", "--json", "--model", "m", "--base-url", &base_url, "--record", &tape];
        let output = turnwright(&args).output().await.unwrap();
        let said = events(&stdout(&output)).last().unwrap()["error"].clone();
        assert_eq!(said["kind"], "unexpected_content");
        let file = format!("{tape}/0001.json");
        let output = turnwright(&["decode", "--assemble", &file]).output().await.unwrap();
        let decoded: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((output.status.code(), &decoded["error"]["kind"]), (Some(1), &said["kind"]), "{decoded}");
        assert!(said["message"].as_str().unwrap().contains(decoded["error"]["message"].as_str().unwrap()));
        assert_eq!(decoded["truncated"], false);
    });
}
