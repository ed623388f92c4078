//! Bodies out of events: in the usual framing, and in any that is legal.

use super::{
    super::{decode::Format, dice::Dice},
    Event, converse,
};

/// As most servers frame it.
pub(crate) fn plainly(format: Format, events: &[Event]) -> Vec<u8> {
    if format == Format::Converse {
        return events.iter().flat_map(converse::message).collect();
    }
    let mut body = String::new();
    for event in events {
        if format == Format::Ollama {
            body += &format!("{}\n", event.json);
            continue;
        }
        if let Some(name) = event.name {
            body += &format!("event: {name}\n");
        }
        event.json.lines().for_each(|line| body += &format!("data: {line}\n"));
        body += "\n";
    }
    body.into_bytes()
}

/// The same events, no two of which are alike, so that each of them is parsed.
pub(crate) fn unlike(events: &[Event]) -> Vec<Event> {
    let unlike = |(at, event): (usize, &Event)| {
        let json = match event.json.strip_suffix('}') {
            Some(open) => format!("{open},\"unlike\":{at}}}"),
            None => event.json.clone(),
        };
        Event { name: event.name, json }
    };
    events.iter().enumerate().map(unlike).collect()
}

/// As a server may frame it.
pub(crate) fn anyhow(format: Format, events: &[Event], dice: &mut Dice<'_>) -> Vec<u8> {
    match format {
        Format::Ollama => lines(events, dice),
        // Its framing leaves no choice.
        Format::Converse => plainly(format, events),
        Format::Gemini if dice.maybe() => array(events, dice),
        // The Responses format has no end mark.
        Format::Responses => server_sent(events, false, dice),
        _ => server_sent(events, true, dice),
    }
}

fn lines(events: &[Event], dice: &mut Dice<'_>) -> Vec<u8> {
    let mut body = dice.one_of(&["", "\u{feff}", "\n", " \r\n"]).to_owned();
    for (at, event) in events.iter().enumerate() {
        body += dice.one_of(&["", "", " "]);
        body += &event.json;
        let is_last = at + 1 == events.len();
        body += if is_last && dice.maybe() { "" } else { dice.one_of(&["\n", "\r\n", "\n\n", " \n"]) };
    }
    body.into_bytes()
}

fn array(events: &[Event], dice: &mut Dice<'_>) -> Vec<u8> {
    let mut body = dice.one_of(&["[", "\u{feff}[", " \n[", "[\r\n"]).to_owned();
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            body += dice.one_of(&[",", ",\r\n", "\n,\n", " , "]);
        }
        body += &event.json;
    }
    body += dice.one_of(&["]", "\n]\n", " ]", ""]);
    body.into_bytes()
}

fn server_sent(events: &[Event], has_end_mark: bool, dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out =
        Lines { body: dice.one_of(&["", "\u{feff}"]).as_bytes().to_vec(), end: "", mixes: dice.below(4) };
    for _ in 0..dice.below(3) {
        out.line("", dice);
    }
    for event in events {
        if let Some(name) = event.name {
            out.field("event", name, dice);
        }
        for line in event.json.lines() {
            out.field("data", line, dice);
            if dice.below(4) == 1 {
                out.line(dice.one_of(&[": comment", ":", "id: 1", "retry: 5", "unknown"]), dice);
            }
        }
        out.line("", dice);
        if dice.below(8) == 1 {
            out.line(": keep-alive", dice);
            out.line("", dice);
        }
    }
    match dice.below(4) {
        // The last event may lack its blank line, and its last line its end.
        1 => out.drop_end(),
        2 => {
            out.drop_end();
            out.drop_end();
        }
        3 if has_end_mark => {
            out.field("data", "[DONE]", dice);
            out.line("", dice);
        }
        _ => {}
    }
    out.body
}

struct Lines {
    body: Vec<u8>,
    /// How the last line ended.
    end: &'static str,
    /// Which end lines have; 3 for one of them each.
    mixes: usize,
}

impl Lines {
    fn line(&mut self, line: &str, dice: &mut Dice<'_>) {
        let ends = ["\n", "\r", "\r\n"];
        let end = ends.get(self.mixes).copied().unwrap_or_else(|| dice.one_of(&ends));
        // A line feed after a carriage return is no end of its own.
        self.end = if line.is_empty() && self.end == "\r" && end == "\n" { "\r\n" } else { end };
        self.body.extend_from_slice(line.as_bytes());
        self.body.extend_from_slice(self.end.as_bytes());
    }

    fn field(&mut self, name: &str, value: &str, dice: &mut Dice<'_>) {
        let space = if value.starts_with(' ') || dice.maybe() { " " } else { "" };
        self.line(&format!("{name}:{space}{value}"), dice);
    }

    /// Takes the last end of a line away, if one is there.
    fn drop_end(&mut self) {
        let kept = [&b"\r\n"[..], b"\n", b"\r"].iter().find_map(|end| self.body.strip_suffix(*end));
        if let Some(length) = kept.map(<[u8]>::len) {
            self.body.truncate(length);
        }
    }
}
