//! Where sessions are kept, and turns that are ended or not decided.

use std::{fs, path::Path};

use serde_json::Value;
use turnwright_testkit::provider::{ProviderServer, Reply};

use crate::{
    sessions::{asking, done, json, kept, write},
    support::{directory, events, run, server, stderr, stdout, turnwright, with_server},
};

/// A turn of `s1` that waits, and a model that says what is left to say.
async fn waits(replies: impl IntoIterator<Item = Reply>) -> (ProviderServer, std::path::PathBuf) {
    let (server, root) = (server([write("b")].into_iter().chain(replies)).await, directory());
    let ran = done(asking(&root, &server, "run", &["--session", "s1", "write it"])).await;
    assert_eq!(ran.status.code(), Some(3), "{}", stderr(&ran));
    (server, root)
}

#[test]
fn a_turn_that_waits_can_be_ended_without_the_model() {
    run(async {
        let (server, root) = waits([Reply::new().text("Well.")]).await;
        let stop = done(kept(&root, &["ctl", "stop", "s1"])).await;
        assert_eq!(stop.status.code(), Some(2));
        assert!(stderr(&stop).contains("`turnwright resume s1 --cancel` ends it"), "{}", stderr(&stop));
        let both = done(asking(&root, &server, "resume", &["s1", "--cancel", "--approve", "all"])).await;
        assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
        let args = ["s1", "--cancel", "--reason", "no need", "--json"];
        let ended = done(asking(&root, &server, "resume", &args)).await;
        assert_eq!(ended.status.code(), Some(130), "{}", stderr(&ended));
        let end = events(&stdout(&ended)).pop().unwrap();
        assert_eq!(
            (&end["outcome"], &end["cancelled_by"]["reason"]),
            (&"cancelled".into(), &"no need".into())
        );
        assert_eq!(server.request_count(), 1);
        assert!(!root.join("a.txt").exists());
        let next = done(asking(&root, &server, "run", &["--session", "s1", "and now?"])).await;
        assert_eq!(stdout(&next), "Well.\n", "{}", stderr(&next));
    });
}

#[test]
fn fault_c7_decisions_are_all_looked_at_before_one_is_stored() {
    run(async {
        let (server, root) = waits([]).await;
        let cases: [(&[&str], &str); 4] = [
            (&["--approve", "w1", "--deny", "w9"], "no approval was asked for call w9"),
            (&["--approve", "w1", "--deny", "w1"], "call w1 is decided twice"),
            (&["--approve", "w1", "--edit", "w1={}"], "call w1 is decided twice"),
            (&["--edit", "w1={"], "not valid JSON"),
        ];
        for (args, words) in cases {
            let refused = done(asking(&root, &server, "resume", &[&["s1"], args].concat())).await;
            assert_eq!(refused.status.code(), Some(2), "{args:?}");
            assert!(stderr(&refused).contains(words), "{args:?}: {}", stderr(&refused));
        }
        // Nothing of it was stored: the call still waits, and a script is told which.
        let undecided = done(asking(&root, &server, "resume", &["s1", "--json"])).await;
        assert_eq!(undecided.status.code(), Some(3), "{}", stderr(&undecided));
        let told = events(&stdout(&undecided));
        assert_eq!((told.len(), &told[0]["outcome"]), (1, &"suspended".into()));
        assert_eq!(told[0]["pending"][0]["call"]["id"], "w1");
        assert_eq!(server.request_count(), 1);
    });
}

#[test]
fn what_is_said_to_a_session_that_nobody_runs_waits_for_its_next_turn() {
    run(async {
        let replies = [Reply::new().text("One."), Reply::new().text("Two."), Reply::new().text("Three.")];
        let (server, root) = (server(replies).await, directory());
        let _ = done(asking(&root, &server, "run", &["--session", "s1", "first"])).await;
        let said = done(kept(&root, &["ctl", "say", "s1", "by the way"])).await;
        assert_eq!(said.status.code(), Some(0), "{}", stderr(&said));
        assert!(stdout(&said).contains("no process runs session s1 now; its next turn reads it"));
        let next = done(asking(&root, &server, "run", &["--session", "s1", "second"])).await;
        assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
        assert!(stdout(&next).ends_with("Three.\n"), "{}", stdout(&next));
        let last = server.requests()[2].json()["messages"].to_string();
        assert!(last.contains("by the way"), "{last}");
    });
}

