//! What the configuration adds: memory, code cells, long results in files.
#![cfg(unix)]

use std::{fs, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, run, server, stderr, stdout, turnwright, with_server};

#[test]
fn keys_of_memory_that_would_do_nothing_are_mistakes() {
    run(async {
        let root = directory();
        let check = async |text: &str| {
            fs::write(root.join("t.toml"), text).unwrap();
            let output =
                turnwright(&["config", "check", "t.toml"]).current_dir(&root).output().await.unwrap();
            (output.status.code(), stderr(&output))
        };
        let text = "[memory]\nconsolidate_tokens = 4000\ncontext_tokens = 9\nmetrics_file = \"m\"\nreview_from_messages = 4\nwindow_tokens = 999\n";
        let (code, notes) = check(text).await;
        assert_eq!(code, Some(2));
        for wanted in [
            "t.toml:2:22: memory.consolidate_tokens: it does nothing without memory.core_file",
            "memory.consolidate_tokens: a core memory has 4000 tokens at most",
            "t.toml:3:18: memory.context_tokens: it does nothing without memory.core_file or memory.experiences",
            "t.toml:5:24: memory.review_from_messages: it does nothing without memory.experiences",
            "t.toml:6:17: memory.window_tokens: no conversation fits: 1000 are the least",
        ] {
            assert!(notes.contains(wanted), "{wanted}\n---\n{notes}");
        }
        assert!(!notes.contains("memory.metrics_file"), "there is a window: {notes}");
        let (_, notes) = check("[memory]\nmetrics_file = \"m\"\n").await;
        let wanted =
            "memory.metrics_file: it does nothing without memory.window_tokens or memory.consolidate_tokens";
        assert!(notes.contains(wanted), "{notes}");
        let right = "[memory]\ncore_file = \"c\"\nconsolidate_tokens = 3999\ncontext_tokens = 9\nmetrics_file = \"no/m\"\nexperiences = \"e\"\nreview_from_messages = 1\nwindow_tokens = 1000\n";
        assert_eq!(check(right).await, (Some(0), String::new()));
        let plan = turnwright(&["--config", "t.toml", "plan"]).current_dir(&root).output().await.unwrap();
        for hook in ["clean_up", "context_assembly", "consolidation", "experience_review"] {
            assert!(stdout(&plan).contains(hook), "{hook}: {}", stdout(&plan));
        }
        // A plan touches no file; a turn must be able to write.
        let server = server([Reply::new().text("Done.")]).await;
        let output = with_server("--config=t.toml", &server, &["run", "hi"]);
        let output = { output }.current_dir(&root).output().await.unwrap();
        assert_eq!((output.status.code(), server.requests().len()), (Some(2), 0));
        assert!(
            stderr(&output).contains("memory.metrics_file: no/m cannot be written"),
            "{}",
            stderr(&output)
        );
    });
}

