//! The program's own subagent, if the configuration asks for it.

use std::fs;

use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, events, run, server, stdout, turnwright};

#[test]
fn an_explorer_looks_and_its_report_is_the_result_of_the_call() {
    run(async {
        let root = directory();
        fs::write(root.join("a.txt"), "forty-two\n").unwrap();
        let config = root.join("turnwright.toml");
        fs::write(&config, "[subagents]\noutputs = \"reports\"\n").unwrap();
        let task = r#"{"agent": "explorer", "prompt": "What does a.txt say?"}"#;
        let server = server([
            Reply::new().tool_call("t", "task", task),
            Reply::new().tool_call("r", "read_file", r#"{"path": "a.txt"}"#),
            Reply::new().text("It says forty-two."),
            Reply::new().text("done"),
        ])
        .await;
        let (root_text, config) = (root.to_str().unwrap(), config.to_str().unwrap());
        let arguments = ["--config", config, "--json", "go", "--tool-root", root_text];
        let output = ask(&server, &arguments).output().await.unwrap();
        let events = events(&stdout(&output));
        let result = events.iter().find(|e| e["type"] == "tool_result").unwrap();
        let report = result["content"].as_str().unwrap();
        assert!(report.contains("status: completed\n") && report.contains("It says forty-two."), "{report}");
        let written = report.lines().find_map(|line| line.strip_prefix("output: ")).unwrap();
        assert!(written.starts_with(root.join("reports").to_str().unwrap()), "{written}");
        assert_eq!(fs::read_to_string(written).unwrap(), "It says forty-two.");
        let child = server.requests()[1].json();
        let tools: Vec<_> =
            child["tools"].as_array().unwrap().iter().map(|t| &t["function"]["name"]).collect();
        assert_eq!(tools.len(), 4, "it can change nothing, and has nobody to ask: {tools:?}");
    });
}

#[test]
fn without_the_key_there_is_none_and_with_it_the_plan_says_so() {
    run(async {
        let root = directory();
        let plan = async |text: &str| {
            fs::write(root.join("turnwright.toml"), text).unwrap();
            stdout(&turnwright(&["plan", "--json"]).current_dir(&root).output().await.unwrap())
        };
        assert!(!plan("").await.contains("subagent"));
        let plan = plan("[subagents]\noutputs = \"reports\"\n").await;
        for wanted in ["\"task\"", "inbox_flush", "subagent_end"] {
            assert!(plan.contains(wanted), "{wanted}: {plan}");
        }
    });
}

#[test]
fn what_the_file_forbids_or_asks_about_is_so_for_the_explorer_too() {
    run(async {
        for (rule, code) in [("never", 0), ("ask", 3)] {
            let root = directory();
            fs::write(root.join("a.txt"), "forty-two\n").unwrap();
            let file = format!("subagents.outputs = \"reports\"\napprovals.{rule} = [\"read_file\"]\n");
            fs::write(root.join("turnwright.toml"), file).unwrap();
            let task = r#"{"agent": "explorer", "prompt": "What does a.txt say?"}"#;
            let server = server([
                Reply::new().tool_call("t", "task", task),
                Reply::new().tool_call("r", "read_file", r#"{"path": "a.txt"}"#),
                Reply::new().text("I cannot know."),
                Reply::new().text("done"),
            ])
            .await;
            let output = ask(&server, &["--json", "go"]).current_dir(&root).output().await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{rule}: {}", stdout(&output));
            let asked = format!("{:?}", server.requests());
            assert!(!asked.contains("forty-two"), "{rule}: {asked}");
            assert_eq!(asked.contains("the configuration forbids this tool"), rule == "never", "{asked}");
        }
    });
}
