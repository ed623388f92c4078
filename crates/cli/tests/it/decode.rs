//! `decode`: bodies as events and as answers.

mod corpus;

use std::process::Output;

use serde_json::{Value, json};

use crate::support::{directory, feed, run, stderr, stdout, turnwright};

const CHAT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"t\",",
    "\"arguments\":\"{\\\"a\\\":1\"}}]}}]}\n\n",
);

const END: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],",
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"x\":1}}\n\n",
    "data: [DONE]\n\n",
);

async fn decode(args: &[&str], body: impl AsRef<[u8]>) -> Output {
    feed(turnwright(&["decode"]).args(args), body).await
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn events_are_lines_and_an_answer_is_one_object() {
    run(async {
        let body = format!("{CHAT}{END}");
        for args in [
            &[][..],
            &["-"],
            &["--format", "openai"],
            &["--format", "openai-chat"],
            &["-", "--http-status", "200", "--json"],
        ] {
            let output = decode(args, &body).await;
            assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
            let kinds: Vec<Value> = lines(&output).into_iter().map(|line| line["type"].clone()).collect();
            assert_eq!(kinds, ["text_delta", "usage_snapshot", "tool_call_complete", "finish"], "{args:?}");
        }
        let output = decode(&["--assemble"], &body).await;
        assert_eq!(
            lines(&output),
            [json!({
                "text": "Hi", "reasoning": "",
                "tool_calls": [{ "id": "c", "name": "t", "arguments": { "a": 1 } }],
                "finish_reason": "tool_calls", "raw_finish_reason": "tool_calls",
                "usage": { "input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": null,
                    "cache_creation_input_tokens": null, "reasoning_tokens": null, "partial": false },
                "raw_usage": { "prompt_tokens": 3, "completion_tokens": 2, "x": 1 },
                "error": null, "truncated": false,
            })]
        );
    });
}

#[test]
fn what_is_cut_is_truncated_and_keeps_what_came() {
    run(async {
        let output = decode(&["--assemble"], CHAT).await;
        let answer = lines(&output).remove(0);
        assert_eq!(output.status.code(), Some(5), "{answer}");
        assert_eq!((&answer["text"], &answer["truncated"]), (&json!("Hi"), &json!(true)));
        assert_eq!((&answer["finish_reason"], &answer["error"]["kind"]), (&Value::Null, &json!("truncated")));
        assert_eq!(answer["error"]["retryable"], true);
        assert_eq!(answer["tool_calls"], json!([{ "id": "c", "name": "t", "arguments_raw": "{\"a\":1" }]));
        let output = decode(&[], "").await;
        assert_eq!(
            (output.status.code(), &lines(&output)[0]["error"]["kind"]),
            (Some(5), &json!("truncated"))
        );
    });
}

#[test]
fn a_failure_on_the_wire_is_classified_with_its_status() {
    run(async {
        let error = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
        let output = decode(&["--http-status", "429", "--assemble"], error).await;
        let answer = lines(&output).remove(0);
        assert_eq!(output.status.code(), Some(1), "{answer}");
        let expected = json!({ "kind": "rate_limited", "message": "slow down", "code": "rate_limit_exceeded", "retryable": true });
        assert_eq!((&answer["error"], &answer["truncated"]), (&expected, &json!(false)));
        let output = decode(&["--http-status", "404", "--format", "gemini"], "no such thing").await;
        let line = lines(&output).remove(0);
        assert_eq!((&line["type"], &line["error"]["kind"]), (&json!("stream_failure"), &json!("not_found")));
        assert_eq!(
            (&line["error"]["provider"], &line["error"]["status"]),
            (&json!("gcp.gemini"), &json!(404))
        );
        // In the stream, and in its place.
        for body in [format!("{CHAT}data: {error}\n\n"), error.to_owned(), "<html>".to_owned()] {
            let output = decode(&[], &body).await;
            assert_eq!(output.status.code(), Some(1), "{body}");
            assert_eq!(lines(&output).pop().unwrap()["type"], "stream_failure", "{body}");
        }
    });
}

#[test]
fn what_cannot_be_told_prints_no_line() {
    run(async {
        for (body, words) in [
            ("hello", "cannot be told from what it holds\nhint: name the format with --format"),
            (
                "data: {\"object\":\"text_completion\",\"choices\":[]}\n\n",
                "a legacy completion, which this version does not",
            ),
        ] {
            let output = decode(&[], body).await;
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
            assert!(stderr(&output).contains(words), "{}", stderr(&output));
        }
        // A file that is named as a recording is, and is none, is a body like any other.
        let place = directory();
        std::fs::write(place.join("0001.json"), r#"{"error":{"message":"m"}}"#).unwrap();
        let output =
            turnwright(&["decode", "0001.json", "--http-status", "500"]).current_dir(&place).output().await;
        assert_eq!(output.unwrap().status.code(), Some(1));
        std::fs::write(place.join("0002.json"), r#"{"turnwright_recording":9}"#).unwrap();
        let output = turnwright(&["decode", "0002.json"]).current_dir(&place).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("is of version 9"), "{}", stderr(&output));
    });
}

#[test]
fn a_long_stream_goes_through_and_a_reader_who_leaves_ends_it() {
    run(async {
        let event = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
            "x".repeat(1000)
        );
        let body = event.repeat(20_000) + END;
        let output = decode(&["--assemble"], &body).await;
        assert_eq!(lines(&output)[0]["text"].as_str().unwrap().len(), 20_000_000);

        let mut child = turnwright(&["decode"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stdin = child.stdin.take().unwrap();
        // It may be gone before it has read everything.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, body.as_bytes()).await;
        drop(stdin);
        assert_eq!(child.wait().await.unwrap().code(), Some(130));
    });
}
