//! What people see.

use turnwright_testkit::provider::{Fault, Reply};

use crate::support::{ask, directory, run, server, stderr, stdout};

fn script() -> [Reply; 2] {
    let first = Reply::new().reasoning("hm, ").reasoning("files").text("Let me look.");
    let first = first.tool_call("c1", "list_dir", "{}").tool_call("c2", "read_file", r#"{"path":"none"}"#);
    [first, Reply::new().text("It is ").text("empty.")]
}

#[test]
fn the_answer_goes_to_standard_output_and_the_rest_to_standard_error() {
    run(async {
        let server = server(script()).await;
        let output = ask(&server, &["what is here?"]).current_dir(directory()).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stdout(&output), "Let me look.\nIt is empty.\n");
        let notes = stderr(&output);
        let mut lines = notes.lines();
        let mut next = || lines.next().unwrap_or_default();
        assert_eq!(next(), "thought: 9 characters");
        assert_eq!(next(), "→ list_dir {}");
        assert_eq!(next(), r#"→ read_file {"path":"none"}"#);
        let mut results = [next(), next()];
        results.sort_unstable();
        assert!(results[0].starts_with("← list_dir "), "{notes}");
        assert!(results[0].ends_with(" ms: [the directory is empty]"), "{notes}");
        assert!(results[1].starts_with("← read_file failed "), "{notes}");
        assert!(results[1].ends_with(r#" ms: "none" does not exist"#), "{notes}");
        assert!(next().starts_with("20 tokens in, 10 out, 2 model calls, "), "{notes}");
        assert_eq!(next(), "");
    });
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    run(async {
        let has_escapes = async |args: &[&str], no_color: &str| {
            let server = server(script()).await;
            let mut command = ask(&server, &["hi"]);
            command.args(args).current_dir(directory()).env("TERM", "xterm").env("NO_COLOR", no_color);
            let output = command.output().await.unwrap();
            assert_eq!(output.status.code(), Some(0));
            assert!(!stdout(&output).contains('\x1b'), "the answer stays as it is");
            stderr(&output).contains('\x1b')
        };
        assert!(!has_escapes(&[], "").await);
        assert!(!has_escapes(&[], "1").await);
        assert!(!has_escapes(&["--color", "never"], "").await);
        assert!(has_escapes(&["--color", "always"], "1").await, "who asks by option gets it");
    });
}

#[test]
fn a_failed_turn_is_one_line_and_a_hint() {
    run(async {
        let server = server([Reply::new().fault(Fault::JsonErrorWithOk)]).await;
        let output = ask(&server, &["hi"]).env("OPENAI_API_KEY", "sk-0123456789").output().await.unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
        let notes = stderr(&output);
        let mut lines = notes.lines();
        assert!(lines.next().unwrap().starts_with("error: openai: no such key"), "{notes}");
        assert_eq!(lines.next(), Some("hint: check the key; `turnwright doctor` says which is used"));
        assert!(!notes.contains("sk-0123456789"));
        assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-0123456789"));
    });
}

#[test]
fn what_a_model_writes_cannot_steer_the_notes() {
    run(async {
        let call = Reply::new().tool_call("c", "read_file", "{\"path\":\"\\u001b[2J\"}");
        let server = server([call, Reply::new().text("ok")]).await;
        let output = ask(&server, &["hi"]).output().await.unwrap();
        assert!(!stderr(&output).contains('\x1b'), "{:?}", stderr(&output));
    });
}

#[test]
fn what_a_known_model_costs_is_said_and_of_another_nothing() {
    run(async {
        for (model, says) in [("gpt-4o-mini", true), ("m", false)] {
            let server = server([Reply::new().text("Hello.").usage(1_000, 100)]).await;
            let output = ask(&server, &["hi", "--model", model]).output().await.unwrap();
            assert_eq!(stderr(&output).contains(", about $0.00021"), says, "{}", stderr(&output));
        }
    });
}
