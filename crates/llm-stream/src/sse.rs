//! Server-sent events: bytes in, frames out.
//!
//! One framer serves every wire format that speaks SSE, and the servers that stop speaking it half-way: a bare JSON
//! value or an HTML page in place of a field line is handed out as [`Frame::Bare`]. Any split of the bytes gives the
//! same frames. A data line that lies whole in the bytes fed is handed out as a slice of them; nothing is allocated
//! for a frame.

use memchr::memchr2;
use turnwright_core::ErrorInfo;

use crate::wire::{
    buffer::{self, append},
    scan::JsonScan,
};

/// The most bytes a line, or the data of one event with its name, may have unless [`SseFramer::with_limit`] says otherwise: 16 MiB.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What the framer found. Bytes, since UTF-8 is for the reader to check, once an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event with data, or an event named `error` without any.
    Event {
        /// The event's name; empty when it has none.
        name: &'a [u8],
        /// Its data lines, joined by line feeds.
        data: &'a [u8],
    },
    /// What is no SSE: a whole JSON object or array, or one line that starts with `<`. At the end of the input it may
    /// be cut.
    Bare(&'a [u8]),
}

/// Frames server-sent events. Sans-IO: it is fed by whoever reads the socket.
///
/// Each byte is looked at once, whatever the chunks are. Memory is bounded by twice the limit.
#[derive(Debug)]
pub struct SseFramer {
    limit: usize,
    /// The start of a line, or of a bare value, whose end has not come.
    partial: Vec<u8>,
    /// The data of the open event, as far as it does not lie in the bytes being fed.
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed belongs to it.
    skip_line_feed: bool,
    /// How much of a byte order mark was seen at the start; `None` once the start is past.
    bom: Option<usize>,
    /// Blanks came at the start of a line, and nothing else of it yet.
    indented: bool,
    /// Set while a bare JSON value arrives.
    bare: Option<JsonScan>,
    progress: u64,
}

