//! `doctor`: what is there, what is missing, and no secret.

use serde_json::Value;

use crate::support::{directory, run, server, stderr, stdout, turnwright};

/// The status and the detail of a check.
fn check<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let checks = report["checks"].as_array().unwrap();
    let check =
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
    (check["status"].as_str().unwrap(), check["detail"].as_str().unwrap())
}

#[test]
fn with_everything_a_turn_needs_it_is_well_and_shows_no_secret() {
    run(async {
        let server = server([]).await;
        for json in [false, true] {
            let mut command = turnwright(&["doctor", "--model", "m"]);
            command.args(json.then_some("--json")).current_dir(directory());
            command.env("OPENAI_API_KEY", "sk-0123456789").env("OPENAI_BASE_URL", server.base_url());
            command.env("ANTHROPIC_API_KEY", "ak-0123456789").env("GEMINI_API_KEY", "gk-0123456789");
            command.env("OLLAMA_HOST", "http://me:pw-0123456789@h:1");
            let output = command.output().await.unwrap();
            let text = stdout(&output);
            assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{text}");
            assert!(!text.contains("0123456789"), "{text}");
            if !json {
                assert!(text.ends_with("\na turn could run\n"), "{text}");
                assert!(text.contains(&format!("http://{} answers\n", server.address())), "{text}");
                continue;
            }
            let report: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((text.lines().count(), &report["ok"]), (1, &Value::Bool(true)));
            assert_eq!(check(&report, "OPENAI_API_KEY"), ("ok", "set"));
            let (status, detail) = check(&report, "base URL");
            assert!(status == "ok" && detail.ends_with(" answers"), "{detail}");
            for name in ["ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
                assert_eq!(check(&report, name), ("ok", "set"));
            }
            assert_eq!(check(&report, "panics").0, "ok");
            assert_eq!(check(&report, "standard output"), ("missing", "not a terminal"));
            assert_eq!(check(&report, "colour"), ("ok", "off: standard output is not a terminal"));
            assert_eq!(check(&report, "tool root"), ("ok", ". can be read and written"));
            for name in ["Ollama", "llama.cpp", "LM Studio", "vLLM", "turnwright", "model", "line editor"] {
                check(&report, name);
            }
        }
    });
}

#[test]
fn what_run_refuses_is_a_problem() {
    run(async {
        let mut command = turnwright(&["doctor", "--json", "--model", "m", "--allow", "all"]);
        command.env("OPENAI_API_KEY", "sk-\n0123456789").current_dir(directory());
        let output = command.output().await.unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!text.contains("0123456789"), "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(check(&report, "OPENAI_API_KEY").0, "problem");
        let allow = "--allow: \"all\" is no tool that is asked about";
        assert_eq!(check(&report, "approvals"), ("problem", allow));
    });
}

#[test]
fn behind_a_proxy_a_server_is_not_tried() {
    run(async {
        let args = ["doctor", "--json", "--model", "m", "--base-url", "https://models.invalid/secret/v1"];
        let mut command = turnwright(&args);
        command.env("HTTPS_PROXY", "http://me:secret@127.0.0.1:9").current_dir(directory());
        let output = command.output().await.unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let words = "https://models.invalid, not tried: a proxy is configured";
        assert_eq!(check(&report, "base URL"), ("ok", words));
    });
}

/// Arguments, variables, the check that fails, and words of its hint.
type Problem<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str, &'a str);

#[test]
fn what_keeps_a_turn_from_running_is_a_problem_with_a_hint() {
    run(async {
        let gone = {
            let server = server([]).await;
            server.base_url()
        };
        let cases: [Problem<'_>; 8] = [
            (&["--model", "m"], &[], "OPENAI_API_KEY", "set OPENAI_API_KEY, or"),
            (&[], &[("OPENAI_API_KEY", "k")], "model", "add --model NAME"),
            (&["--model", "m", "--api-key-file", "none"], &[], "API key", "point --api-key-file"),
            (&["--model", "m", "--api-key-file", "."], &[], "API key", "point --api-key-file"),
            (&["--model", "m", "--base-url", &gone], &[], "base URL", "is a server running there?"),
            (&["--model", "m", "--base-url", "http://me:secret@h/"], &[], "base URL", "check --base-url"),
            (&["--model", "m", "--base-url", "http://h/?key=secret"], &[], "base URL", "check --base-url"),
            (
                &["--model", "m", "--tool-root", "none"],
                &[("OPENAI_API_KEY", "k")],
                "tool root",
                "point --tool-root",
            ),
        ];
        for (args, variables, name, hint) in cases {
            let mut command = turnwright(&["doctor", "--json"]);
            command.args(args).envs(variables.iter().copied()).current_dir(directory());
            let output = command.output().await.unwrap();
            let text = stdout(&output);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
            assert!(!text.contains("secret"), "{text}");
            let report: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(report["ok"], false);
            let checks = report["checks"].as_array().unwrap();
            let problems: Vec<_> = checks.iter().filter(|check| check["status"] == "problem").collect();
            let has = |name: &str, hint: &str| {
                problems
                    .iter()
                    .any(|check| check["name"] == name && check["hint"].as_str().unwrap().contains(hint))
            };
            assert!(has(name, hint), "{args:?}: {text}");
        }
    });
}