#[test]
fn a_long_turn_is_summarised_and_told_its_core_memory_and_its_todos_again() {
    run(async {
        let root = directory();
        let file = "[memory]\nwindow_tokens = 20000\ncore_file = \"core.md\"\nmetrics_file = \"metrics.jsonl\"\n[hooks]\nenable = [\"todo_planning_nudge\"]\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        fs::write(root.join("core.md"), "Ann likes tea.\n").unwrap();
        fs::write(root.join("long.txt"), "words ".repeat(6000)).unwrap();
        let read = |id: &str| Reply::new().tool_call(id, "read_file", r#"{"path":"long.txt"}"#);
        let todo = r#"{"todos":[{"content":"brew","status":"pending"}]}"#;
        let todo = Reply::new().tool_call("t", "todo_write", todo);
        let script =
            [todo, read("a"), read("b"), Reply::new().text("Two files."), Reply::new().text("Done.")];
        let server = server(script).await;
        let output = ask(&server, &["Read it twice"]).current_dir(&root).output().await.unwrap();
        assert_eq!(stdout(&output), "Done.\n", "{}", stderr(&output));
        let requests = server.requests();
        assert_eq!(requests.len(), 5);
        let last = requests[4].json()["messages"].to_string();
        for wanted in
            ["[Summary of what came before]\\nTwo files.", "Read it twice", "Ann likes tea.", "brew"]
        {
            assert!(last.contains(wanted), "{wanted}: {last}");
        }
        assert!(last.len() < 60_000, "one of two files: {}", last.len());
        let lines = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(lines.trim()).unwrap();
        assert_eq!(
            (line["event"]["point"].as_str(), lines.contains("tea")),
            (Some("cleanup_finished"), false)
        );
    });
}

#[test]
fn in_a_chat_it_is_looked_at_what_can_be_learned_and_in_a_single_turn_not() {
    run(async {
        let root = directory();
        let file = "[memory]\nexperiences = \"learned\"\nreview_from_messages = 1\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let server_of_one = server([Reply::new().text("Hello.")]).await;
        let output = ask(&server_of_one, &["hi"]).current_dir(&root).output().await.unwrap();
        assert_eq!((stdout(&output).as_str(), server_of_one.requests().len()), ("Hello.\n", 1));

        let written = r#"{"name":"tides","description":"When the tide turns","text":"Look at the moon."}"#;
        let keep = Reply::new().tool_call("w", "write_experience", written);
        let script =
            [Reply::new().text("Hello."), keep, Reply::new().text("Kept."), Reply::new().text("Bye.")];
        let server = server(script).await;
        let mut chat = with_server("chat", &server, &[]);
        let mut chat = chat.current_dir(&root).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = chat.stdin.take().unwrap();
        stdin.write_all(b"hi\n").await.unwrap();
        while server.requests().len() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(stdin);
        let output = chat.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let kept = fs::read_to_string(root.join("learned").join("tides.md")).unwrap();
        assert_eq!(kept, "When the tide turns\n\nLook at the moon.\n");
    });
}

#[test]
fn a_core_memory_outlives_its_conversation_and_instruction_files_are_read() {
    run(async {
        let root = directory();
        let file = "[memory]\ncore_file = \"core.md\"\ninstruction_files = [\"AGENTS.md\"]\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        fs::write(root.join("AGENTS.md"), "Always answer in rhymes.").unwrap();
        let edit =
            Reply::new().tool_call("m1", "core_memory", r#"{"mode":"append","text":"Ann likes tea."}"#);
        let server = server([edit, Reply::new().text("Noted."), Reply::new().text("Tea?")]).await;
        for words in ["I like tea", "What do I like?"] {
            let output = ask(&server, &[words]).current_dir(&root).output().await.unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        }
        let last = format!("{:?}", server.requests()[2]);
        assert!(last.contains("Ann likes tea.") && last.contains("Always answer in rhymes."), "{last}");
    });
}

#[test]
fn a_code_cell_is_asked_about_and_a_long_result_is_kept_whole() {
    run(async {
        let root = directory();
        fs::write(root.join("turnwright.toml"), "[tools]\npython = \"python3\"\noverflow = \"long\"\n")
            .unwrap();
        let cell = || Reply::new().tool_call("c1", "code", r#"{"code":"print('x' * 39000); 6 * 7"}"#);
        let server = server([cell(), cell(), Reply::new().text("Done.")]).await;
        let output = ask(&server, &["calculate"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let output =
            ask(&server, &["--allow", "code", "calculate"]).current_dir(&root).output().await.unwrap();
        assert_eq!(stdout(&output), "Done.\n", "{}", stderr(&output));
        assert!(format!("{:?}", server.requests()[2]).contains("[value] 42"));
        let plan = turnwright(&["plan"]).current_dir(&root).output().await.unwrap();
        let plan = stdout(&plan);
        assert!(
            plan.contains("read_overflow")
                && plan.contains("asks before: write_file, edit_file, shell, code"),
            "{plan}"
        );
    });
}

#[test]
fn a_long_conversation_is_summarised_and_the_file_of_metrics_has_its_line() {
    run(async {
        let root = directory();
        let file = "[memory]\nwindow_tokens = 1000\nmetrics_file = \"metrics.jsonl\"\n[hooks]\nenable = [\"todo_planning_nudge\"]\n\
                    [store]\npath = \"store.db\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let list = r#"{"todos":[{"content":"Count the stars","status":"pending"}]}"#;
        let server = server([
            Reply::new().tool_call("t1", "todo_write", list),
            Reply::new().text("Stars, one by one. ".repeat(150)),
            Reply::new().text("They talked of stars."),
            Reply::new().text("Two."),
        ])
        .await;
        for words in ["Tell me of stars", "How many?"] {
            let output = ask(&server, &["--session", "s1", words]).current_dir(&root).output().await.unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        }
        let last = format!("{:?}", server.requests()[3]);
        assert!(last.contains("They talked of stars.") && last.contains("Count the stars"), "{last}");
        let metrics = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
        assert_eq!(metrics.lines().count(), 1, "{metrics}");
        assert!(metrics.contains("cleanup_finished") && !metrics.contains("stars"), "{metrics}");
    });
}

#[test]
fn a_core_memory_that_became_long_is_written_anew() {
    run(async {
        let root = directory();
        let file = "[memory]\ncore_file = \"core.md\"\nconsolidate_tokens = 50\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        fs::write(root.join("core.md"), "Ann likes tea.\n".repeat(40)).unwrap();
        let server = server([Reply::new().text("Tea."), Reply::new().text("Ann likes tea.")]).await;
        let output = ask(&server, &["What do I like?"]).current_dir(&root).output().await.unwrap();
        assert_eq!(stdout(&output), "Tea.\n", "{}", stderr(&output));
        assert_eq!(fs::read_to_string(root.join("core.md")).unwrap(), "Ann likes tea.\n");
        let wrong = "[memory]\nconsolidate_tokens = 50\nmetrics_file = \"m\"\n";
        fs::write(root.join("turnwright.toml"), wrong).unwrap();
        let output = turnwright(&["config", "check"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("without memory.core_file"), "{}", stderr(&output));
    });
}
