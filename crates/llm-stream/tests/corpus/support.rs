//! Finding the recordings, decoding them in pieces, and what is checked alike in every format.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use turnwright_core::{ErrorKind, RandomSource, clock::SeededRandom};
use turnwright_llm_stream::{Assembler, LlmResponse, StreamItem, ToolProgress, wire::WireDecoder};

/// The recordings; none where they are missing, which is said.
pub(crate) fn corpus() -> Option<PathBuf> {
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

/// The rows of one wire format.
pub(crate) fn rows(corpus: &Path, wire_format: &str) -> Vec<Value> {
    let manifest = fs::read_to_string(corpus.join("MANIFEST.jsonl")).unwrap();
    let rows = manifest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["wire_format"] == wire_format).collect();
    assert!(!rows.is_empty(), "no row of {wire_format}");
    rows
}

/// A recorded stream, and what an independent reader made of it.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Value,
}

/// The recorded streams of one wire format; none where the recordings are missing.
pub(crate) fn recorded(wire_format: &str) -> Vec<Recorded> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let with_expected = |row: Value| {
        let expected = corpus.join(row["expected"].as_str()?);
        let name = row["path"].as_str().unwrap().to_owned();
        let expected = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
        Some(Recorded { body: fs::read(corpus.join(&name)).unwrap(), name, expected })
    };
    rows(&corpus, wire_format).into_iter().filter_map(with_expected).collect()
}

/// Decodes the body whole, one byte at a time and at random splits: the items must be equal.
pub(crate) fn decode<D: WireDecoder>(recorded: &Recorded, new: impl Fn() -> D) -> Vec<StreamItem> {
    let Recorded { name, body, .. } = recorded;
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut out) = (new(), Vec::new());
        pieces.for_each(|piece| decoder.feed(piece, &mut out));
        decoder.end(&mut out);
        assert!(decoder.is_done(), "{name}");
        out
    };
    let whole = decode(&mut [&body[..]].into_iter());
    assert!(decode(&mut body.chunks(1)) == whole, "{name}: one byte at a time");
    let random = SeededRandom::new(1);
    for _ in 0..20 {
        let at = usize::try_from(random.next_u64()).unwrap() % (body.len() + 1);
        let (a, b) = body.split_at(at);
        assert!(decode(&mut [a, b].into_iter()) == whole, "{name}: split at {at}");
    }
    whole
}

/// Puts the events together; there is one terminal event, and it is the last.
pub(crate) fn assemble(name: &str, items: &[StreamItem]) -> LlmResponse {
    let mut assembler = Assembler::new();
    let mut terminals = 0;
    for item in items {
        assert_eq!(terminals, 0, "{name}: nothing follows the terminal event");
        if let StreamItem::Event(event) = item {
            terminals += usize::from(event.is_terminal());
            assembler.feed(event.clone());
        }
    }
    assert_eq!(terminals, 1, "{name}");
    assembler.finish()
}

/// How it ended: cut where the recording was cut, else whole.
pub(crate) fn check_end(name: &str, response: &LlmResponse, cut: bool) {
    if cut {
        let kind = response.error.as_ref().map(|e| e.kind);
        assert_eq!(kind, Some(ErrorKind::Truncated), "{name}");
    } else {
        assert_eq!(response.error, None, "{name}");
        assert!(response.finish_reason.is_some(), "{name}");
    }
}

/// The calls, in the events and on the progress lane; of a cut answer those that began.
pub(crate) fn check_calls(
    name: &str,
    items: &[StreamItem],
    response: &LlmResponse,
    expected: &Value,
    cut: bool,
) {
    let complete = response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone()));
    let mut complete: Vec<_> = complete.collect();
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                let call = shown.iter_mut().find(|(shown, ..)| *shown == id.to_string());
                call.unwrap_or_else(|| panic!("{name}: {id} before its start")).2.push_str(fragment);
            }
            _ => {}
        }
    }
    if cut {
        assert!(complete.is_empty(), "{name}: a cut call is not complete");
        complete = shown;
    } else {
        complete.sort();
        shown.sort();
        assert_eq!(complete, shown, "{name}: the progress lane");
        complete =
            response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone())).collect();
    }
    let calls = expected["tool_calls"].as_array().unwrap();
    assert_eq!(complete.len(), calls.len(), "{name}: {complete:?}");
    for ((id, tool, arguments), call) in complete.iter().zip(calls) {
        assert_eq!(
            (Some(tool.as_str()), Some(id.as_str())),
            (call["name"].as_str(), call["id"].as_str()),
            "{name}"
        );
        match (call.get("arguments_raw"), call.get("input_text")) {
            (Some(raw), _) => assert_eq!(raw.as_str().unwrap_or_default(), arguments, "{name}"),
            // A call with free text is one with a single argument.
            (None, Some(text)) => {
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                assert_eq!(arguments, serde_json::json!({ "input": text }), "{name}");
            }
            (None, None) => {
                assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), call["arguments"], "{name}");
            }
        }
    }
}
