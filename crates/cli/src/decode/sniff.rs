//! Which format a body has, from what stands in it.

use serde_json::{Map, Value};
use turnwright::llm_stream::sse::{Frame, MAX_EVENT_BYTES, SseFramer};

use crate::Refusal;

/// A format's name, or nothing yet; or why none can be told.
type Found = Result<Option<&'static str>, Refusal>;

/// Looks at the first events until one of them says what it is. Keeps what it saw, 16 MiB at most.
#[derive(Default)]
pub(super) struct Sniffer {
    seen: Vec<u8>,
    framer: SseFramer,
    /// What an event may be, unless a later one says what it is.
    guess: Option<&'static str>,
}

impl Sniffer {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Found {
        let is_first = self.seen.is_empty();
        self.seen.extend_from_slice(bytes);
        match self.seen.trim_ascii_start().first() {
            // No text begins so, and each binary message with its length.
            Some(0) if is_first => return Ok(Some("bedrock")),
            // One array of all events, whose end may be far.
            Some(b'[') => return Ok(Some("gemini")),
            _ => {}
        }
        let mut found = None;
        let fed = self.framer.feed(bytes, |frame| look(frame, &mut found, &mut self.guess));
        match fed {
            _ if found.is_some() => decided(found),
            Ok(()) if self.seen.len() <= MAX_EVENT_BYTES => Ok(None),
            _ => Err(unknown("which format this is cannot be told from its first 16 MiB")),
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) -> Found {
        let mut found = None;
        // What is too long was found to be so before.
        let _ = self.framer.end(|frame| look(frame, &mut found, &mut self.guess));
        let found = found.or(self.guess).or_else(|| cut(&self.seen));
        // Of nothing at all every decoder makes the same: a truncated answer.
        let is_nothing = || self.seen.trim_ascii().is_empty().then_some("openai");
        match found.or_else(is_nothing) {
            Some(name) => decided(Some(name)),
            None => Err(unknown("which format this is cannot be told from what it holds")),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.seen
    }
}

fn unknown(why: &str) -> Refusal {
    Refusal::new(why).hint("name the format with --format, or an error's status with --http-status")
}

/// Marks of formats that are told apart so that they are not taken for one that is decoded.
const OTHERS: [(&str, &str); 2] =
    [("cohere", "this looks like Cohere's format"), ("completions", "this looks like a legacy completion")];

fn decided(found: Option<&'static str>) -> Found {
    match OTHERS.into_iter().find(|(name, _)| found == Some(name)) {
        Some((_, words)) => Err(Refusal::new(format!("{words}, which this version does not decode"))),
        None => Ok(found),
    }
}

fn look(frame: Frame<'_>, found: &mut Option<&'static str>, guess: &mut Option<&'static str>) {
    let (Frame::Event { data: bytes, .. } | Frame::Bare(bytes)) = frame;
    if found.is_some() {
        return;
    }
    if bytes.trim_ascii_start().starts_with(b"<") {
        // Every decoder says of a page that it is one.
        guess.get_or_insert("openai");
    }
    let Ok(Value::Object(event)) = serde_json::from_slice(bytes) else { return };
    *found = of_event(&event);
    if found.is_none() && ["error", "message", "detail"].iter().any(|name| event.contains_key(*name)) {
        guess.get_or_insert("openai");
    }
}

fn of_event(event: &Map<String, Value>) -> Option<&'static str> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let has = |name: &str| event.contains_key(name);
    if ["candidates", "usageMetadata", "promptFeedback"].into_iter().any(has) {
        return Some("gemini");
    }
    match text("type") {
        "error" if event.get("error").is_some_and(Value::is_object) => return Some("anthropic"),
        "error" if has("sequence_number") || has("code") => return Some("openai-responses"),
        kind if kind.starts_with("response.") => return Some("openai-responses"),
        "message_start"
        | "content_block_start"
        | "content_block_delta"
        | "content_block_stop"
        | "message_delta"
        | "message_stop"
        | "ping"
        | "message" => return Some("anthropic"),
        "message-start" | "content-start" | "content-delta" | "message-end" => return Some("cohere"),
        _ => {}
    }
    if has("event_type") && has("is_finished") {
        return Some("cohere");
    }
    match text("object") {
        "response" => return Some("openai-responses"),
        "text_completion" => return Some("completions"),
        _ if has("choices") => return Some("openai"),
        object if object.starts_with("chat.completion") => return Some("openai"),
        _ => {}
    }
    let is_line = has("done") || has("created_at") && (has("message") || has("response"));
    is_line.then_some("ollama")
}

/// The format of a body that was cut in its first event, by names that only one format has.
fn cut(body: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(&body[..body.len().min(64 * 1024)]);
    let has = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    if has(&["\"response.created\"", "\"response.in_progress\"", "event: response."]) {
        Some("openai-responses")
    } else if has(&["\"message_start\"", "event: message_start"]) {
        Some("anthropic")
    } else if has(&["\"candidates\"", "\"usageMetadata\"", "\"promptFeedback\""]) {
        Some("gemini")
    } else if has(&["\"chat.completion.chunk\"", "\"choices\"", "\"delta\""]) {
        Some("openai")
    } else if has(&["\"created_at\"", "\"done\""]) {
        Some("ollama")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniff(body: &[u8], piece: usize) -> Found {
        let mut sniffer = Sniffer::default();
        for bytes in body.chunks(piece) {
            match sniffer.feed(bytes) {
                Ok(None) => {}
                found => return found,
            }
        }
        sniffer.end()
    }

    #[test]
    fn each_format_is_known_by_its_events() {
        for (body, name) in [
            ("data: {\"choices\":[]}\n\n", "openai"),
            (": hello\n\n\ndata: {\"id\":\"x\",\ndata: \"choices\":[]}\n\n", "openai"),
            ("{\n \"object\": \"chat.completion\",\n \"choices\": []\n}", "openai"),
            ("event: ping\ndata: {\"type\":\"ping\"}\n\n", "anthropic"),
            ("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"m\"}}\n\n", "anthropic"),
            ("data: {\"type\":\"response.created\"}\n\n", "openai-responses"),
            ("data: {\"type\":\"error\",\"code\":\"c\",\"message\":\"m\"}\n\n", "openai-responses"),
            ("{\"object\":\"response\",\"output\":[]}", "openai-responses"),
            ("\u{feff}data: {\"candidates\": []}\r\n\r\n", "gemini"),
            (" [{\"candidates\": []}", "gemini"),
            ("{\"model\":\"m\",\"created_at\":\"t\",\"message\":{},\"done\":false}\n", "ollama"),
            ("data: {\"error\":{\"message\":\"m\"}}\n\n", "openai"),
            ("data: {\"error\":{}}\n\ndata: {\"candidates\":[]}\n\n", "gemini"),
            ("data: {\"type\":\"message_start\",\"mess", "anthropic"),
            ("data: {\"model\":\"m\",\"choices\":[{", "openai"),
            ("<html>", "openai"),
            ("", "openai"),
            (" \n: ping\n", ""),
            ("\0\0\0\u{1}", "bedrock"),
        ] {
            let found = |piece| sniff(body.as_bytes(), piece).unwrap_or_default().unwrap_or_default();
            assert_eq!((found(1), found(4096)), (name, name), "{body:?}");
        }
        for other in [
            "data: {\"object\":\"text_completion\",\"choices\":[]}\n\n",
            "data: {\"type\":\"message-start\"}\n\n",
        ] {
            assert!(sniff(other.as_bytes(), 7).unwrap_err().message.contains("does not decode"), "{other}");
        }
        assert!(sniff(b"hello there", 3).unwrap_err().message.contains("cannot be told"));
        let endless = ": nothing\n".repeat(2_000_000);
        assert!(sniff(endless.as_bytes(), 65_536).unwrap_err().message.contains("16 MiB"));
    }
}
