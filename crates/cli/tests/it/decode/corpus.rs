//! Every recorded body of other projects, through the program, against what independent readers made of it.
//!
//! The bodies stand outside this repository: in the folder named by `TURNWRIGHT_CORPUS`, else in `shared/corpus` beside the
//! repository. Where they are missing the test says so and passes, except with `CI` set.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::lines;
use crate::support::{run, stderr, stdout, turnwright};

/// What the corpus calls a format, and what we do.
const FORMATS: [(&str, &str); 6] = [
    ("openai-chat", "openai"),
    ("openai-responses", "openai-responses"),
    ("anthropic", "anthropic"),
    ("gemini", "gemini"),
    ("ollama", "ollama"),
    ("bedrock-eventstream", "bedrock"),
];

/// Two answers in one stream, which we do not take for one.
const SPLICED: &str = "anthropic/vercel-spliced-message-start.sse";

fn corpus() -> Option<PathBuf> {
    let folder = match std::env::var_os("TURNWRIGHT_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    if folder.join("MANIFEST.jsonl").is_file() {
        return Some(folder);
    }
    let message = format!("no corpus at {}; set TURNWRIGHT_CORPUS to run this test", folder.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    // Not with `eprintln`, which the test harness swallows.
    let _ = writeln!(std::io::stderr(), "skipped: {message}");
    None
}

#[test]
fn every_recorded_body_decodes_to_what_an_independent_reader_found() {
    let Some(corpus) = corpus() else { return };
    let manifest = fs::read_to_string(corpus.join("MANIFEST.jsonl")).unwrap();
    let rows: Vec<Value> = manifest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    run(async {
        let checked = rows.iter().map(|row| check(&corpus, row));
        let checked: Vec<bool> = stream::iter(checked).buffer_unordered(4).collect().await;
        let count = checked.into_iter().filter(|checked| *checked).count();
        assert!(count >= 240, "{count} bodies");
    });
}

async fn check(corpus: &Path, row: &Value) -> bool {
    let name = row["path"].as_str().unwrap();
    let path = corpus.join(name);
    let format = FORMATS.into_iter().find(|(theirs, _)| row["wire_format"] == *theirs).map(|(_, ours)| ours);
    let status = row["http_status"].as_u64().unwrap().to_string();
    let assembled = async |args: &[&str]| {
        let mut command = turnwright(&["decode", "--assemble", "--http-status", &status]);
        command.args(args).arg(&path).output().await.unwrap()
    };
    let output = assembled(&[]).await;
    if row["wire_format"] == "error-body" {
        let answer = lines(&output).remove(0);
        assert_eq!(output.status.code(), Some(1), "{name}: {answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{name}");
        return true;
    }
    let Some(format) = format else {
        // It is told apart from those that are decoded.
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{name}");
        assert!(stderr(&output).contains("does not decode"), "{name}: {}", stderr(&output));
        return false;
    };
    let named = assembled(&["--format", format]).await;
    assert_eq!((named.status, stdout(&named)), (output.status, stdout(&output)), "{name}: the format");
    let expected = fs::read(corpus.join(row["expected"].as_str().unwrap())).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    if expected.get("payloads").is_some() {
        // Bedrock's other endpoint, which wraps what the vendors of the models speak: there is no answer of ours in it.
        assert_eq!(output.status.code(), Some(5), "{name}");
    } else if name != SPLICED {
        compare(name, &lines(&output)[0], output.status.code(), &expected);
    }

    let events = lines(&turnwright(&["decode"]).arg(&path).output().await.unwrap());
    let text =
        events.iter().filter(|event| event["type"] == "text_delta").map(|event| event["text"].as_str());
    assert_eq!(text.map(Option::unwrap).collect::<String>(), lines(&output)[0]["text"], "{name}");
    let is_end = |event: &Value| event["type"] == "finish" || event["type"] == "stream_failure";
    assert_eq!(events.iter().filter(|event| is_end(event)).count(), 1, "{name}");
    assert!(is_end(events.last().unwrap()), "{name}");
    true
}

fn compare(name: &str, ours: &Value, code: Option<i32>, theirs: &Value) {
    let words = |field: &str| theirs[field].as_str().unwrap_or_default();
    assert_eq!(ours["text"], format!("{}{}", words("text"), words("refusal")), "{name}");
    assert_eq!(ours["reasoning"], words("reasoning"), "{name}");

    let calls: Vec<Value> = ours["tool_calls"].as_array().unwrap().clone();
    let mut expected = theirs["tool_calls"].as_array().unwrap().clone();
    // Tools that a provider runs itself are none of ours.
    expected.retain(|call| call["kind"] != "server_tool_use");
    assert_eq!(calls.len(), expected.len(), "{name}: {calls:?}");
    for (call, expected) in calls.iter().zip(&expected) {
        assert_eq!(call["name"], expected["name"], "{name}");
        if !expected["id"].is_null() {
            assert_eq!(call["id"], expected["id"], "{name}");
        }
        match (expected.get("arguments_raw"), expected.get("input_text")) {
            (Some(raw), _) => assert_eq!(call["arguments_raw"], raw.as_str().unwrap_or_default(), "{name}"),
            (None, Some(text)) => assert_eq!(call["arguments"], json!({ "input": text }), "{name}"),
            (None, None) => assert_eq!(call["arguments"], expected["arguments"], "{name}"),
        }
    }

    let kind = ours["error"]["kind"].as_str();
    assert_eq!(ours["truncated"], kind == Some("truncated"), "{name}");
    let expected_code = match kind {
        None => 0,
        Some("truncated") => 5,
        Some(_) => 1,
    };
    assert_eq!(code, Some(expected_code), "{name}");
    if kind.is_none_or(|kind| kind == "truncated") {
        // Of an answer that is not whole a server may say twice why.
        let finish = theirs["incomplete_reason"].as_str().or(theirs["finish_reason"].as_str());
        assert_eq!(ours["raw_finish_reason"].as_str(), finish, "{name}");
        assert!(kind.is_none() || finish.is_none(), "{name}");
    }
    // The other reader does not know of the place where one provider put usage first.
    if !theirs["usage"].is_null() {
        assert_within(name, &theirs["usage"], &ours["raw_usage"]);
    }
}

/// Whatever the other reader found is there; it leaves out what it does not know.
fn assert_within(name: &str, theirs: &Value, ours: &Value) {
    match theirs {
        Value::Object(fields) => {
            let said = fields.iter().filter(|(_, value)| !value.is_null());
            said.for_each(|(field, value)| assert_within(&format!("{name}: {field}"), value, &ours[field]));
        }
        value => assert_eq!(value, ours, "{name}"),
    }
}