#[test]
fn fault_l4_what_is_said_while_a_call_waits_is_read_once_the_turn_goes_on() {
    run(async {
        let (server, root) = waits([Reply::new().text("Well."), Reply::new().text("Left it is.")]).await;
        for words in ["go left", "and hurry"] {
            let said = done(kept(&root, &["ctl", "say", "s1", words])).await;
            assert_eq!(said.status.code(), Some(0), "{}", stderr(&said));
            assert!(stdout(&said).contains("its turn reads it once it is resumed"), "{}", stdout(&said));
        }
        let resumed = done(asking(&root, &server, "resume", &["s1", "--approve", "all"])).await;
        assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
        assert!(stdout(&resumed).ends_with("Left it is.\n"), "{}", stdout(&resumed));
        let last = server.requests()[2].json()["messages"].to_string();
        let at = |words: &str| last.find(words).unwrap_or_else(|| panic!("{words}: {last}"));
        assert!(at("go left") < at("and hurry"), "{last}");
        let commands = json(&done(kept(&root, &["sessions", "show", "s1", "--commands"])).await);
        assert!(commands.iter().all(|row| row["fate"]["fate"] == "applied"), "{commands:?}");
        let approvals = json(&done(kept(&root, &["sessions", "show", "s1", "--approvals"])).await);
        assert_eq!(approvals.len(), 1);
        assert_eq!(approvals[0]["request"]["call"]["name"], "write_file");
        assert_eq!(approvals[0]["decision"]["actor"], "user");
    });
}

#[test]
fn fault_c23_a_fork_is_answered_otherwise() {
    run(async {
        let (server, root) = waits([Reply::new().text("No, then."), Reply::new().text("Done.")]).await;
        let forked = done(kept(&root, &["sessions", "fork", "s1", "--to", "f"])).await;
        assert_eq!(stdout(&forked), "f\n", "{}", stderr(&forked));
        let denied = done(asking(&root, &server, "resume", &["f", "--deny", "all"])).await;
        assert_eq!((denied.status.code(), stdout(&denied).as_str()), (Some(0), "No, then.\n"));
        assert!(!root.join("a.txt").exists());
        let approved = done(asking(&root, &server, "resume", &["s1", "--approve", "all"])).await;
        assert_eq!((approved.status.code(), stdout(&approved).as_str()), (Some(0), "Done.\n"));
        assert!(root.join("a.txt").exists());
        let listed = json(&done(kept(&root, &["sessions", "list", "--json"])).await);
        assert!(listed.iter().all(|s| s["status"] == "idle" && s["messages"] == 4), "{listed:?}");
    });
}

#[test]
fn looking_makes_no_file() {
    run(async {
        let root = directory();
        let cases: [&[&str]; 5] = [
            &["sessions", "list"],
            &["sessions", "show", "s1"],
            &["sessions", "delete", "s1"],
            &["ctl", "stop", "s1"],
            &["sessions", "export", "s1"],
        ];
        for args in cases {
            let looked = done(kept(&root, args)).await;
            assert_eq!(looked.status.code(), Some(2), "{args:?}");
            assert!(stderr(&looked).contains("no session is kept in "), "{args:?}: {}", stderr(&looked));
        }
        let mut command = turnwright(&["sessions", "list"]);
        let listed = command.current_dir(&root).env("HOME", &root).output().await.unwrap();
        assert_eq!((listed.status.code(), stdout(&listed).as_str()), (Some(0), "no sessions\n"));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    });
}

#[test]
fn a_file_that_is_no_store_is_a_fault_with_a_name() {
    run(async {
        let root = directory();
        fs::write(root.join("s.db"), "this is no database at all".repeat(200)).unwrap();
        let checked = done(kept(&root, &["store", "check", "--json"])).await;
        assert_eq!(checked.status.code(), Some(1), "{}", stderr(&checked));
        let report = json(&checked).remove(0);
        assert_eq!(report["faults"][0]["what"], "the store's file", "{report}");
    });
}

