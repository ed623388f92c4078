//! A body that is no event stream.

use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{classify::MAX_BODY_BYTES, wire::scan::JsonScan};

/// The text that came in place of a stream.
#[derive(Debug, Default)]
pub(super) struct Bare {
    pub(super) body: Vec<u8>,
    scan: JsonScan,
}

impl Bare {
    /// Takes what came next. Returns whether no more is needed.
    ///
    /// # Errors
    /// When it is no text of a kind that is known.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<bool, ErrorInfo> {
        let room = MAX_BODY_BYTES - self.body.len();
        let piece = &bytes[..bytes.len().min(room)];
        let end = self.scan.push(piece);
        // What follows the value would be there or not, as the bytes are split.
        self.body.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        match self.body.trim_ascii_start().first() {
            Some(b'<') => Ok(true),
            Some(b'{' | b'[') | None => Ok(end.is_some() || self.body.len() == MAX_BODY_BYTES),
            Some(_) => Err(ErrorInfo::new(ErrorKind::Decode, "the body is no event stream")),
        }
    }
}
