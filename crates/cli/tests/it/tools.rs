//! The tools, as the model meets them.

use std::{fs, path::Path};

use serde_json::{Value, json};
use turnwright_testkit::provider::{ProviderServer, Reply};

use crate::support::{ask, directory, events, run, server, stdout};

/// Calls tools in a directory; gives what the model was told of each, in order, with whether it was an error.
async fn call(root: &Path, calls: &[(&str, Value)]) -> Vec<(bool, String)> {
    let first = calls.iter().enumerate().fold(Reply::new(), |reply, (n, (name, arguments))| {
        reply.tool_call(format!("c{n}"), *name, arguments.to_string())
    });
    let server = server([first, Reply::new().text("done")]).await;
    let root = root.to_str().unwrap();
    let output = ask(&server, &["--json", "go", "--tool-root", root]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "a tool's error goes back to the model");
    let events = events(&stdout(&output));
    let told = told(&server);
    assert_eq!(told.len(), calls.len());
    let is_error = |n: usize| {
        let result = |e: &&Value| e["type"] == "tool_result" && e["id"] == format!("c{n}");
        !events.iter().find(result).unwrap()["error"].is_null()
    };
    told.into_iter().enumerate().map(|(n, content)| (is_error(n), content)).collect()
}

/// The tool messages of the second request.
fn told(server: &ProviderServer) -> Vec<String> {
    let request = server.requests()[1].json();
    let messages = request["messages"].as_array().unwrap().iter();
    let tool = messages.filter(|m| m["role"] == "tool");
    tool.map(|m| m["content"].as_str().unwrap().to_owned()).collect()
}

