//! An answer that is still being made: events, and what goes wrong with them.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{
    Fault, Reply, WireFormat,
    event::{Event, Mark},
    framing::Framing,
    render,
    trouble::Trouble,
};
use crate::eventstream;

/// An HTTP answer in the making.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) format: WireFormat,
    pub(crate) status: u16,
    pub(crate) content_type: Option<&'static str>,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) events: Vec<Event>,
    /// What the body is in place of the events.
    pub(crate) body: Option<Vec<u8>>,
    /// What comes after the events.
    pub(crate) tail: Vec<u8>,
    pub(crate) framing: Framing,
    /// The size of the pieces the body is sent in; an event a piece if none.
    pub(crate) split: Option<usize>,
    /// The wait before each piece.
    pub(crate) delay: Duration,
    /// Whether nothing at all is answered.
    pub(crate) mute: bool,
    pub(crate) ending: Ending,
}

/// What comes after the last piece of the body.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    Clean,
    /// Silence, with the connection open.
    Stall,
    /// The connection is closed in the midst of the body.
    Abort,
    /// The connection is reset.
    Reset,
    /// This, again and again.
    Repeat {
        every: Duration,
        bytes: Bytes,
    },
}

impl Draft {
    /// The answer a reply means, with what goes wrong in it.
    pub(crate) fn of(format: WireFormat, reply: &Reply) -> Self {
        let mut draft = Self {
            format,
            status: 200,
            content_type: Some(format.content_type()),
            headers: Vec::new(),
            events: render::events(format, reply),
            body: None,
            tail: Vec::new(),
            framing: Framing::usual(format),
            split: None,
            delay: reply.delay,
            mute: false,
            ending: Ending::Clean,
        };
        if let Some(fault) = reply.fault {
            draft.spoil(fault);
        }
        draft
    }

    /// A refusal.
    pub(crate) fn refusal(format: WireFormat, trouble: Trouble) -> Self {
        let mut draft = Self::error(format, trouble.status(format), &trouble.body(format));
        if format == WireFormat::Converse {
            draft.headers.push(("x-amzn-errortype", trouble.code(format).to_owned()));
        }
        draft
    }

    /// An error with this status.
    pub(crate) fn error(format: WireFormat, status: u16, body: &Value) -> Self {
        let draft = Self { status, ..Self::of(format, &Reply::new()) };
        draft.whole("application/json", body.to_string())
    }

    /// The same answer with this body.
    pub(crate) fn whole(mut self, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        self.content_type = Some(content_type);
        self.body = Some(body.into());
        self
    }

    /// Leaves out what comes after so many events.
    fn cut(&mut self, after: usize, ending: Ending) {
        self.events.truncate(after);
        self.ending = ending;
    }

    fn spoil(&mut self, fault: Fault) {
        match fault {
            Fault::Stall { after } => self.cut(after, Ending::Stall),
            Fault::EndWithoutTerminal { after } => self.cut(after, Ending::Clean),
            Fault::AbruptClose { after } => self.cut(after, Ending::Abort),
            Fault::ErrorInStream { after } => {
                self.cut(after, Ending::Clean);
                self.events.push(Trouble::Server.event(self.format, "the model failed"));
            }
            Fault::GarbageLine { after } => {
                let after = after.min(self.events.len());
                self.events.insert(after, Event::text(Mark::Odd, "{not json"));
            }
            Fault::CrLf => self.framing.ends = &["\r\n"],
            Fault::SevenByteSplits => self.split = Some(7),
            Fault::RateLimited { retry_after } => {
                *self = Self::refusal(self.format, Trouble::RateLimited);
                self.headers.push(("retry-after", retry_after.as_secs().to_string()));
            }
            Fault::ServerError => *self = Self::refusal(self.format, Trouble::Server),
            Fault::HtmlWithOk => {
                self.content_type = Some("text/html");
                self.body = Some(HTML.into());
            }
            Fault::JsonErrorWithOk => {
                *self = Self { status: 200, ..Self::refusal(self.format, Trouble::Key) };
            }
            Fault::DuplicateFinish => self.repeat_finish(),
            Fault::MissingUsage => self.drop_usage(),
            Fault::MissingDone => self.events.retain(|event| event.mark != Mark::End),
            Fault::HeartbeatsAfterFinish { every } => self.beat_after_finish(every),
        }
    }

