//! The binary event stream of AWS services (`application/vnd.amazon.eventstream`): bytes in, messages out.
//!
//! A message is a prelude (length of the message, length of its headers, CRC-32 of these eight bytes), the headers, a
//! payload, and the CRC-32 of all that stands before. Numbers are big-endian. Any split of the bytes gives the same
//! messages. A message that lies whole in the bytes fed is handed out as slices of them, without a copy.

mod headers;

use turnwright_core::{ErrorInfo, ErrorKind};

use crate::sse::MAX_EVENT_BYTES;
pub use headers::{HeaderValue, Headers};

/// The prelude with its checksum.
const PRELUDE: usize = 12;
/// A checksum.
const CRC: usize = 4;

/// One message. Its checksums are right and its headers are well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    headers: Headers<'a>,
    payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Its headers, in the order they came.
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }

    /// The text of the first header of this name; nothing when there is none, or it is no string.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        match self.headers.into_iter().find(|(found, _)| *found == name)?.1 {
            HeaderValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it carries.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Frames an event stream. Sans-IO: it is fed by whoever reads the socket.
///
/// Each byte is looked at once, whatever the chunks are. Memory is bounded by the limit: no more is kept than what
/// came of one message, whatever length the message says it has.
#[derive(Debug)]
pub struct EventStreamFramer {
    limit: usize,
    /// The start of a message whose end has not come.
    partial: Vec<u8>,
    /// How long that message is, once its prelude is there.
    total: Option<usize>,
    progress: u64,
}

impl Default for EventStreamFramer {
    fn default() -> Self {
        Self::new()
    }
}

impl EventStreamFramer {
    /// A framer with the usual limit, [`MAX_EVENT_BYTES`].
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    /// A framer that refuses messages of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), total: None, progress: 0 }
    }

    /// How many bytes arrived. The format has no comments and no keep-alives: all of them say something.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Whether a message has begun and not ended.
    pub fn is_inside(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Takes the next bytes and hands out every message they complete.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] when a checksum is wrong or a message is malformed, and [`ErrorKind::TooLarge`] when one is
    /// longer than the limit. The framer is of no use then: what follows cannot be found.
    pub fn feed<F>(&mut self, bytes: &[u8], mut on_message: F) -> Result<(), ErrorInfo>
    where
        F: FnMut(Message<'_>),
    {
        self.progress += bytes.len() as u64;
        let mut rest = bytes;
        loop {
            if self.partial.is_empty() {
                let total = self.length(rest)?;
                let Some((message, after)) = total.and_then(|t| rest.split_at_checked(t)) else { break };
                on_message(parse(message)?);
                rest = after;
                continue;
            }
            let wanted = self.total.unwrap_or(PRELUDE);
            let missing = wanted - self.partial.len();
            let Some((piece, after)) = rest.split_at_checked(missing) else { break };
            self.partial.extend_from_slice(piece);
            rest = after;
            if self.total.is_none() {
                self.total = self.length(&self.partial)?;
            } else {
                on_message(parse(&self.partial)?);
                self.partial.clear();
                self.total = None;
            }
        }
        self.partial.extend_from_slice(rest);
        if self.total.is_none() {
            self.total = self.length(&self.partial)?;
        }
        Ok(())
    }

    /// How long the message is that these bytes begin with, once its prelude is there. A length is not believed before
    /// its checksum is right.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, ErrorInfo> {
        let Some(prelude) = bytes.first_chunk::<PRELUDE>() else { return Ok(None) };
        if crc32fast::hash(&prelude[..8]) != number(&prelude[8..]) {
            return Err(broken("the checksum of a message's prelude is wrong"));
        }
        let (total, headers) = (size(&prelude[..4]), size(&prelude[4..8]));
        if total < PRELUDE + CRC || headers > total - PRELUDE - CRC {
            return Err(broken("the lengths in a message's prelude contradict each other"));
        }
        if total > self.limit {
            let message = format!("a message of the stream is larger than {} bytes", self.limit);
            return Err(ErrorInfo::new(ErrorKind::TooLarge, message));
        }
        Ok(Some(total))
    }
}

/// Takes a whole message, whose prelude was checked, apart.
fn parse(message: &[u8]) -> Result<Message<'_>, ErrorInfo> {
    let (content, crc) = message.split_at(message.len() - CRC);
    if crc32fast::hash(content) != number(crc) {
        return Err(broken("the checksum of a message is wrong"));
    }
    let (headers, payload) = content[PRELUDE..].split_at(size(&message[4..8]));
    Ok(Message { headers: Headers::checked(headers)?, payload })
}

fn broken(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Decode, what)
}

/// The big-endian number in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn size(bytes: &[u8]) -> usize {
    usize::try_from(number(bytes)).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(in crate::wire) mod encode;
#[cfg(test)]
mod tests;