/// `root` with some files, and `outside` with a secret.
fn tree() -> (std::path::PathBuf, std::path::PathBuf) {
    let base = directory();
    let (root, outside) = (base.join("root"), base.join("outside"));
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret.txt"), "SECRET\n").unwrap();
    fs::write(root.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(root.join("sub/b.rs"), "fn two() {}\n").unwrap();
    fs::write(root.join("ignored.log"), "two\n").unwrap();
    fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    fs::write(root.join("data.bin"), b"two\0\xff").unwrap();
    (root, outside)
}

#[cfg(unix)]
#[test]
fn no_path_leads_out_of_the_root() {
    use std::os::unix::fs::symlink;
    run(async {
        let (root, outside) = tree();
        symlink(&outside, root.join("way-out")).unwrap();
        symlink(outside.join("secret.txt"), root.join("secret-link")).unwrap();
        symlink("../../outside/secret.txt", root.join("sub/relative-link")).unwrap();
        symlink("../outside/none", root.join("dangling")).unwrap();
        symlink("sub/../way-out", root.join("chain")).unwrap();
        symlink("round", root.join("round")).unwrap();
        symlink(root.join("sub"), root.join("in")).unwrap();
        // A sibling whose name begins like the root's.
        fs::create_dir_all(root.with_file_name("root-too")).unwrap();
        fs::write(root.with_file_name("root-too").join("s.txt"), "SECRET\n").unwrap();
        let absolute = outside.join("secret.txt");
        let paths = [
            "../outside/secret.txt",
            "sub/../../outside/secret.txt",
            "/etc/passwd",
            absolute.to_str().unwrap(),
            "way-out/secret.txt",
            "secret-link",
            "sub/relative-link",
            "../root-too/s.txt",
            "way-out/../a.txt/../../outside/secret.txt",
            // Whether it exists is nobody's business.
            "way-out/none.txt",
            "way-out/none/../secret.txt",
            "sub/../way-out/none.txt",
            "dangling",
            "dangling/none.txt",
            "chain/none.txt",
        ];
        let mut calls: Vec<_> = paths.iter().map(|path| ("read_file", json!({ "path": path }))).collect();
        calls.extend(["..", "/", "way-out", "sub/../.."].map(|path| ("list_dir", json!({ "path": path }))));
        calls.extend(
            ["..", "way-out", "secret-link"]
                .map(|path| ("search", json!({ "pattern": "SECRET", "path": path }))),
        );
        for ((is_error, content), call) in call(&root, &calls).await.iter().zip(&calls) {
            assert!(is_error, "{call:?}: {content}");
            assert!(content.contains("outside of the tool root"), "{call:?}: {content}");
        }
        let search = call(&root, &[("search", json!({ "pattern": "SECRET" }))]).await;
        assert!(search[0].1.starts_with("[no line matches"), "links are not followed: {search:?}");
        let inside = ["sub/../a.txt", "in/none", "round"].map(|path| ("read_file", json!({ "path": path })));
        let inside = call(&root, &inside).await;
        assert_eq!(inside[0], (false, "one\ntwo\nthree\n".to_owned()));
        assert_eq!(inside[1], (true, "\"in/none\" does not exist".to_owned()));
        assert!(inside[2].1.contains("cannot be read"), "{inside:?}");
    });
}

#[test]
fn files_are_read_listed_and_searched() {
    run(async {
        let (root, _) = tree();
        let told = call(
            &root,
            &[
                ("read_file", json!({ "path": "a.txt", "start_line": 2, "line_count": 1 })),
                ("list_dir", json!({})),
                ("search", json!({ "pattern": "t[wh]o?" })),
                (
                    "search",
                    json!({ "pattern": "TWO()", "literal": true, "ignore_case": true, "path": "sub" }),
                ),
                ("current_time", json!({})),
            ],
        )
        .await;
        assert!(told.iter().all(|(is_error, _)| !is_error), "{told:?}");
        assert_eq!(told[0].1, "two\n[lines 2 to 2 of 3; start_line 3 goes on]");
        assert_eq!(told[1].1, ".gitignore 6\na.txt 14\ndata.bin 5\nignored.log 4\nsub/\n");
        assert_eq!(told[2].1, "a.txt:2: two\na.txt:3: three\nsub/b.rs:1: fn two() {}");
        assert_eq!(told[3].1, "sub/b.rs:1: fn two() {}");
        let time: Value = serde_json::from_str(&told[4].1).unwrap();
        for field in ["utc", "local"] {
            assert!(time[field].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{time}");
        }
    });
}

/// What a walk may meet in place of a file of rules must neither hang nor fill the memory, and no rule from above the
/// root counts.
#[cfg(unix)]
#[test]
fn rules_come_from_short_regular_files_below_the_root() {
    use std::os::unix::fs::symlink;
    run(async {
        let (root, outside) = tree();
        fs::write(root.with_file_name(".gitignore"), "a.txt\n").unwrap();
        fs::write(outside.join("rules"), "a.txt\n").unwrap();
        let all = json!({ "pattern": "two" });
        let below = json!({ "pattern": "two", "path": "sub" });
        let told = call(&root, &[("search", all.clone())]).await;
        assert_eq!(told, [(false, "a.txt:2: two\nsub/b.rs:1: fn two() {}".to_owned())]);

        symlink("/dev/zero", root.join(".ignore")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(root.join("sub/.gitignore")).status();
        assert!(pipe.unwrap().success());
        symlink(outside.join("rules"), root.join("sub/.ignore")).unwrap();
        let told = call(&root, &[("search", all.clone()), ("search", below.clone())]).await;
        assert_eq!(told[0].1, "a.txt:2: two\nsub/b.rs:1: fn two() {}");
        assert_eq!(told[1].1, "sub/b.rs:1: fn two() {}");

        // The nearest rule decides, one above the start counts, and a file that is too long has no rules.
        fs::remove_file(root.join(".ignore")).unwrap();
        fs::remove_file(root.join("sub/.ignore")).unwrap();
        fs::write(root.join(".gitignore"), "*.log\n/sub/b.rs\nc.txt\ndeep/\n[\n").unwrap();
        fs::write(root.join("sub/.ignore"), "!c.txt\n").unwrap();
        fs::write(root.join("sub/c.txt"), "two\n").unwrap();
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::write(root.join("sub/deep/d.txt"), "two\n").unwrap();
        let deep = json!({ "pattern": "two", "path": "sub/deep" });
        let told = call(&root, &[("search", all.clone()), ("search", below), ("search", deep)]).await;
        assert_eq!(told[0].1, "a.txt:2: two\nsub/c.txt:1: two");
        assert_eq!(told[1].1, "sub/c.txt:1: two");
        assert_eq!(told[2].1, "sub/deep/d.txt:1: two", "who names a directory has it searched");
        fs::write(root.join(".gitignore"), "*.txt\n".repeat(20_000)).unwrap();
        let told = call(&root, &[("search", all)]).await;
        assert!(told[0].1.starts_with("a.txt:2: two\nignored.log:1: two\n"), "{told:?}");
    });
}

#[cfg(unix)]
#[test]
fn a_name_is_one_line_whatever_it_holds() {
    run(async {
        let root = directory();
        fs::write(root.join("a\nb\u{1b}[2J\u{202e}.txt"), "one\n").unwrap();
        let told = call(&root, &[("list_dir", json!({})), ("search", json!({ "pattern": "one" }))]).await;
        assert_eq!(told[0].1, "a\\nb\\u{1b}[2J\\u{202e}.txt 4\n");
        assert_eq!(told[1].1, "a\\nb\\u{1b}[2J\\u{202e}.txt:1: one");
    });
}

#[test]
fn what_cannot_be_done_is_said_in_words_the_model_can_act_on() {
    run(async {
        let (root, _) = tree();
        let big = fs::File::create(root.join("big.txt")).unwrap();
        big.set_len(9 << 20).unwrap();
        let cases = [
            ("read_file", json!({ "path": "none.txt" }), "does not exist"),
            ("read_file", json!({ "path": "sub" }), "list_dir lists it"),
            ("read_file", json!({ "path": "data.bin" }), "binary"),
            ("read_file", json!({ "path": "big.txt" }), "are not read"),
            ("read_file", json!({ "path": "a.txt", "start_line": 9 }), "has 3 lines"),
            ("read_file", json!({ "line_count": 1 }), "do not fit the schema"),
            ("read_file", json!({ "path": "a.txt", "lines": 1 }), "unknown field `lines`"),
            ("list_dir", json!({ "dir": "sub" }), "unknown field `dir`"),
            ("search", json!({ "pattern": "x", "regex": true }), "unknown field `regex`"),
            ("current_time", json!({ "zone": "UTC" }), "do not fit the schema"),
            ("list_dir", json!({ "path": "a.txt" }), "is not a directory"),
            ("search", json!({ "pattern": "(" }), "`literal`"),
            ("search", json!({ "pattern": "" }), "is empty"),
            ("format_disk", json!({}), "format_disk"),
        ];
        let calls: Vec<_> = cases.iter().map(|(tool, arguments, _)| (*tool, arguments.clone())).collect();
        for ((is_error, content), (tool, arguments, words)) in call(&root, &calls).await.iter().zip(&cases) {
            assert!(is_error, "{tool} {arguments}: {content}");
            assert!(content.contains(words), "{tool} {arguments}: {content}");
            assert!(
                !content.contains(root.to_str().unwrap()),
                "the root's own path is nobody's business: {content}"
            );
        }
    });
}

#[test]
fn what_comes_back_is_bounded() {
    run(async {
        let (root, _) = tree();
        fs::write(root.join("many.txt"), "needle\n".repeat(5000)).unwrap();
        fs::write(root.join("wide.txt"), "y".repeat(100_000)).unwrap();
        for n in 0..600 {
            fs::write(root.join(format!("sub/f{n}")), "").unwrap();
        }
        let told = call(
            &root,
            &[
                ("search", json!({ "pattern": "needle" })),
                ("read_file", json!({ "path": "wide.txt" })),
                ("list_dir", json!({ "path": "sub" })),
                ("search", json!({ "pattern": "yyy" })),
            ],
        )
        .await;
        assert!(told[0].1.ends_with("[100 lines shown, there may be more: narrow the search]"));
        assert!(told[1].1.ends_with("[line 1 of 1, cut: it has 100000 bytes]"), "{}", told[1].1.len());
        assert!(told[2].1.ends_with("[500 of 601 entries]"));
        assert!(told[3].1.len() < 300, "{}", told[3].1);
    });
}

#[test]
fn the_model_is_told_what_the_tools_take() {
    run(async {
        let server = server([Reply::new().text("ok")]).await;
        assert!(ask(&server, &["hi"]).output().await.unwrap().status.success());
        let request = server.requests()[0].json();
        let tools = request["tools"].as_array().unwrap();
        let tool = |name: &str| tools.iter().find(|t| t["function"]["name"] == name).unwrap();
        let names: Vec<_> = tools.iter().map(|t| t["function"]["name"].as_str().unwrap()).collect();
        let mut known = vec!["read_file", "list_dir", "search", "current_time", "write_file", "edit_file"];
        known.extend(cfg!(unix).then_some("shell"));
        assert_eq!(names, known);
        let parameters = &tool("read_file")["function"]["parameters"];
        assert_eq!(parameters["required"], json!(["path"]));
        assert!(parameters["properties"]["start_line"]["description"].is_string(), "{parameters}");
        assert_eq!(parameters["additionalProperties"], false);
        assert!(request["messages"][0]["content"].as_str().unwrap().contains("tool root"));
    });
}

/// Where nobody can be asked, the turn ends as suspended with its questions, and no body was entered.
#[test]
fn what_changes_something_waits_for_a_person() {
    run(async {
        let (root, _) = tree();
        let mut calls = vec![
            ("write_file", json!({ "path": "new.txt", "content": "x" })),
            ("edit_file", json!({ "path": "a.txt", "old_text": "one", "new_text": "1" })),
        ];
        calls.extend(cfg!(unix).then(|| ("shell", json!({ "command": "touch touched" }))));
        for (name, arguments) in &calls {
            let asks = Reply::new().text("I will.").tool_call("c1", *name, arguments.to_string());
            let harmless = asks.tool_call("c2", "read_file", r#"{"path":"a.txt"}"#);
            let server = server([harmless]).await;
            let args = ["--json", "go", "--tool-root", root.to_str().unwrap()];
            let output = ask(&server, &args).output().await.unwrap();
            assert_eq!(output.status.code(), Some(3), "{name}");
            let events = events(&stdout(&output));
            let end = events.last().unwrap();
            assert_eq!((&end["outcome"], &end["terminal"]), (&json!("suspended"), &json!(false)), "{name}");
            let pending = end["pending"].as_array().unwrap();
            assert_eq!(pending.len(), 1, "{name}: {end}");
            assert_eq!(pending[0]["call"]["name"], **name, "{end}");
            let shown: Value =
                serde_json::from_str(pending[0]["call"]["arguments"].as_str().unwrap()).unwrap();
            assert_eq!(&shown, arguments, "the question shows what would run");
            assert!(!events.iter().any(|e| e["type"] == "tool_result" && e["id"] == "c1"), "{name}");
            assert!(
                events.iter().any(|e| e["type"] == "tool_result" && e["id"] == "c2"),
                "others run: {name}"
            );
        }
        assert!(!root.join("new.txt").exists() && !root.join("touched").exists());
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    });
}
