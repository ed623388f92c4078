//! Turns that are killed, paused, or taken up by another process while somebody is asked.
#![cfg(unix)]

use std::{fs, path::Path, time::Duration};

use tokio::io::{AsyncBufReadExt, BufReader};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::{
    screen::{Terminal, messages, send, terminate},
    sessions::{asking, done, json, kept, write},
    support::{directory, events, run, server, stderr, stdout, text},
};

/// How the session `s1` stands.
async fn status(root: &Path) -> String {
    let listed = json(&done(kept(root, &["sessions", "list", "--json"])).await);
    listed.first().map(|s| s["status"].as_str().unwrap().to_owned()).unwrap_or_default()
}

async fn until(root: &Path, file: &str) {
    while !root.join(file).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn chat(server: &ProviderServer, root: &Path) -> Terminal {
    let store = root.join("s.db");
    Terminal::open(server, root, &["--store", store.to_str().unwrap(), "chat", "--session", "s1"])
}

/// Takes its time, two seconds, before it asks for a tool.
fn looks() -> Reply {
    let slow = Reply::new().delay(Duration::from_millis(100)).text("I ").text("look ");
    (0..18).fold(slow, |slow, _| slow.text("… ")).tool_call("c1", "current_time", "{}")
}

/// What was shown is kept, and the next leg knows it.
#[test]
fn fault_r5_77_a_run_that_is_killed_in_mid_answer_is_resumed() {
    run(async {
        let first = Reply::new().text("I think ").text("of something").fault(Fault::Stall { after: 3 });
        let (server, root) = (server([first, Reply::new().text("Here I am again.")]).await, directory());
        let mut running = asking(&root, &server, "run", &["--session", "s1", "think", "--json"]);
        running.env("TURNWRIGHT_TIMEOUT_IDLE", "50").env("TURNWRIGHT_TIMEOUT_TOTAL", "50");
        let mut running = running.spawn().unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().unwrap().contains("of something") {}
        // All but the last quarter of a second of what is shown outlives the process.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(status(&root).await, "running");
        for args in
            [&["sessions", "delete", "s1"][..], &["sessions", "fork", "s1"], &["sessions", "export", "s1"]]
        {
            let refused = done(kept(&root, args)).await;
            assert_eq!(refused.status.code(), Some(2), "{args:?}");
            assert!(stderr(&refused).contains("`turnwright ctl "), "{args:?}: {}", stderr(&refused));
        }
        send("-KILL", &running.id().unwrap().to_string());
        running.wait().await.unwrap();
        assert_eq!(status(&root).await, "interrupted");
        let again = done(asking(&root, &server, "run", &["--session", "s1", "hi"])).await;
        assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
        assert!(stderr(&again).contains("`turnwright resume s1`"), "{}", stderr(&again));
        let resumed = done(asking(&root, &server, "resume", &["s1", "--json"])).await;
        assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
        assert_eq!(text(&events(&stdout(&resumed))), "Here I am again.");
        let told = messages(&server, 1);
        assert!(serde_json::to_string(&told).unwrap().contains("I think of something"), "{told:?}");
        assert_eq!(status(&root).await, "idle");
    });
}

/// Nobody knows whether the command took effect. It does not run twice, and the model is told.
#[test]
fn fault_n10_r5_78_a_run_that_is_killed_in_a_tool_reports_the_call_in_doubt() {
    run(async {
        let call = Reply::new().tool_call("c1", "shell", r#"{"command":"echo x >> out; sleep 1"}"#);
        let (server, root) = (server([call, Reply::new().text("I looked.")]).await, directory());
        let args = ["--session", "s1", "--allow", "shell", "do it"];
        let mut running = asking(&root, &server, "run", &args);
        let running = running.env("PATH", std::env::var_os("PATH").unwrap()).spawn().unwrap();
        until(&root, "out").await;
        send("-KILL", &running.id().unwrap().to_string());
        let _ = running.wait_with_output().await;
        let resumed = done(asking(&root, &server, "resume", &["s1", "--allow", "shell", "--json"])).await;
        assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
        let events = events(&stdout(&resumed));
        let doubt: Vec<_> = events.iter().filter(|event| event["type"] == "in_doubt").collect();
        assert_eq!((doubt.len(), &doubt[0]["id"]), (1, &"c1".into()));
        assert_eq!(fs::read_to_string(root.join("out")).unwrap(), "x\n");
        let told = serde_json::to_string(&messages(&server, 1)).unwrap();
        assert!(told.contains("may have taken effect or not"), "{told}");
    });
}

#[test]
fn fault_a20_a_turn_that_is_paused_goes_on_elsewhere() {
    run(async {
        let (server, root) = (server([looks(), Reply::new().text("It is late.")]).await, directory());
        let running = asking(&root, &server, "run", &["--session", "s1", "when?", "--json"]).spawn().unwrap();
        server.wait_for_requests(1).await;
        let paused = done(kept(&root, &["ctl", "pause", "s1", "--json"])).await;
        assert_eq!(json(&paused)[0]["fate"]["fate"], "applied", "{}", stderr(&paused));
        let ran = running.wait_with_output().await.unwrap();
        assert_eq!(ran.status.code(), Some(3), "{}", stderr(&ran));
        assert_eq!(events(&stdout(&ran)).last().unwrap()["outcome"], "drained");
        assert_eq!(status(&root).await, "drained");
        let stop = done(kept(&root, &["ctl", "stop", "s1"])).await;
        assert_eq!(stop.status.code(), Some(2));
        assert!(stderr(&stop).contains("`turnwright resume s1` goes on"), "{}", stderr(&stop));
        let resumed = done(asking(&root, &server, "resume", &["s1"])).await;
        assert_eq!((resumed.status.code(), stdout(&resumed).as_str()), (Some(0), "It is late.\n"));
    });
}

/// `/pause` stops at the next step, `/resume` goes on, and `/stop` ends what was paused.
#[test]
fn a_chat_pauses_and_goes_on() {
    run(async {
        let replies = [looks(), Reply::new().text("It is late."), looks(), Reply::new().text("Fine.")];
        let (server, root) = (server(replies).await, directory());
        let mut terminal = chat(&server, &root);
        terminal.say("when?").await;
        terminal.sees("I look").await;
        terminal.press("/pause\r").await;
        terminal.sees("the turn stops at its next step").await;
        terminal.sees("drained: the turn can be resumed").await;
        terminal.say("and now?").await;
        terminal.sees("a turn of session s1 is not over").await;
        terminal.say("/resume").await;
        terminal.sees("It is late.").await;
        terminal.say("/resume").await;
        terminal.sees("no turn waits to be resumed").await;
        terminal.say("again").await;
        terminal.sees("I look").await;
        terminal.press("/pause\r").await;
        terminal.sees("drained: ").await;
        terminal.say("/stop").await;
        terminal.sees("cancelled by user: /stop").await;
        terminal.say("thanks").await;
        terminal.sees("Fine.").await;
        assert_eq!(server.request_count(), 4);
    });
}

/// A store is everybody's: what others write does not ask again.
#[test]
fn a_question_is_asked_once_whatever_other_sessions_do() {
    run(async {
        let replies = [write("b"), Reply::new().text("Elsewhere."), Reply::new().text("Done.")];
        let (server, root) = (server(replies).await, directory());
        let mut terminal = chat(&server, &root);
        terminal.say("write it").await;
        terminal.sees("? y/n > ").await;
        let other = done(asking(&root, &server, "run", &["--session", "s2", "hi"])).await;
        assert_eq!(stdout(&other), "Elsewhere.\n", "{}", stderr(&other));
        terminal.press("y\r").await;
        terminal.sees("Done.").await;
        assert_eq!(terminal.seen.matches("? y/n > ").count(), 1, "{}", terminal.seen);
    });
}

/// However many go on with a turn, one does.
#[test]
fn fault_n8_r5_71_two_who_resume_at_once_run_the_call_once() {
    run(async {
        let call = Reply::new().tool_call("c1", "shell", r#"{"command":"echo x >> out"}"#);
        let (server, root) = (server([call, Reply::new().text("Done."), Reply::new()]).await, directory());
        let waits = done(asking(&root, &server, "run", &["--session", "s1", "do it"])).await;
        assert_eq!(waits.status.code(), Some(3), "{}", stderr(&waits));
        let listed = json(&done(kept(&root, &["sessions", "list", "--json", "--status", "suspended"])).await);
        assert_eq!(listed.len(), 1);
        let resume = || {
            let mut command = asking(&root, &server, "resume", &["s1", "--approve", "all"]);
            command.env("PATH", std::env::var_os("PATH").unwrap());
            done(command)
        };
        let ended = futures::future::join_all((0..4).map(|_| resume())).await;
        let well = ended.iter().filter(|output| output.status.code() == Some(0)).count();
        let told: Vec<_> = ended.iter().map(stderr).collect();
        assert_eq!((well, fs::read_to_string(root.join("out")).unwrap().as_str()), (1, "x\n"), "{told:?}");
        assert_eq!(server.request_count(), 2);
        assert_eq!(status(&root).await, "idle");
    });
}

/// `fault_n8`, `fault_r5_73`: one of the two goes on with the turn, and the other one can go on with the session.
#[test]
fn a_turn_that_is_resumed_elsewhere_while_a_chat_asks_goes_on_once() {
    run(async {
        let replies = [write("b"), Reply::new().text("Done."), Reply::new().text("Still here.")];
        let (server, root) = (server(replies).await, directory());
        let mut terminal = chat(&server, &root);
        terminal.say("write it").await;
        terminal.sees("? y/n > ").await;
        let resumed = done(asking(&root, &server, "resume", &["s1", "--approve", "all"])).await;
        let here = stdout(&resumed) == "I write. Done.\n" || stdout(&resumed) == "Done.\n";
        if here {
            assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
            terminal.sees("another process goes on with the turn").await;
        } else {
            assert_eq!(resumed.status.code(), Some(1), "{}", stderr(&resumed));
            terminal.sees("Done.").await;
        }
        terminal.say("and now?").await;
        terminal.sees("Still here.").await;
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "b");
        assert_eq!(server.request_count(), 3);
        let asked = messages(&server, 2);
        assert_eq!(asked.last().unwrap()["content"], "and now?");
        assert!(serde_json::to_string(&asked).unwrap().contains("Done."), "{asked:?}");
    });
}

/// What a service manager does to the program: nothing that can go on is ended.
#[test]
fn sigterm_leaves_a_kept_turn_to_be_resumed() {
    run(async {
        let (server, root) = (server([looks(), Reply::new().text("It is late.")]).await, directory());
        let running = asking(&root, &server, "run", &["--session", "s1", "when?", "--json"]).spawn().unwrap();
        server.wait_for_requests(1).await;
        send("-TERM", &running.id().unwrap().to_string());
        let ran = running.wait_with_output().await.unwrap();
        assert_eq!(ran.status.code(), Some(3), "{}", stderr(&ran));
        let events = events(&stdout(&ran));
        assert_eq!(events.last().unwrap()["outcome"], "drained");
        assert!(text(&events).contains("I look"), "the answer came to its end: {events:?}");
        assert_eq!(status(&root).await, "drained");
        let resumed = done(asking(&root, &server, "resume", &["s1"])).await;
        assert_eq!((resumed.status.code(), stdout(&resumed).as_str()), (Some(0), "It is late.\n"));
    });
}

#[test]
fn a_chat_that_sigterm_ends_while_it_asks_leaves_the_question() {
    run(async {
        let (server, root) = (server([write("c1"), Reply::new().text("Written.")]).await, directory());
        let mut terminal = chat(&server, &root);
        terminal.say("do it").await;
        terminal.sees("? y/n > ").await;
        terminate(&terminal.program.id().unwrap().to_string());
        assert_eq!(terminal.ends().await.code(), Some(3), "{}", terminal.seen);
        assert!(terminal.seen.contains("`turnwright resume s1` goes on"), "{}", terminal.seen);
        assert_eq!(status(&root).await, "suspended");
        let resumed = done(asking(&root, &server, "resume", &["s1", "--approve", "w1"])).await;
        assert_eq!(
            (resumed.status.code(), stdout(&resumed).as_str()),
            (Some(0), "Written.\n"),
            "{}",
            stderr(&resumed)
        );
    });
}
