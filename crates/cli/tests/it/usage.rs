//! Options, environment and their mistakes.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, events, run, server, stderr, stdout, turnwright};

/// Arguments, variables, and what the message says.
type Mistake<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[test]
fn mistakes_exit_with_2_print_no_line_and_say_what_to_do() {
    run(async {
        let set: &[(&str, &str)] = &[("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"), ("TURNWRIGHT_MODEL", "m")];
        let cases: &[Mistake<'_>] = &[
            (&["run", "hi"], &[], "no provider is configured"),
            (&["run", "hi"], &[("OPENAI_API_KEY", " ")], "no provider is configured"),
            (&["run", "hi"], &[("OPENAI_API_KEY", "k")], "--model NAME or set TURNWRIGHT_MODEL"),
            (&["run", "hi", "--model", " "], set, "no model is named"),
            (&["run", "hi", "--base-url", "nope"], set, "the base URL has no scheme"),
            (
                &["run", "hi", "--provider", "other"],
                set,
                "[possible values: openai, openai-responses, anthropic, gemini, ollama, bedrock]",
            ),
            (
                &["run", "hi", "--provider", "bedrock"],
                &[("AWS_BEARER_TOKEN_BEDROCK", "k"), ("TURNWRIGHT_MODEL", "m")],
                "there is no base URL; set AWS_REGION",
            ),
            (&["run", "hi", "--replay", "dir"], set, "dir cannot be replayed"),
            (&["run", "hi", "--replay", "dir", "--record", "other"], set, "cannot be used with '--record"),
            (&["run", "hi", "--record", "/dev/null/x"], set, "/dev/null/x cannot be recorded into"),
            (&["decode", "none.sse"], set, "none.sse cannot be read"),
            (&["decode", "."], set, ". is a directory"),
            (&["decode", "--format", "x"], set, "[possible values: openai, openai-responses, anthropic"),
            (&["decode", "--http-status", "20"], set, "--http-status"),
            (&["run", "hi", "--session", "a b"], set, "is not allowed"),
            (&["run", "hi", "--tool-root", "none"], set, "the tool root none cannot be used"),
            (&["run", "hi", "--max-iterations", "0"], set, "--max-iterations"),
            (&["run", "hi", "--deadline", "0"], set, "give more than no time"),
            (&["run", "hi", "--deadline", "1e12"], set, "give at most"),
            (&["run", " "], set, "the prompt is empty"),
            (&["run", "-"], set, "the prompt is empty"),
            (&["run"], set, "<PROMPT>"),
            (&["fly"], set, "unrecognized subcommand 'fly'"),
            (&[], set, "a command is needed"),
            (&["--color", "pink"], &[], "[possible values: auto, always, never]"),
        ];
        for (args, vars, words) in cases {
            for json in [false, true] {
                let mut command = turnwright(if json { &["--json"] } else { &[] });
                command.args(*args).envs(vars.iter().copied()).current_dir(directory());
                let output = command.output().await.unwrap();
                let notes = stderr(&output);
                assert_eq!(
                    (output.status.code(), stdout(&output).as_str()),
                    (Some(2), ""),
                    "{args:?}: {notes}"
                );
                assert!(notes.starts_with("error: ") && notes.contains(words), "{args:?}: {notes}");
                assert!(!notes.contains('\x1b'), "{notes:?}");
            }
        }
    });
}

#[test]
fn what_a_user_gave_cannot_steer_the_terminal() {
    run(async {
        let root = "\u{1b}[2J\u{202e}";
        let mut command = turnwright(&["run", "hi", "--model", "m", "--tool-root", root]);
        let output = command.env("OPENAI_API_KEY", "k").output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{notes:?}");
        assert!(notes.starts_with("error: the tool root \\u{1b}[2J\\u{202e} cannot be used"), "{notes:?}");
    });
}

