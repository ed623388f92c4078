//! `plan`: what an agent has, without a model.

use serde_json::{Value, json};

use crate::support::{directory, run, stderr, stdout, turnwright};

#[test]
fn a_plan_needs_no_provider_and_names_what_is_there() {
    run(async {
        let output = turnwright(&["plan"]).current_dir(directory()).output().await.unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let text = stdout(&output);
        assert!(text.starts_with("agent turnwright asks not configured\n"), "{text}");
        for word in
            ["tool_timeout", "read_file", "10 iterations", "asks before: write_file, edit_file, shell\n"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
    });
}

#[test]
fn as_json_it_is_one_object_in_snake_case() {
    run(async {
        let args = ["plan", "--json", "--model", "m", "--max-iterations", "3", "--allow", "shell"];
        let mut command = turnwright(&args);
        command.env("OPENAI_API_KEY", "sk-0123456789").current_dir(directory());
        let output = command.output().await.unwrap();
        let text = stdout(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(0), 1), "{text}");
        assert!(!text.contains("sk-0123456789"));
        let plan: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(plan["model"], "openai/m");
        assert_eq!(plan["limits"]["iterations"], 3);
        assert_eq!(plan["asks"], json!(["write_file", "edit_file"]));
        assert_eq!((&plan["observers"], &plan["instruments"]), (&json!([]), &json!([])));
        let layers: Vec<_> = plan["interceptors"].as_array().unwrap().iter().collect();
        let last = layers.iter().rfind(|layer| layer["scope"] == "tool_call").unwrap();
        assert_eq!(last["name"], "tool_timeout");
        let names: Vec<_> = plan["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        for tool in ["current_time", "edit_file", "list_dir", "read_file", "search", "write_file"] {
            assert!(names.contains(&&json!(tool)), "{text}");
        }
    });
}

#[test]
fn mistakes_in_the_options_are_refused_all_the_same() {
    run(async {
        for args in [&["plan", "--tool-root", "none"][..], &["plan", "--allow", "all"]] {
            let output = turnwright(args).current_dir(directory()).output().await.unwrap();
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}");
        }
    });
}
