//! Sessions that are kept: another process finds them, decides, goes on.

use std::{path::Path, process::Output, time::Duration};

use serde_json::Value;
use tokio::process::Command;
use turnwright_testkit::provider::{ProviderServer, Reply};

#[cfg(unix)]
use crate::screen::{Terminal, send};
use crate::support::{directory, events, run, server, stderr, stdout, turnwright, with_server};

pub(crate) fn write(content: &str) -> Reply {
    let arguments = format!(r#"{{"path":"a.txt","content":"{content}"}}"#);
    Reply::new().text("I write. ").tool_call("w1", "write_file", &arguments)
}

/// The program with its sessions in this directory.
pub(crate) fn kept(root: &Path, args: &[&str]) -> Command {
    let mut command = turnwright(args);
    command.current_dir(root).env("TURNWRIGHT_STORE", root.join("s.db"));
    command
}

pub(crate) fn asking(root: &Path, server: &ProviderServer, command: &str, args: &[&str]) -> Command {
    let mut command = with_server(command, server, args);
    command.current_dir(root).env("TURNWRIGHT_STORE", root.join("s.db"));
    command
}

pub(crate) async fn done(mut command: Command) -> Output {
    command.output().await.unwrap()
}

pub(crate) fn json(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn fault_r5_71_a_turn_that_waits_is_decided_and_resumed_by_other_processes() {
    run(async {
        let (server, root) = (server([write("b"), Reply::new().text("Done.")]).await, directory());
        let first = done(asking(&root, &server, "run", &["--session", "s1", "write it"])).await;
        assert_eq!(first.status.code(), Some(3), "{}", stderr(&first));
        assert!(stderr(&first).contains("`turnwright resume s1 --approve CALL`"), "{}", stderr(&first));
        let listed = done(kept(&root, &["sessions", "list"])).await;
        assert!(
            stdout(&listed).contains("s1") && stdout(&listed).contains("suspended (1)"),
            "{}",
            stdout(&listed)
        );
        let shown = &json(&done(kept(&root, &["sessions", "show", "s1", "--json"])).await)[0];
        assert_eq!(
            (&shown["status"], &shown["pending"][0]["call"]["id"]),
            (&"suspended".into(), &"w1".into())
        );
        // Nobody can be asked, and nothing was decided.
        let waits = done(asking(&root, &server, "resume", &["s1"])).await;
        assert_eq!(waits.status.code(), Some(3));
        assert!(stderr(&waits).contains("write_file") && stdout(&waits).is_empty(), "{}", stderr(&waits));
        let wrong = done(asking(&root, &server, "resume", &["s1", "--approve", "w2"])).await;
        assert_eq!(wrong.status.code(), Some(2));
        assert!(stderr(&wrong).contains("no approval was asked for call w2"), "{}", stderr(&wrong));
        assert!(stderr(&wrong).contains("these wait: w1"), "{}", stderr(&wrong));
        assert!(!root.join("a.txt").exists());
        let last = done(asking(&root, &server, "resume", &["s1", "--approve", "all", "--json"])).await;
        assert_eq!(last.status.code(), Some(0), "{}", stderr(&last));
        let events = events(&stdout(&last));
        assert_eq!(events.last().unwrap()["content"], "Done.");
        assert_eq!(events.iter().filter(|e| e["type"] == "approval_resolved").count(), 1);
        assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "b");
        let again = done(asking(&root, &server, "resume", &["s1", "--approve", "all"])).await;
        assert_eq!(again.status.code(), Some(2));
        assert!(stderr(&again).contains("no turn of session s1 waits"), "{}", stderr(&again));
        let events = json(&done(kept(&root, &["sessions", "show", "s1", "--events"])).await);
        let ends = events.iter().filter(|e| e["event"]["type"] == "turn_finished").count();
        assert_eq!(ends, 2, "of two legs");
    });
}

#[test]
fn edits_denials_and_reasons_come_from_the_command_line() {
    run(async {
        let two = || write("b").tool_call("x1", "shell", r#"{"command":"touch x"}"#);
        let (server, root) = (server([two(), Reply::new().text("So be it.")]).await, directory());
        let _ = done(asking(&root, &server, "run", &["--session", "s1", "write it"])).await;
        let edit = r#"w1={"path":"a.txt","content":"edited"}"#;
        let args = ["s1", "--edit", edit, "--deny", "all", "--reason", "not now"];
        let last = done(asking(&root, &server, "resume", &args)).await;
        assert_eq!(last.status.code(), Some(0), "{}", stderr(&last));
        assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "edited");
        assert!(!root.join("x").exists());
        let shown = stdout(&done(kept(&root, &["sessions", "show", "s1", "--json"])).await);
        assert!(shown.contains("not now"), "{shown}");
    });
}

#[test]
fn ctl_decides_and_says_what_it_cannot_do() {
    run(async {
        let (server, root) = (server([write("b"), Reply::new().text("Done.")]).await, directory());
        let unknown = done(kept(&root, &["ctl", "stop", "s1"])).await;
        assert_eq!(unknown.status.code(), Some(2));
        assert!(stderr(&unknown).contains("no session is kept in"), "{}", stderr(&unknown));
        let _ = done(asking(&root, &server, "run", &["--session", "s1", "write it"])).await;
        let idle = done(kept(&root, &["ctl", "pause", "s1"])).await;
        assert_eq!(idle.status.code(), Some(2));
        assert!(stderr(&idle).contains("no process runs a turn"), "{}", stderr(&idle));
        let decided = done(kept(&root, &["ctl", "approve", "s1", "--actor", "ann", "--json"])).await;
        assert_eq!(json(&decided)[0]["decided"][0], "w1");
        let twice = done(kept(&root, &["ctl", "deny", "s1"])).await;
        assert!(stderr(&twice).contains("no call of session s1 waits"), "{}", stderr(&twice));
        let last = done(asking(&root, &server, "resume", &["s1"])).await;
        assert_eq!(last.status.code(), Some(0), "{}", stderr(&last));
        assert!(root.join("a.txt").exists());
    });
}

#[test]
fn fault_a20_l7_a_command_reaches_the_process_that_runs_the_session() {
    run(async {
        let silent = || {
            Reply::new()
                .text("I think ")
                .delay(Duration::from_millis(200))
                .text("slowly ")
                .text("on ")
                .text("and on")
        };
        let (server, root) = (server([silent(), Reply::new().text("Left it is.")]).await, directory());
        let mut command = asking(&root, &server, "run", &["--session", "s1", "think", "--json"]);
        let running = command.spawn().unwrap();
        let ctl = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let listed = stdout(&done(kept(&root, &["sessions", "list"])).await);
                if listed.contains("running") {
                    return done(kept(&root, &["ctl", "say", "s1", "go left", "--json"])).await;
                }
            }
        };
        let (ran, told) = tokio::join!(running.wait_with_output(), ctl);
        let (ran, told) = (ran.unwrap(), json(&told));
        assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
        let events = events(&stdout(&ran));
        assert_eq!(told[0]["fate"]["fate"], "applied", "{told:?} {events:?}");
        assert_eq!(events.last().unwrap()["content"], "Left it is.");
        let commands = json(&done(kept(&root, &["sessions", "show", "s1", "--commands"])).await);
        assert_eq!(commands.len(), 1);
        assert_eq!(
            (&commands[0]["fate"]["fate"], &commands[0]["command"]["actor"]),
            (&"applied".into(), &"user".into())
        );
    });
}