#[test]
fn help_names_exit_codes_and_environment() {
    run(async {
        let commands = ["run", "chat", "plan", "doctor"].map(|command| [command, "--help"]);
        let commands = commands.iter().map(|args| &args[..]);
        for args in [&["--help"][..], &["-h"]].into_iter().chain(commands) {
            let mut command = turnwright(args);
            command.env("OPENAI_API_KEY", "sk-0123").env("TURNWRIGHT_BASE_URL", "http://me:sk-0123@h/v1");
            let output = command.output().await.unwrap();
            let help = stdout(&output);
            assert_eq!(output.status.code(), Some(0));
            for word in
                ["Exit codes:", "130", "OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_COLOR", "TURNWRIGHT_JSON"]
            {
                assert!(help.contains(word), "{args:?} does not name {word}:\n{help}");
            }
            assert!(!help.contains('\x1b') && !help.contains("sk-0123"), "{help:?}");
        }
        let version = stdout(&turnwright(&["--version"]).output().await.unwrap());
        assert_eq!(version, concat!("turnwright ", env!("CARGO_PKG_VERSION"), "\n"));
    });
}

#[test]
fn a_prompt_may_come_from_standard_input() {
    run(async {
        let server = server([Reply::new().text("ok")]).await;
        let mut child = ask(&server, &["-"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all("first line\nsécond line\n".as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "ok\n"));
        let messages = &server.requests()[0].json()["messages"];
        assert_eq!(messages.as_array().unwrap().last().unwrap()["content"], "first line\nsécond line\n");
    });
}

#[test]
fn options_may_come_from_the_environment_and_the_command_line_wins() {
    run(async {
        let server = server([Reply::new().text("a"), Reply::new().text("b")]).await;
        let mut command = ask(&server, &["hi"]);
        command.env("TURNWRIGHT_JSON", "1").env("TURNWRIGHT_SESSION", "chat-7");
        let seen = events(&stdout(&command.output().await.unwrap()));
        assert_eq!(seen[0]["session"], "chat-7");
        assert_eq!(server.requests()[0].json()["model"], "m");

        command.args(["--session", "chat-8", "--model", "other"]);
        let seen = events(&stdout(&command.output().await.unwrap()));
        assert_eq!(seen[0]["session"], "chat-8");
        assert_eq!(server.requests()[1].json()["model"], "other");
        assert!(server.requests()[0].header("authorization").is_none(), "a local server needs no key");
    });
}

#[test]
fn a_proxy_that_is_none_is_not_passed_over() {
    run(async {
        for (name, value, base_url) in [
            ("HTTPS_PROXY", "garbage://me:hush@proxy:1", "https://far.invalid/v1"),
            ("http_proxy", "http://[", "http://far.invalid/v1"),
            ("ALL_PROXY", " http://proxy:1", "https://far.invalid/v1"),
        ] {
            let mut command = turnwright(&["run", "hi", "--model", "m", "--base-url", base_url]);
            let output = command.env(name, value).output().await.unwrap();
            let notes = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{notes}");
            assert!(notes.contains(name) && !notes.contains("hush"), "{notes}");
        }
        // A server of this machine is asked directly, whatever is set.
        for host in ["127.0.0.1", "0.0.0.0"] {
            let server = server([Reply::new().text("ok")]).await;
            let base_url = server.base_url().replace("127.0.0.1", host);
            let mut command = ask(&server, &["hi", "--base-url", &base_url]);
            let output = command.env("ALL_PROXY", "http://127.0.0.1:9").output().await.unwrap();
            assert_eq!(stdout(&output), "ok\n", "{}", stderr(&output));
        }
    });
}

#[cfg(unix)]
#[test]
fn a_base_url_that_is_no_text_does_not_send_the_key_to_another_server() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    run(async {
        let mut command = turnwright(&["run", "hi", "--model", "m"]);
        command.env("OPENAI_API_KEY", "sk-0123456789").env("ALL_PROXY", "http://127.0.0.1:9");
        command.env("OPENAI_BASE_URL", OsStr::from_bytes(b"http://h\xff/v1"));
        let output = command.output().await.unwrap();
        let notes = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{notes}");
        assert!(notes.contains("base URL is not valid"), "{notes}");
    });
}
