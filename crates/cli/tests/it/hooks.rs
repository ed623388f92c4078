//! Built-in hooks that the configuration turns on.

use std::fs;

use serde_json::Value;
use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, events, run, server, stderr, stdout, turnwright};

/// What the model was sent last, as text.
fn last(server: &turnwright_testkit::provider::ProviderServer) -> String {
    server.requests().last().unwrap().json()["messages"].to_string()
}

#[test]
fn what_would_do_nothing_is_a_mistake_with_its_reason() {
    run(async {
        let root = directory();
        let check = async |text: &str| {
            fs::write(root.join("t.toml"), text).unwrap();
            let output =
                turnwright(&["config", "check", "t.toml"]).current_dir(&root).output().await.unwrap();
            (output.status.code(), stderr(&output))
        };
        let text = "[hooks]\nenable = [\"loops\", \"checkpoint\", \"task_delegation_nudge\", \"current_time\", \"current_time\", \"env_injection\", \"loop_detection\"]\ncurrent_time.zone = \"Mars/Base\"\nenv_injection.variables = [\"TURN=x\"]\nloop_detection.window = 1\nlength_guard.nudges = 3\n[limits]\nrenewals = 4\n";
        let (code, notes) = check(text).await;
        assert_eq!(code, Some(2));
        for wanted in [
            "t.toml:2:10: hooks.enable: there is no hook \"loops\"; the hooks are: current_time, env_injection",
            "hooks.enable: \"checkpoint\" would do nothing: nothing here reads checkpoints",
            "hooks.enable: \"current_time\" is named twice",
            "hooks.enable: \"task_delegation_nudge\" would do nothing: the agent has nobody to delegate to",
            "t.toml:3:21: hooks.current_time.zone: ",
            "t.toml:4:27: hooks.env_injection.variables: \"TURN\" is written by the hook itself",
            "t.toml:5:25: hooks.loop_detection.window: one round repeats nothing",
            "t.toml:6:23: hooks.length_guard.nudges: hooks.enable does not name \"length_guard\"",
            "t.toml:8:12: limits.renewals: no hook asks for one",
        ] {
            assert!(notes.contains(wanted), "{wanted}\n---\n{notes}");
        }
        let guard = |n: u32, renewals: u32| {
            format!(
                "[hooks]\nenable = [\"length_guard\"]\nlength_guard.nudges = {n}\n[limits]\nrenewals = {renewals}\n"
            )
        };
        assert_eq!(check(&guard(4, 2)).await.0, Some(0));
        let (code, notes) = check(&guard(5, 2)).await;
        assert_eq!(code, Some(2));
        assert!(notes.contains("limits.attempts and limits.renewals leave 4 further attempts"), "{notes}");
    });
}

#[test]
fn a_loop_that_no_attempt_is_long_enough_for_is_refused() {
    run(async {
        let root = directory();
        let plan = async |hooks: &str, more: &[&str]| {
            fs::write(root.join("turnwright.toml"), format!("[hooks]\nenable = [{hooks}]\n")).unwrap();
            turnwright(&["plan"]).args(more).current_dir(&root).output().await.unwrap()
        };
        let output = plan("\"loop_detection\"", &[]).await;
        assert_eq!(output.status.code(), Some(2));
        let wanted = "turnwright.toml:2: hooks.enable: loop_detection speaks after 10 rounds, and a turn ends after 10";
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
        assert_eq!(plan("\"loop_detection\"", &["--max-iterations", "11"]).await.status.code(), Some(0));
        assert_eq!(plan("\"loop_detection\", \"length_guard\"", &[]).await.status.code(), Some(0));
    });
}