#[test]
fn ctl_stops_a_turn_of_another_process_and_says_who() {
    run(async {
        let slow =
            Reply::new().text("a").delay(Duration::from_millis(300)).text("b").text("c").text("d").text("e");
        let (server, root) = (server([slow]).await, directory());
        let running = asking(&root, &server, "run", &["--session", "s1", "think", "--json"]).spawn().unwrap();
        let ctl = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let stop = ["ctl", "stop", "s1", "--reason", "enough", "--actor", "ann"];
                let told = done(kept(&root, &stop)).await;
                if told.status.success() {
                    return stdout(&told);
                }
            }
        };
        let (ran, told) = tokio::join!(running.wait_with_output(), ctl);
        let ran = ran.unwrap();
        assert_eq!((ran.status.code(), told.as_str()), (Some(130), "applied\n"), "{}", stderr(&ran));
        let end = events(&stdout(&ran)).pop().unwrap();
        assert_eq!(
            (&end["cancelled_by"]["actor"], &end["cancelled_by"]["reason"]),
            (&"ann".into(), &"enough".into())
        );
    });
}

/// Killed while it asks, a chat leaves its question, and whoever resumes finds it.
#[cfg(unix)]
#[test]
fn fault_r5_71_a_chat_that_is_killed_while_asking_is_resumed() {
    run(async {
        let (server, root) = (server([write("b"), Reply::new().text("Done.")]).await, directory());
        let store = root.join("s.db");
        let args = ["--store", store.to_str().unwrap(), "chat", "--session", "s1"];
        let mut terminal = Terminal::open(&server, &root, &args);
        terminal.say("write it").await;
        terminal.sees("? y/n > ").await;
        send("-KILL", &terminal.program.id().unwrap().to_string());
        let _ = terminal.ends().await;
        assert!(!root.join("a.txt").exists());
        let args = ["--store", store.to_str().unwrap(), "resume", "s1"];
        let mut terminal = Terminal::open(&server, &root, &args);
        terminal.sees("write_file").await;
        terminal.sees("? y/n > ").await;
        terminal.press("y\r").await;
        terminal.sees("Done.").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "b");
    });
}