impl Default for SseFramer {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Copy)]
enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    Name(&'a [u8]),
    Markup(&'a [u8]),
    Ignored,
}

impl SseFramer {
    /// A framer with the usual limit, [`MAX_EVENT_BYTES`].
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    /// A framer that refuses lines and events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            partial: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: Vec::new(),
            skip_line_feed: false,
            bom: Some(0),
            indented: false,
            bare: None,
            progress: 0,
        }
    }

    /// How many bytes arrived that said something: no comments, line ends, names of events or empty data, and no
    /// events named `ping`, `keepalive` or `heartbeat`. An idle timer may look at this, so that keep-alives do not count as progress.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Takes the next bytes and hands out every frame they complete. An event is handed out with the line end that
    /// makes its blank line, without waiting for what follows.
    ///
    /// # Errors
    /// [`turnwright_core::ErrorKind::TooLarge`] when a line or an event outgrew the limit. The framer is of no use then.
    pub fn feed<F>(&mut self, bytes: &[u8], mut on_frame: F) -> Result<(), ErrorInfo>
    where
        F: FnMut(Frame<'_>),
    {
        let mut rest = self.skip_bom(bytes);
        // The open event's data while it is one line that lies in `bytes`.
        let mut held: Option<&[u8]> = None;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.skip_line_feed) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            if self.bare.is_some() {
                rest = self.feed_bare(rest, &mut on_frame)?;
                continue;
            }
            if self.partial.is_empty() && matches!(first, b' ' | b'\t') {
                self.indented = true;
                rest = &rest[1..];
                continue;
            }
            // A field with blanks before it is none. What is no field may have them.
            if std::mem::take(&mut self.indented) && !matches!(first, b'{' | b'[' | b'<') {
                self.partial.push(b' ');
            }
            if self.partial.is_empty() && matches!(first, b'{' | b'[') {
                self.dispatch(held.take(), &mut on_frame);
                self.bare = Some(JsonScan::default());
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.keep(rest)?;
                break;
            };
            let (piece, terminator) = (&rest[..end], rest[end]);
            rest = &rest[end + 1..];
            self.skip_line_feed = terminator == b'\r';
            if self.partial.is_empty() {
                self.check(piece.len())?;
                self.count(piece.len(), self.is_progress(piece));
                match parse(piece) {
                    Line::Data(value) if !self.has_data => {
                        self.check(self.name.len() + value.len())?;
                        held = Some(value);
                        self.has_data = true;
                    }
                    line => self.line(line, held.take(), &mut on_frame)?,
                }
            } else {
                self.keep(piece)?;
                let whole = std::mem::take(&mut self.partial);
                self.line(parse(&whole), held.take(), &mut on_frame)?;
                self.partial = whole;
                self.partial.clear();
            }
        }
        self.spill(held)
    }

    /// Says that no more bytes come, and hands out what is left: the last event also without its blank line, and a
    /// bare value also when it is cut. The frames handed out here may be incomplete.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub fn end<F>(&mut self, mut on_frame: F) -> Result<(), ErrorInfo>
    where
        F: FnMut(Frame<'_>),
    {
        let rest = std::mem::take(&mut self.partial);
        if self.bare.take().is_some() {
            on_frame(Frame::Bare(&rest));
        } else if !rest.is_empty() {
            self.line(parse(&rest), None, &mut on_frame)?;
        }
        self.dispatch(None, &mut on_frame);
        Ok(())
    }

    fn skip_bom<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        while let Some(seen) = self.bom {
            match bytes.first() {
                None => break,
                Some(byte) if Some(byte) == BOM.get(seen) => {
                    bytes = &bytes[1..];
                    self.bom = Some(seen + 1);
                }
                Some(_) => {
                    // A part of a mark is no mark: it belongs to the first line.
                    if seen < BOM.len() {
                        self.partial.extend_from_slice(&BOM[..seen]);
                    }
                    self.bom = None;
                }
            }
        }
        bytes
    }

    /// Takes the next bytes of a bare JSON value and returns what follows it.
    fn feed_bare<'b>(
        &mut self,
        bytes: &'b [u8],
        on_frame: &mut impl FnMut(Frame<'_>),
    ) -> Result<&'b [u8], ErrorInfo> {
        let end = self.bare.as_mut().and_then(|scan| scan.push(bytes));
        self.keep(&bytes[..end.unwrap_or(bytes.len())])?;
        let Some(end) = end else { return Ok(&[]) };
        self.bare = None;
        on_frame(Frame::Bare(&self.partial));
        self.partial.clear();
        Ok(&bytes[end..])
    }

    fn line(
        &mut self,
        line: Line<'_>,
        held: Option<&[u8]>,
        on_frame: &mut impl FnMut(Frame<'_>),
    ) -> Result<(), ErrorInfo> {
        match line {
            Line::Blank => self.dispatch(held, on_frame),
            Line::Markup(line) => {
                self.dispatch(held, on_frame);
                on_frame(Frame::Bare(line));
            }
            Line::Data(value) => {
                self.spill(held)?;
                if self.has_data {
                    self.extend(b"\n")?;
                }
                self.extend(value)?;
                self.has_data = true;
            }
            Line::Name(name) => {
                self.spill(held)?;
                self.name.clear();
                self.check(name.len() + self.data.len())?;
                append(&mut self.name, name, self.limit);
            }
            Line::Ignored => self.spill(held)?,
        }
        Ok(())
    }

    /// Ends the open event, if there is one.
    fn dispatch(&mut self, held: Option<&[u8]>, on_frame: &mut impl FnMut(Frame<'_>)) {
        // The standard drops events without data; an error must not get lost that way.
        if self.has_data || self.name == b"error" {
            on_frame(Frame::Event { name: &self.name, data: held.unwrap_or(&self.data) });
        }
        self.has_data = false;
        self.data.clear();
        self.name.clear();
    }

    /// Copies held data, since the bytes it lies in are about to go or more data follows.
    fn spill(&mut self, held: Option<&[u8]>) -> Result<(), ErrorInfo> {
        held.map_or(Ok(()), |value| self.extend(value))
    }

    /// Adds to the data of the open event. Its name counts too, or a framer would hold three limits.
    fn extend(&mut self, value: &[u8]) -> Result<(), ErrorInfo> {
        self.check(self.name.len() + self.data.len() + value.len())?;
        append(&mut self.data, value, self.limit);
        Ok(())
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), ErrorInfo> {
        self.check(self.partial.len() + piece.len())?;
        append(&mut self.partial, piece, self.limit);
        self.count(piece.len(), self.is_progress(&self.partial));
        Ok(())
    }

    fn count(&mut self, length: usize, is_progress: bool) {
        if is_progress {
            self.progress += length as u64;
        }
    }

    /// Whether a line, as far as it came, says something. Looks at its start only.
    fn is_progress(&self, line: &[u8]) -> bool {
        match line {
            [b'd', b'a', b't', b'a', b':', value @ ..] => {
                let start = &value[..value.len().min(64)];
                !matches!(&self.name[..], b"ping" | b"keepalive" | b"heartbeat")
                    && (value.len() > 64 || !start.trim_ascii().is_empty())
            }
            // Other fields, also those whose name has only begun to come.
            _ => matches!(line, [b'{' | b'[' | b'<', ..]),
        }
    }

    fn check(&self, length: usize) -> Result<(), ErrorInfo> {
        buffer::check("an event", length, self.limit)
    }
}

fn parse(line: &[u8]) -> Line<'_> {
    match line {
        [] => Line::Blank,
        [b'<', ..] => Line::Markup(line),
        [b'd', b'a', b't', b'a', rest @ ..] => value(rest).map_or(Line::Ignored, Line::Data),
        [b'e', b'v', b'e', b'n', b't', rest @ ..] => value(rest).map_or(Line::Ignored, Line::Name),
        _ => Line::Ignored,
    }
}

/// A field's value, from what follows its name; nothing when the name goes on.
fn value(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [b':', b' ', value @ ..] | [b':', value @ ..] | value @ [] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
