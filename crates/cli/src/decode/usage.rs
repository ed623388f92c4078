//! Usage as the provider spelled it. Decoders give ours only.

use memchr::memmem;
use serde_json::{Map, Value, json};
use turnwright::llm_stream::{
    sse::{Frame, SseFramer},
    wire::eventstream::EventStreamFramer,
};

use super::formats::Format;

/// Follows the body beside the decoder and keeps what it says of usage.
pub(super) struct RawUsage {
    framer: Framer,
    known: Option<Value>,
    format: &'static Format,
}

enum Framer {
    Text(SseFramer),
    Binary(EventStreamFramer),
    /// The decoder says what is wrong.
    Broken,
}

impl RawUsage {
    pub(super) fn new(format: &'static Format) -> Self {
        let framer = match format.is_binary {
            true => Framer::Binary(EventStreamFramer::new()),
            false => Framer::Text(SseFramer::new()),
        };
        Self { framer, known: None, format }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let (known, format) = (&mut self.known, self.format);
        let fed = match &mut self.framer {
            Framer::Text(framer) => framer.feed(bytes, |frame| take(data(frame), known, format)),
            Framer::Binary(framer) => framer.feed(bytes, |message| take(message.payload(), known, format)),
            Framer::Broken => return,
        };
        if fed.is_err() {
            self.framer = Framer::Broken;
        }
    }

    pub(super) fn end(mut self) -> Option<Value> {
        let (known, format) = (&mut self.known, self.format);
        if let Framer::Text(framer) = &mut self.framer {
            // As above.
            let _ = framer.end(|frame| take(data(frame), known, format));
        }
        self.known
    }
}

fn data<'a>(frame: Frame<'a>) -> &'a [u8] {
    let (Frame::Event { data, .. } | Frame::Bare(data)) = frame;
    data
}

fn take(bytes: &[u8], known: &mut Option<Value>, format: &Format) {
    // Most events say nothing of usage, and parsing them would double the work.
    if memmem::find(bytes, b"usage").is_none() && memmem::find(bytes, b"eval_count").is_none() {
        return;
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Array(events)) => events.iter().for_each(|event| (format.usage)(event, known)),
        Ok(event) => (format.usage)(&event, known),
        Err(_) => {}
    }
}

/// The last one counts.
fn replace(usage: &Value, known: &mut Option<Value>) {
    if usage.is_object() {
        *known = Some(usage.clone());
    }
}

/// What is said anew counts, field by field.
fn merge(usage: &Value, known: &mut Option<Value>) {
    let Value::Object(fields) = usage else { return };
    match known {
        Some(Value::Object(known)) => {
            let said = fields.iter().filter(|(_, value)| !value.is_null());
            known.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        }
        _ => *known = Some(usage.clone()),
    }
}

pub(super) fn chat(event: &Value, known: &mut Option<Value>) {
    let usage = if event["usage"].is_object() { &event["usage"] } else { &event["x_groq"]["usage"] };
    replace(usage, known);
}

pub(super) fn responses(event: &Value, known: &mut Option<Value>) {
    replace(&event["response"]["usage"], known);
    replace(&event["usage"], known);
}

pub(super) fn messages(event: &Value, known: &mut Option<Value>) {
    merge(&event["message"]["usage"], known);
    merge(&event["usage"], known);
}

pub(super) fn gemini(event: &Value, known: &mut Option<Value>) {
    merge(&event["usageMetadata"], known);
}

pub(super) fn converse(event: &Value, known: &mut Option<Value>) {
    replace(&event["usage"], known);
}

/// The counts stand beside the answer.
pub(super) fn ollama(event: &Value, known: &mut Option<Value>) {
    const FIELDS: [&str; 6] = [
        "total_duration",
        "load_duration",
        "prompt_eval_count",
        "prompt_eval_duration",
        "eval_count",
        "eval_duration",
    ];
    let said = FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), event.get(name)?.clone())));
    let said: Map<String, Value> = said.collect();
    if !said.is_empty() {
        merge(&json!(said), known);
    }
}