#[test]
fn the_plan_shows_them_in_the_order_they_run() {
    run(async {
        let root = directory();
        let plan = async |text: &str| -> Value {
            fs::write(root.join("turnwright.toml"), text).unwrap();
            let output = turnwright(&["plan", "--json"]).current_dir(&root).output().await.unwrap();
            serde_json::from_str(&stdout(&output)).unwrap()
        };
        assert_eq!(plan("").await["hooks"], Value::Array(Vec::new()), "none unless they are asked for");
        let plan = plan("[hooks]\nenable = [\"length_guard\", \"current_time\", \"todo_continuation\"]\n[limits]\nrenewals = 4\n").await;
        let hooks: Vec<_> = plan["hooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| (h["name"].as_str().unwrap(), h["priority"].as_i64()))
            .collect();
        let wanted =
            [("todo_continuation", Some(-1000)), ("length_guard", Some(0)), ("current_time", Some(0))];
        assert_eq!(hooks, wanted);
        assert_eq!(plan["limits"]["renewals"], 4);
        let tools: Vec<_> =
            plan["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert!(tools.contains(&"todo_write") && tools.contains(&"todo_read"), "{tools:?}");
    });
}

#[test]
fn the_model_is_told_the_time_of_the_zone_and_asked_again_for_what_was_cut() {
    run(async {
        let root = directory();
        let file = "[hooks]\nenable = [\"current_time\", \"length_guard\"]\ncurrent_time.zone = \"Asia/Kathmandu\"\nlength_guard.nudges = 1\n[store]\npath = \"none\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let cut = || Reply::new().text("half").finish("length");
        let server = server([cut(), Reply::new().text("whole"), cut(), cut()]).await;
        let output = ask(&server, &["--json", "hi"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let end = events(&stdout(&output)).pop().unwrap();
        assert_eq!((end["outcome"].as_str(), end["content"].as_str()), (Some("completed"), Some("whole")));
        let sent = last(&server);
        assert!(sent.contains("(Asia/Kathmandu)") && sent.contains("cut by the output limit"), "{sent}");
        let output = ask(&server, &["--json", "hi"]).current_dir(&root).output().await.unwrap();
        let end = events(&stdout(&output)).pop().unwrap();
        assert_eq!((end["outcome"].as_str(), output.status.code()), (Some("failed"), Some(1)), "{end}");
        assert!(end["error"]["message"].as_str().unwrap().contains("2 times in a row"), "{end}");
    });
}

#[test]
fn a_loop_ends_the_turn_and_says_so() {
    run(async {
        let root = directory();
        let file = "[hooks]\nenable = [\"loop_detection\"]\nloop_detection.window = 2\nloop_detection.observation = 1\n[store]\npath = \"none\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        fs::write(root.join("a.txt"), "a").unwrap();
        let call = || Reply::new().tool_call("c", "read_file", r#"{"path":"a.txt"}"#);
        let server = server((0..6).map(|_| call())).await;
        let output = ask(&server, &["--json", "hi"]).current_dir(&root).output().await.unwrap();
        let end = events(&stdout(&output)).pop().unwrap();
        assert_eq!(end["outcome"], "loop_detected", "{end}");
        assert_eq!(server.requests().len(), 3, "reminded after two rounds, ended in place of the fourth");
    });
}

#[cfg(unix)]
#[test]
fn commands_are_told_which_turn_they_belong_to() {
    run(async {
        let root = directory();
        let file = "[hooks]\nenable = [\"env_injection\"]\nenv_injection.variables = [\"TENANT=acme=x\"]\n[tools]\nallow = [\"shell\"]\n[store]\npath = \"none\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let command = r#"{"command":"echo $TURNWRIGHT_CTX_TENANT $TURNWRIGHT_CTX_SESSION"}"#;
        let server = server([Reply::new().tool_call("c", "shell", command), Reply::new().text("ok")]).await;
        let output = ask(&server, &["--json", "hi"]).current_dir(&root).output().await.unwrap();
        let events = events(&stdout(&output));
        let result = events.iter().find(|e| e["type"] == "tool_result").unwrap();
        let session = events[0]["session"].as_str().unwrap();
        assert!(result["content"].as_str().unwrap().contains(&format!("acme=x {session}")), "{result}");
    });
}

#[test]
fn a_later_process_goes_on_with_the_list_of_an_earlier_one() {
    run(async {
        let root = directory();
        let file = "[hooks]\nenable = [\"todo_continuation\"]\n[store]\npath = \"s.db\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let write = |status: &str| {
            let todos = format!(r#"{{"todos":[{{"content":"sweep","status":"{status}"}}]}}"#);
            Reply::new().tool_call("w", "todo_write", &todos)
        };
        let server = server([
            write("pending"),
            Reply::new().text("later"),
            Reply::new().text("not today"),
            Reply::new().text("well"),
            Reply::new().tool_call("r", "todo_read", "{}"),
            write("completed"),
            Reply::new().text("done"),
        ])
        .await;
        let first =
            ask(&server, &["--session", "s1", "--json", "hi"]).current_dir(&root).output().await.unwrap();
        let end = events(&stdout(&first)).pop().unwrap();
        assert_eq!((end["content"].as_str(), server.requests().len()), (Some("not today"), 3), "{end}");
        let then =
            ask(&server, &["--session", "s1", "--json", "go on"]).current_dir(&root).output().await.unwrap();
        let events = events(&stdout(&then));
        let end = events.last().unwrap();
        assert_eq!(
            (end["content"].as_str(), server.requests().len()),
            (Some("done"), 7),
            "{}",
            stderr(&then)
        );
        let read = events.iter().find(|e| e["type"] == "tool_result").unwrap();
        assert_eq!(read["content"], "1. [pending] sweep");
    });
}

#[test]
fn the_subagent_has_the_same_hooks_but_for_the_hint_that_there_are_subagents() {
    run(async {
        let root = directory();
        let file = "[hooks]\nenable = [\"length_guard\", \"task_delegation_nudge\", \"todo_planning_nudge\"]\n[limits]\niterations = 6\n[subagents]\noutputs = \"reports\"\n[store]\npath = \"none\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let task = r#"{"agent": "explorer", "prompt": "look"}"#;
        let look = || Reply::new().tool_call("l", "list_dir", "{}");
        let looks = || [look(), look(), look()];
        let script = [Reply::new().tool_call("t", "task", task)].into_iter().chain(looks()).chain([
            Reply::new().text("half").finish("length"),
            Reply::new().text("whole"),
            Reply::new().text("done"),
        ]);
        let server = server(script).await;
        let output = ask(&server, &["--json", "hi"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let child = server.requests()[5].json()["messages"].to_string();
        assert!(
            child.contains("cut by the output limit") && child.contains("list of them with todo_write"),
            "{child}"
        );
        assert!(!child.contains("giving a part that stands by itself"), "{child}");
        let answer = last(&server);
        assert!(answer.contains("status: completed"), "{answer}");
        assert_eq!(server.requests().len(), 7);
    });
}