/// A decision from elsewhere is noticed by the chat that asks.
#[cfg(unix)]
#[test]
fn a_chat_that_asks_goes_on_when_somebody_decides_elsewhere() {
    run(async {
        let (server, root) = (server([write("b"), Reply::new().text("Done.")]).await, directory());
        let store = root.join("s.db");
        let args = ["--store", store.to_str().unwrap(), "chat", "--session", "s1"];
        let mut terminal = Terminal::open(&server, &root, &args);
        terminal.say("write it").await;
        terminal.sees("? y/n > ").await;
        let decided = done(kept(&root, &["ctl", "approve", "s1"])).await;
        assert!(decided.status.success(), "{}", stderr(&decided));
        terminal.sees("decided elsewhere").await;
        terminal.sees("Done.").await;
        assert!(root.join("a.txt").exists());
    });
}

#[test]
fn sessions_are_forked_exported_imported_and_deleted() {
    run(async {
        let replies = [Reply::new().text("One."), Reply::new().text("Two."), Reply::new().text("Three.")];
        let (server, root) = (server(replies).await, directory());
        for prompt in ["first", "second"] {
            let ran = done(asking(&root, &server, "run", &["--session", "s1", prompt])).await;
            assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
        }
        let shown = &json(&done(kept(&root, &["sessions", "show", "s1", "--json"])).await)[0];
        assert_eq!(shown["messages"].as_array().unwrap().len(), 4, "one session, two turns");
        let at = shown["messages"][1]["id"].as_str().unwrap();
        let forked = done(kept(&root, &["sessions", "fork", "s1", "--at", at, "--to", "f"])).await;
        assert_eq!(stdout(&forked), "f\n", "{}", stderr(&forked));
        let ran = done(asking(&root, &server, "run", &["--session", "f", "otherwise"])).await;
        assert_eq!(stdout(&ran), "Three.\n");
        let exported = done(kept(&root, &["sessions", "export", "f"])).await;
        std::fs::write(root.join("f.json"), &exported.stdout).unwrap();
        let there = done(kept(&root, &["sessions", "import", "f.json"])).await;
        assert!(stderr(&there).contains("there is a session f already"), "{}", stderr(&there));
        let imported = done(kept(&root, &["sessions", "import", "f.json", "--to", "g", "--json"])).await;
        assert_eq!(json(&imported)[0]["session"], "g");
        let deleted = done(kept(&root, &["sessions", "delete", "f"])).await;
        assert!(deleted.status.success());
        let listed = json(&done(kept(&root, &["sessions", "list", "--json"])).await);
        let ids: Vec<_> = listed.iter().map(|s| s["session"].as_str().unwrap()).collect();
        assert_eq!(ids, ["g", "s1"]);
        let page = done(kept(&root, &["sessions", "list", "--json", "--limit", "1", "--after", "g"])).await;
        assert_eq!(json(&page)[0]["session"], "s1");
        let checked = done(kept(&root, &["store", "check"])).await;
        assert_eq!(checked.status.code(), Some(0));
        assert!(
            stdout(&checked).contains("2 sessions") && stdout(&checked).contains("0 faults"),
            "{}",
            stdout(&checked)
        );
    });
}

#[test]
fn a_store_that_cannot_be_used_is_a_clear_refusal() {
    run(async {
        let (server, root) = (server([]).await, directory());
        std::fs::write(root.join("s.db"), "this is no database at all".repeat(200)).unwrap();
        let refused = done(asking(&root, &server, "run", &["hi"])).await;
        assert_eq!(refused.status.code(), Some(2));
        let notes = stderr(&refused);
        assert!(notes.contains("s.db cannot be opened") && notes.contains("--store none"), "{notes}");
        let nothing = done(kept(&root, &["--store", "none", "sessions", "list"])).await;
        assert_eq!(nothing.status.code(), Some(2));
        assert!(stderr(&nothing).contains("sessions are not kept"), "{}", stderr(&nothing));
        let missing = done(kept(&root, &["--store", "nowhere.db", "store", "check"])).await;
        assert_eq!(missing.status.code(), Some(2));
    });
}
