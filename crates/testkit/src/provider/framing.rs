//! From events to bytes.

use std::fmt::Write;

use serde_json::Value;

use super::{
    WireFormat,
    event::{Data, Event},
};
use crate::eventstream;

/// How events are written down.
#[derive(Debug, Clone)]
pub(crate) struct Framing {
    /// Line ends, one an event, in turn.
    pub(crate) ends: &'static [&'static str],
    pub(crate) bom: bool,
    /// A comment before each event.
    pub(crate) comments: bool,
    /// A space after `data:`.
    pub(crate) space: bool,
    /// JSON spread over several lines.
    pub(crate) spread: bool,
    /// Blank lines before the first event.
    pub(crate) blank_first: bool,
    /// Whether the last event has its blank line, or its line end.
    pub(crate) closed: bool,
    /// Whether events have their names.
    pub(crate) names: bool,
}

impl Framing {
    /// As the makers of the format do it.
    pub(crate) fn usual(format: WireFormat) -> Self {
        Self {
            ends: if format == WireFormat::Gemini { &["\r\n"] } else { &["\n"] },
            bom: false,
            comments: false,
            space: true,
            spread: false,
            blank_first: false,
            closed: true,
            names: true,
        }
    }

    /// The bytes of each event.
    pub(crate) fn write(&self, format: WireFormat, events: &[Event]) -> Vec<Vec<u8>> {
        if format == WireFormat::Converse {
            return events.iter().map(|event| self.binary(event)).collect();
        }
        let ends = self.ends.iter().cycle();
        let mut frames: Vec<String> =
            events.iter().zip(ends).map(|(event, end)| self.event(format, event, end)).collect();
        if let (false, Some(last)) = (self.closed, frames.last_mut()) {
            last.truncate(last.trim_end_matches(['\r', '\n']).len());
        }
        if let Some(first) = frames.first_mut() {
            let blank = if self.blank_first { "\n\n\n" } else { "" };
            let bom = if self.bom { "\u{FEFF}" } else { "" };
            first.insert_str(0, &format!("{bom}{blank}"));
        }
        frames.into_iter().map(String::into_bytes).collect()
    }

    fn event(&self, format: WireFormat, event: &Event, end: &str) -> String {
        let data = match &event.data {
            Data::Text(text) => text.clone(),
            Data::Json(value) => self.json(value),
        };
        if !format.is_sse() {
            return data.replace('\n', end) + end;
        }
        let mut out = String::new();
        let space = if self.space { " " } else { "" };
        if self.comments {
            // Writing to a string cannot fail.
            let _ = write!(out, ": OPENROUTER PROCESSING{end}{end}:{end}");
        }
        if let (true, Some(name)) = (self.names, event.name) {
            let _ = write!(out, "event:{space}{name}{end}");
        }
        for line in data.split('\n') {
            let _ = write!(out, "data:{space}{line}{end}");
        }
        out + end
    }

    /// A frame of the binary event stream. Errors are exceptions there.
    fn binary(&self, event: &Event) -> Vec<u8> {
        let payload = match &event.data {
            Data::Text(text) => text.clone(),
            Data::Json(value) => self.json(value),
        };
        match event.name.unwrap_or("contentBlockDelta") {
            name if name.ends_with("Exception") => eventstream::exception(name, &payload),
            name => eventstream::event(name, &payload),
        }
    }

    fn json(&self, value: &Value) -> String {
        if self.spread { format!("{value:#}") } else { value.to_string() }
    }
}