/// By default nobody else reads what was said.
#[cfg(unix)]
#[test]
fn sessions_are_kept_by_default_and_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    run(async {
        let (server, root) = (server([Reply::new().text("One.")]).await, directory());
        let mut command = with_server("run", &server, &["--session", "s1", "hi"]);
        let ran = command.current_dir(&root).env("HOME", &root).output().await.unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
        let directory = root.join(".local/state/turnwright");
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("turnwright.db"))), (0o700, 0o600));
        let mut command = turnwright(&["sessions", "list", "--json"]);
        let listed = command.env("HOME", &root).output().await.unwrap();
        assert_eq!(json(&listed)[0]["session"], "s1");
        let mut command = turnwright(&["doctor", "--json", "--model", "m"]);
        command.current_dir(&root).env("OPENAI_API_KEY", "k").env("OPENAI_BASE_URL", server.base_url());
        let report = json(&command.env("HOME", &root).output().await.unwrap()).remove(0);
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "sessions").unwrap();
        assert_eq!(check["status"], "ok", "{check}");
        assert!(check["detail"].as_str().unwrap().ends_with("turnwright.db"), "{check}");
    });
}

#[test]
fn doctor_says_where_sessions_are_kept_and_why_they_cannot_be() {
    run(async {
        let root = directory();
        let cases = [
            ("none", "missing", "in memory"),
            ("new.db", "ok", "new.db, which the first one makes"),
            ("a/b/c.db", "problem", "a/b is no directory"),
            ("file/c.db", "problem", "file is no directory"),
            ("file", "problem", "cannot be opened"),
        ];
        fs::write(root.join("file"), "no database".repeat(1000)).unwrap();
        for (store, status, words) in cases {
            let mut command = turnwright(&["doctor", "--json", "--model", "m", "--store", store]);
            command.current_dir(&root).env("OPENAI_API_KEY", "k").env("HTTPS_PROXY", "http://127.0.0.1:9");
            let output = command.output().await.unwrap();
            let report = json(&output).remove(0);
            let checks = report["checks"].as_array().unwrap();
            let check = checks.iter().find(|check| check["name"] == "sessions").unwrap();
            assert_eq!(check["status"], status, "{store}: {check}");
            assert!(check["detail"].as_str().unwrap().contains(words), "{store}: {check}");
            assert_eq!(output.status.code(), Some(i32::from(status == "problem")), "{store}");
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "doctor makes nothing");
    });
}

#[test]
fn long_results_in_files_go_with_their_session_and_with_a_sweep() {
    use turnwright::{SessionId, builtin::OverflowFiles};
    run(async {
        let (server, root) = (server([Reply::new().text("One.")]).await, directory());
        fs::write(root.join("turnwright.toml"), "[tools]\noverflow = \"long\"\n[store]\nidle_days = 1\n")
            .unwrap();
        done(asking(&root, &server, "run", &["--session", "s1", "hi"])).await;
        let files = OverflowFiles::below(root.join("long"));
        let [s1, old, fresh] = ["s1", "old", "fresh"].map(|id| SessionId::new(id).unwrap());
        for session in [&s1, &old, &fresh] {
            keep_long(&files, session).await;
        }
        let deleted = done(kept(&root, &["sessions", "delete", "s1"])).await;
        assert!(deleted.status.success(), "{}", stderr(&deleted));
        assert!(files.list(&s1).await.unwrap().is_empty());
        make_old(&root.join("long"), "old");
        let swept = done(kept(&root, &["store", "sweep"])).await;
        assert!(swept.status.success(), "{}", stderr(&swept));
        let left = [files.list(&old).await.unwrap().len(), files.list(&fresh).await.unwrap().len()];
        assert_eq!(left, [0, 1]);
    });
}

async fn keep_long(files: &turnwright::builtin::OverflowFiles, session: &turnwright::SessionId) {
    use turnwright::{ToolCall, ToolResult, TurnContext, interceptor::builtin::Overflow};
    let ctx = TurnContext::builder(session.clone()).build();
    files.keep(&ctx, &ToolResult::ok(&ToolCall::new("c1", "t", "{}"), "long")).await.unwrap();
}

/// Dates what the session keeps back to the beginning of time.
fn make_old(folder: &Path, session: &str) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.file_name().unwrap().to_str().unwrap().contains(session) {
            let meta = fs::read_dir(entry).unwrap().next().unwrap().unwrap().path().join("meta.json");
            let mut told: Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
            told["created_at"] = "1970-01-01T00:00:00Z".into();
            fs::write(meta, told.to_string()).unwrap();
        }
    }
}
