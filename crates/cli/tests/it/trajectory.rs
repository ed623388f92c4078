//! `--trajectory`: what the session did, in files others read.

use std::{fs, path::Path};

use serde_json::Value;
use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, run, server, stderr};

fn trajectories(folder: &Path) -> Vec<Value> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    entries.map(|text| serde_json::from_slice(&text).unwrap()).collect()
}

#[test]
fn a_run_writes_the_agents_session_and_its_subagents() {
    run(async {
        let root = directory();
        let (config, folder) = (root.join("turnwright.toml"), root.join("seen"));
        fs::write(&config, "[subagents]\noutputs = \"reports\"\n").unwrap();
        let server = server([
            Reply::new().tool_call("t", "task", r#"{"agent": "explorer", "prompt": "Look"}"#),
            Reply::new().text("Nothing there."),
            Reply::new().text("done"),
        ])
        .await;
        let [config, root, to] = [&config, &root, &folder].map(|path| path.to_str().unwrap());
        let arguments = ["--config", config, "go", "--tool-root", root, "--trajectory", to];
        let output = ask(&server, &arguments).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let all = trajectories(&folder);
        let of = |name: &str| all.iter().find(|one| one["agent"]["name"] == name).unwrap();
        let result = &of("turnwright")["steps"][2]["observation"]["results"][0];
        assert_eq!(result["subagent_trajectory_ref"][0]["session_id"], of("explorer")["session_id"]);
        assert_eq!(of("explorer")["extra"]["outcome"], "completed");
    });
}

#[test]
fn a_folder_that_cannot_be_written_fails_the_run_after_its_answer() {
    run(async {
        let file = directory().join("file");
        fs::write(&file, "").unwrap();
        let server = server([Reply::new().text("done")]).await;
        let output = ask(&server, &["go", "--trajectory", file.to_str().unwrap()]).output().await.unwrap();
        assert_eq!((output.status.code(), crate::support::stdout(&output).as_str()), (Some(1), "done\n"));
        let told = stderr(&output);
        assert!(told.contains("the trajectory was not written") && told.contains("hint:"), "{told}");
    });
}
