//! What the configuration adds: memory, code cells, long results in files.
#![cfg(unix)]

use std::fs;

use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, run, server, stderr, stdout, turnwright};

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
        let file = "[memory]\nwindow_tokens = 600\nmetrics_file = \"metrics.jsonl\"\n[hooks]\nenable = [\"todo_planning_nudge\"]\n\
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
