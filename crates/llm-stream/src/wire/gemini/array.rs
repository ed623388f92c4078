//! The answer as one JSON array, which is what the server sends where server-sent events were not asked for.

use turnwright_core::ErrorInfo;

use crate::{
    sse::MAX_EVENT_BYTES,
    wire::{
        buffer::{append, check},
        events::broken,
        scan::JsonScan,
    },
};

/// Takes the array apart while it arrives: each element is handed out with its last byte, as a slice of the bytes fed
/// where it lies whole in them. Each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct ArrayFramer {
    /// The start of an element whose end has not come.
    partial: Vec<u8>,
    element: Option<JsonScan>,
    progress: u64,
}

impl ArrayFramer {
    /// How many bytes of elements arrived.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// Takes the next bytes after the opening bracket. Returns whether the array ended; what follows is not looked at.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_element: impl FnMut(&[u8]),
    ) -> Result<bool, ErrorInfo> {
        while let Some(&first) = bytes.first() {
            let Some(scan) = &mut self.element else {
                match first {
                    b'{' => self.element = Some(JsonScan::default()),
                    b']' => return Ok(true),
                    b',' | b' ' | b'\t' | b'\r' | b'\n' => bytes = &bytes[1..],
                    _ => return Err(broken("is no JSON object")),
                }
                continue;
            };
            let end = scan.push(bytes);
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            check("an event", self.partial.len() + piece.len(), MAX_EVENT_BYTES)?;
            self.progress += piece.len() as u64;
            bytes = rest;
            if end.is_none() || !self.partial.is_empty() {
                append(&mut self.partial, piece, MAX_EVENT_BYTES);
            }
            if end.is_some() {
                self.element = None;
                on_element(if self.partial.is_empty() { piece } else { &self.partial });
                self.partial.clear();
            }
        }
        Ok(false)
    }
}
