//! `turnwright.toml`: mistakes with their place, what wins, and that what it says takes effect.

use std::fs;

use serde_json::{Value, json};
use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, events, run, server, stderr, stdout, turnwright};

#[test]
fn every_mistake_is_told_with_line_column_and_key() {
    run(async {
        let root = directory();
        let text = "[agent]\nmodle = \"m\"\nmodel = 7\n\n[limits]\niterations = 0\ntokens = \"many\"\n\n[approvals]\nbatch = \"both\"\n\n[server]\nport = \"x\"\n";
        fs::write(root.join("wrong.toml"), text).unwrap();
        let output =
            turnwright(&["config", "check", "wrong.toml"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        let notes = stderr(&output);
        for wanted in [
            "wrong.toml:2:1: agent.modle: there is no such key; did you mean agent.model?",
            "  modle = \"m\"",
            "wrong.toml:3:9: agent.model: it wants a text in quotes, and there is the number 7",
            "wrong.toml:6:14: limits.iterations: it wants a whole number, at least 1, and there is the number 0",
            "wrong.toml:7:10: limits.tokens: it wants a whole number, at least 1, and there is the text \"many\"",
            "wrong.toml:10:9: approvals.batch: it wants one of \"independent\", \"atomic\"",
            "wrong.toml:12:2: server: the server cannot be configured in this version",
        ] {
            assert!(notes.contains(wanted), "{wanted}\n---\n{notes}");
        }
        fs::write(root.join("broken.toml"), "[agent\nmodel = 1").unwrap();
        let output =
            turnwright(&["config", "check", "broken.toml"]).current_dir(&root).output().await.unwrap();
        assert!(stderr(&output).contains("broken.toml:1:"), "{}", stderr(&output));
        fs::write(root.join("twice.toml"), "[agent]\nmodel = \"a\"\nmodel = \"b\"\n").unwrap();
        let output =
            turnwright(&["config", "check", "twice.toml"]).current_dir(&root).output().await.unwrap();
        assert!(stderr(&output).contains("twice.toml:3:"), "{}", stderr(&output));
        fs::write(root.join("tool.toml"), "[approvals]\nnever = [\"rm\"]\n").unwrap();
        let output = turnwright(&["config", "check", "tool.toml"]).current_dir(&root).output().await.unwrap();
        assert!(
            stderr(&output).contains("tool.toml:2:9: approvals.never: there is no tool \"rm\""),
            "{}",
            stderr(&output)
        );
        let output =
            turnwright(&["--config", "nowhere.toml", "plan"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("nowhere.toml cannot be read"), "{}", stderr(&output));
        let output = turnwright(&["--config", "wrong.toml", "config", "check", "/dev/null"])
            .current_dir(&root)
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    });
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    run(async {
        let root = directory();
        fs::write(
            root.join("turnwright.toml"),
            "[agent]\nmodel = \"of-file\"\n[limits]\niterations = 4\ndeadline_seconds = 7\n",
        )
        .unwrap();
        let mut command = turnwright(&["config", "show", "--json", "--max-iterations", "6"]);
        let output =
            command.current_dir(&root).env("TURNWRIGHT_MODEL", "of-environment").output().await.unwrap();
        let shown: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let row = |key: &str| {
            (
                shown[key]["value"].as_str().unwrap().to_owned(),
                shown[key]["source"].as_str().unwrap().to_owned(),
            )
        };
        let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
        assert_eq!(row("agent.model"), pair("of-environment", "TURNWRIGHT_MODEL"));
        assert_eq!(row("limits.iterations"), pair("6", "--max-iterations"));
        assert_eq!(row("limits.deadline_seconds"), pair("7", "turnwright.toml:5"));
        assert_eq!(row("agent.provider"), pair("openai", "default"));
        let text = stdout(&turnwright(&["config", "show"]).current_dir(&root).output().await.unwrap());
        assert!(text.contains("agent.model") && text.contains("of-file  (turnwright.toml:2)"), "{text}");
    });
}

#[test]
fn what_the_file_says_takes_effect() {
    run(async {
        let (root, call) = (directory(), |path: &str| {
            let arguments = format!(r#"{{"path":"{path}","content":"b"}}"#);
            Reply::new().tool_call("w1", "write_file", &arguments)
        });
        fs::create_dir_all(root.join("docs")).unwrap();
        let file = "[agent]\nmodel = \"of-file\"\n[approvals]\nallowed_paths = [\"docs\"]\nnever = [\"shell\"]\n[limits]\ntool_calls = 2\n[store]\npath = \"s.db\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let shell = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let script = [call("docs/a.txt"), shell, call("b.txt")];
        let server = server(script).await;
        let mut command = ask(&server, &["--session", "s1", "--json", "write"]);
        let output = command.env_remove("TURNWRIGHT_MODEL").current_dir(&root).output().await.unwrap();
        let events = events(&stdout(&output));
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(root.join("docs/a.txt").exists(), "inside, nobody is asked");
        assert!(!root.join("x").exists() && !root.join("b.txt").exists());
        assert!(stdout(&output).contains("the configuration forbids this tool"));
        assert_eq!(events.last().unwrap()["pending"].as_array().unwrap().len(), 1, "outside, somebody is");
        assert!(root.join("s.db").exists());
        let asked = &server.requests()[0];
        assert!(format!("{asked:?}").contains("of-file"), "{asked:?}");
    });
}

#[test]
fn keys_that_name_nothing_or_would_do_nothing_are_mistakes_in_the_order_of_the_file() {
    run(async {
        let root = directory();
        let lines = [
            ("agent = 3", "agent: it wants a table, and there is the number 3"),
            ("tools.allow = [\"shel\", \"read_file\"]", "tools.allow: there is no tool \"shel\""),
            ("approvals.never = [\"shell\"]", ""),
            (
                "approvals.ask = [\"shell\"]",
                "approvals.ask: \"shell\" is named twice: line 3, approvals.never",
            ),
            (
                "timeouts.connect_seconds = 1e-10",
                "timeouts.connect_seconds: it wants a number of seconds, at least 0.001",
            ),
            (
                "interceptors.retry.backoff_seconds = 1",
                "interceptors.retry.backoff_seconds: nothing is tried again",
            ),
            (
                "interceptors.circuit_breaker.open_seconds = 1",
                "circuit_breaker.open_seconds: there is no breaker",
            ),
        ];
        let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        fs::write(root.join("a.toml"), text).unwrap();
        let output = turnwright(&["config", "check", "a.toml"]).current_dir(&root).output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!(output.status.code(), Some(2));
        let told: Vec<&str> = notes.lines().filter(|line| line.contains("a.toml:")).collect();
        let mut last = 0;
        for (n, (_, wanted)) in lines.iter().enumerate().filter(|(_, (_, wanted))| !wanted.is_empty()) {
            let is_it = |line: &&str| line.contains(wanted) && line.contains(&format!("a.toml:{}:", n + 1));
            let at = told.iter().position(is_it).unwrap_or_else(|| panic!("{wanted}\n---\n{notes}"));
            assert!(at >= last, "{notes}");
            last = at;
        }
        assert!(notes.contains("\"read_file\" runs without asking anyway"), "{notes}");

        let check = async |text: &str| {
            fs::write(root.join("b.toml"), text).unwrap();
            let args = ["--json", "config", "check", "b.toml"];
            let output = turnwright(&args).current_dir(&root).output().await.unwrap();
            let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!(json["ok"] == true, output.status.code() == Some(0), "{json}");
            assert_eq!(json["path"], "b.toml");
            json["mistakes"].clone()
        };
        assert_eq!(check("limits.iterations = 3\n").await, json!([]));
        let both = "tools.allow = [\"write_file\", \"edit_file\"]\napprovals.allowed_paths = [\".\"]\n";
        let why = "neither write_file nor edit_file is asked about, so that no path makes a difference";
        let wrong = json!([{ "line": 2, "column": 27, "key": "approvals.allowed_paths", "message": why }]);
        assert_eq!(check(both).await, wrong);
        let near = check("agent.fallback = [\"meta/llama\", \"gemni/flash\"]\n").await.to_string();
        assert!(near.contains("no provider") && near.contains("gemini") && !near.contains("meta"), "{near}");
        // What only the machine knows is told with the rest, and in its place.
        let wrong = check("approvals.ask = [\"ls\"]\ntools.root = \"nowhere\"\nlimits.tokens = 0\n").await;
        let keys: Vec<_> = wrong.as_array().unwrap().iter().map(|mistake| &mistake["key"]).collect();
        assert_eq!(keys, ["approvals.ask", "tools.root", "limits.tokens"]);
        assert!(wrong[1]["message"].as_str().unwrap().starts_with("nowhere: "), "{wrong}");
        let wrong = check("approvals.allowed_paths = [\".\", \"gone\", \"away\"]\n").await;
        assert_eq!((wrong.as_array().unwrap().len(), &wrong[1]["line"]), (2, &json!(1)), "{wrong}");
        let wrong = check("store.lease_seconds = 1e9\n").await;
        assert_eq!(wrong[0]["message"], "it may be 31622400 at most, and there is the number 1e9");
        assert_eq!(check("[agent").await[0]["key"], Value::Null);
    });
}

#[test]
fn a_check_as_json_is_one_object_also_where_there_is_no_file() {
    run(async {
        let root = directory();
        for (args, code, path, wrong) in [
            (&["--json", "config", "check"][..], 0, Value::Null, 0),
            (&["config", "check", "gone.toml", "--json"], 2, json!("gone.toml"), 1),
        ] {
            let output = turnwright(args).current_dir(&root).output().await.unwrap();
            assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(code), ""));
            let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!(
                (&found["path"], found["mistakes"].as_array().unwrap().len()),
                (&path, wrong),
                "{found}"
            );
        }
        // One that is broken and lies here keeps nobody from asking what is wrong with it.
        fs::write(root.join("turnwright.toml"), "agent = 3\n").unwrap();
        let output = turnwright(&["--json", "config", "check"]).current_dir(&root).output().await.unwrap();
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((output.status.code(), &found["mistakes"][0]["column"]), (Some(2), &json!(9)), "{found}");
    });
}

#[test]
fn the_command_line_lets_run_what_the_file_asks_about_and_never_what_it_forbids() {
    run(async {
        for (file, allowed, code) in [
            ("approvals.ask = [\"write_file\"]", "write_file", 0),
            ("approvals.ask = [\"read_file\", \"write_file\"]", "read_file", 3),
            ("approvals.never = [\"write_file\"]", "write_file", 0),
            ("approvals.ask = [\"write_file\"]\napprovals.allowed_paths = [\".\"]", "shell", 0),
        ] {
            let root = directory();
            fs::write(root.join("turnwright.toml"), file).unwrap();
            let call = Reply::new().tool_call("w1", "write_file", r#"{"path":"a.txt","content":"b"}"#);
            let server = server([call, Reply::new().text("done")]).await;
            let output = ask(&server, &["--allow", allowed, "hi"]).current_dir(&root).output().await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{file}: {}", stderr(&output));
            let runs = code == 0 && !file.contains("never");
            assert_eq!(root.join("a.txt").exists(), runs, "{file}");
        }
    });
}

#[test]
fn a_plan_shows_what_the_file_adds() {
    run(async {
        let root = directory();
        let file = "[agent]\nmodel = \"m\"\nfallback = [\"n\"]\n\
            [approvals]\nask = [\"read_file\"]\nnever = [\"shell\"]\nallowed_paths = [\"docs\"]\n\
            [interceptors.cache]\nentries = 3\n[interceptors.retry]\nattempts = 2\n[interceptors.circuit_breaker]\nfailures = 2\n\
            [interceptors.rate_limit]\nconcurrent = 2\n[safety.turn]\ntool_timeout_seconds = 700\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        fs::create_dir_all(root.join("docs")).unwrap();
        let text = stdout(&turnwright(&["plan"]).current_dir(&root).output().await.unwrap());
        let asks = "asks before: read_file, write_file (not below docs), edit_file (not below docs)\n";
        assert!(text.contains(asks) && text.contains("never runs: shell\n"), "{text}");
        let allows = ["plan", "--json", "--allow", "write_file,edit_file"];
        let output = turnwright(&allows).current_dir(&root).output().await.unwrap();
        let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((&plan["asks"], &plan["allowed_paths"]), (&json!(["read_file"]), &json!([])));
        let output = turnwright(&["plan", "--json"]).current_dir(&root).output().await.unwrap();
        let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let layers: Vec<_> = plan["interceptors"].as_array().unwrap().iter().collect();
        let of_calls = layers.iter().filter(|layer| layer["scope"] == "llm_call");
        let names: Vec<_> = of_calls.map(|layer| layer["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["fallback", "cache", "circuit_breaker", "retry", "rate_limit"]);
        assert_eq!(plan["asks"], json!(["read_file", "write_file", "edit_file"]));
        assert_eq!(plan["never"], json!(["shell"]));
        assert_eq!(plan["allowed_paths"], json!(["docs"]));
        assert_eq!(plan["fallback"], json!(["n"]));
        let tools = plan["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["timeout_ms"] == 700_000), "{tools:?}");
        let shown = stdout(
            &turnwright(&["config", "show", "--base-url", "http://ann:secret@127.0.0.1:1/v1"])
                .current_dir(&root)
                .output()
                .await
                .unwrap(),
        );
        assert!(
            !shown.contains("secret") && !shown.contains("ann:") && shown.contains("***@127.0.0.1:1"),
            "{shown}"
        );
    });
}

#[test]
fn user_and_password_of_the_base_url_are_shown_nowhere() {
    run(async {
        let root = directory();
        fs::write(root.join("turnwright.toml"), "[agent]\nbase_url = \"http://me:secret@127.0.0.1/v1\"\n")
            .unwrap();
        for args in [
            &["config", "show"][..],
            &["--json", "config", "show"],
            &["config", "show", "--base-url", "http://me:secret@h"],
            &["run", "--help"],
        ] {
            let output = turnwright(args).current_dir(&root).output().await.unwrap();
            let text = stdout(&output);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
            assert!(!text.contains("secret"), "{args:?}: {text}");
            assert_eq!(text.contains("***@"), !args.contains(&"--help"), "{args:?}: {text}");
        }
    });
}
