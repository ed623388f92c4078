//! Any bytes to the framers: server-sent events, lines, and the elements of an array.

use serde_json::json;
use turnwright_core::ErrorKind;
use turnwright_llm_stream::{
    LlmEvent, StreamItem,
    sse::{Frame, SseFramer},
};

use super::{
    decode::{Format, check},
    dice,
};

#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Event(Vec<u8>, Vec<u8>),
    Bare(Vec<u8>),
}

/// So small a limit is reached by small inputs.
const LIMIT: usize = 48;

/// Frames are the same at any split, also where the limit ends them, and are those that the standard names.
pub(crate) fn sse(input: &[u8]) {
    for limit in [LIMIT, usize::MAX] {
        let whole = frames(limit, [input]);
        for salt in 0..2 {
            assert_eq!(frames(limit, dice::pieces(input, salt)), whole);
        }
        assert_eq!(frames(limit, input.chunks(1)), whole);
        for frame in &whole.0 {
            let (Owned::Event(_, data) | Owned::Bare(data)) = frame;
            assert!(data.len() <= limit);
        }
    }
    if let Some(expected) = by_the_standard(input) {
        assert_eq!(frames(usize::MAX, [input]), (expected, None));
    }
}

fn frames<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Owned>, Option<ErrorKind>) {
    let (mut framer, mut frames) = (SseFramer::with_limit(limit), Vec::new());
    let mut own = |frame: Frame<'_>| {
        frames.push(match frame {
            Frame::Event { name, data } => Owned::Event(name.to_vec(), data.to_vec()),
            Frame::Bare(bytes) => Owned::Bare(bytes.to_vec()),
        });
    };
    let fed = pieces.into_iter().try_for_each(|piece| framer.feed(piece, &mut own));
    let ended = fed.and_then(|()| framer.end(&mut own));
    (frames, ended.err().map(|error| error.kind))
}

/// The events as the standard finds them, line by line, but for the two things that we do otherwise: an error needs no
/// data, and the last event no blank line. Nothing where a line is no SSE, which the standard skips and we do not.
fn by_the_standard(input: &[u8]) -> Option<Vec<Owned>> {
    let input = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input);
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), None::<Vec<u8>>);
    let mut end = |name: &mut Vec<u8>, data: &mut Option<Vec<u8>>| {
        let (name, data) = (std::mem::take(name), data.take());
        if data.is_some() || name == b"error" {
            events.push(Owned::Event(name, data.unwrap_or_default()));
        }
    };
    for line in lines_of(input) {
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let unlike = line.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        match (unlike, field) {
            (None, _) if line.is_empty() => end(&mut name, &mut data),
            (Some(b'{' | b'[' | b'<'), _) => return None,
            (_, b"event") => name = value.to_vec(),
            (_, b"data") => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            _ => {}
        }
    }
    end(&mut name, &mut data);
    Some(events)
}

fn lines_of(mut input: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while !input.is_empty() {
        let end = input.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(input.len());
        let after = if input[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        lines.push(&input[..end]);
        input = input.get(after..).unwrap_or_default();
    }
    lines
}

/// Texts, each a line: what goes in comes out.
pub(crate) fn lines(input: &[u8]) {
    let mut body = Vec::new();
    let mut expected = String::new();
    for (at, text) in texts(input).enumerate() {
        let ends = ["\n", "\r\n", "\n\n", " \n", "\n\r\n"];
        let line = json!({ "message": { "content": text }, "done": false });
        body.extend(format!("{line}{}", ends[(at + text.len()) % ends.len()]).into_bytes());
        expected.push_str(&text);
    }
    let end = br#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#;
    body.extend_from_slice(end);
    assert_eq!(text_of(&check(Format::Ollama, &body)), expected);
}

/// Texts, each an element: what goes in comes out.
pub(crate) fn array(input: &[u8]) {
    let (mut body, mut expected) = ("[".to_owned(), String::new());
    for (at, text) in texts(input).enumerate() {
        let between = [",", ",\r\n", " ,\n ", "\t,"];
        let chunk = json!({ "candidates": [{ "content": { "parts": [{ "text": text }] } }] });
        body += &format!("{chunk}{}", between[(at + text.len()) % between.len()]);
        expected.push_str(&text);
    }
    body += r#"{"candidates":[{"finishReason":"STOP"}]} ]"#;
    assert_eq!(text_of(&check(Format::Gemini, body.as_bytes())), expected);
}

/// The input as texts: a byte that is in no text ends one.
fn texts(input: &[u8]) -> impl Iterator<Item = String> {
    input.split(|byte| *byte == 0xFF).map(|text| String::from_utf8_lossy(text).into_owned())
}

fn text_of(items: &[StreamItem]) -> String {
    let text = |item: &StreamItem| match item {
        StreamItem::Event(LlmEvent::TextDelta { text }) => text.clone(),
        StreamItem::Event(LlmEvent::StreamFailure(failure)) => panic!("{failure:?}"),
        _ => String::new(),
    };
    items.iter().map(text).collect()
}