    /// Where the first event with this mark is; the end if there is none.
    pub(crate) fn find(&self, mark: Mark) -> usize {
        self.events.iter().position(|event| event.mark == mark).unwrap_or(self.events.len())
    }

    /// The JSON of every event, to be changed.
    pub(crate) fn values(&mut self) -> impl Iterator<Item = &mut Value> {
        self.events.iter_mut().filter_map(Event::value)
    }

    /// Changes the JSON of the events with this mark.
    pub(crate) fn edit(&mut self, mark: Mark, edit: impl FnMut(&mut Value)) {
        let marked = self.events.iter_mut().filter(|event| event.mark == mark);
        marked.filter_map(Event::value).for_each(edit);
    }

    pub(crate) fn repeat_finish(&mut self) {
        let at = self.find(Mark::Finish);
        if let Some(finish) = self.events.get(at).cloned() {
            self.events.insert(at, finish);
        }
    }

    pub(crate) fn drop_usage(&mut self) {
        self.events.retain(|event| event.mark != Mark::Usage);
        for value in self.values() {
            for name in ["usage", "usageMetadata", "prompt_eval_count", "eval_count"] {
                for holder in ["", "/message", "/response"] {
                    value.pointer_mut(holder).and_then(Value::as_object_mut).map(|held| held.remove(name));
                }
            }
        }
    }

    pub(crate) fn beat_after_finish(&mut self, every: Duration) {
        self.events.truncate(self.find(Mark::Finish) + 1);
        self.ending = Ending::Repeat { every, bytes: self.heartbeat() };
    }

    /// What says that the connection is alive and nothing else.
    pub(crate) fn heartbeat(&self) -> Bytes {
        match self.format {
            // There is nothing like it: an event that says nothing.
            WireFormat::Converse => eventstream::event("heartbeat", "{}").into(),
            WireFormat::Ollama => Bytes::from_static(b"\n"),
            _ => Bytes::from_static(b": heartbeat\n\n"),
        }
    }

    /// Whether its connection is to be reset.
    pub(crate) fn resets(&self) -> bool {
        matches!(self.ending, Ending::Reset)
    }

    /// What a client can see of it.
    #[cfg(test)]
    pub(crate) fn seen(&self) -> String {
        let head = (self.status, self.content_type, &self.headers, self.mute, self.delay);
        format!("{head:?} {:?} {:?}", self.pieces(), self.ending)
    }

    /// The body, in the pieces it is sent in.
    pub(crate) fn pieces(&self) -> Vec<Bytes> {
        let mut pieces = match &self.body {
            Some(body) => vec![body.clone()],
            None => self.framing.write(self.format, &self.events),
        };
        if !self.tail.is_empty() {
            pieces.push(self.tail.clone());
        }
        match self.split {
            Some(size) => pieces.concat().chunks(size.max(1)).map(Bytes::copy_from_slice).collect(),
            None => pieces.into_iter().map(Bytes::from).collect(),
        }
    }
}

/// What a portal answers in place of the server.
pub(crate) const HTML: &str = "<!DOCTYPE html>\n<html><body>Sign in</body></html>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_changes_the_answer() {
        let reply = Reply::new().text("a").text("b");
        for format in WireFormat::ALL {
            let plain = Draft::of(format, &reply).seen();
            for fault in Fault::ALL {
                // These formats have no end mark; the one is CRLF by itself, and the other has no lines.
                let same = match fault {
                    Fault::MissingDone => !matches!(format, WireFormat::Chat | WireFormat::Messages),
                    Fault::CrLf => matches!(format, WireFormat::Gemini | WireFormat::Converse),
                    _ => false,
                };
                let faulty = Draft::of(format, &reply.clone().fault(fault)).seen();
                assert_eq!(faulty == plain, same, "{format}: {fault:?}");
            }
        }
    }
}
