//! Reasoning: its text, and what must come back unchanged.

use serde_json::{Map, Value};
use turnwright_core::{ErrorInfo, ErrorKind};

use super::event::ThoughtDelta;
use crate::{LlmEvent, ReasoningDelta, StreamItem, wire::text::nonempty};

/// Under which key the opaque part of a block travels in [`ReasoningDelta::opaque`], and back in a request: an object
/// with `signature` or `redactedContent`, as the provider spells them.
pub(super) const KEY: &str = "reasoningContent";
pub(super) const SIGNATURE: &str = "signature";
pub(super) const REDACTED: &str = "redactedContent";

/// The most bytes that the signatures and the redacted content of an answer may have together.
pub(super) const MAX_OPAQUE_BYTES: usize = 16 * 1024 * 1024;

/// Puts reasoning deltas together to blocks, each with its opaque part.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    open: Option<Thought>,
    /// The last block ended without an opaque part, and nothing else came since: the next one must not be taken for
    /// its continuation.
    loose: bool,
    opaque_bytes: usize,
}

#[derive(Debug)]
struct Thought {
    index: u64,
    has_text: bool,
    signature: String,
    /// Base64.
    redacted: String,
}

impl Thoughts {
    /// Emits a piece of the block of this index. Returns whether it said anything.
    pub(super) fn delta(
        &mut self,
        index: u64,
        delta: &ThoughtDelta<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        let (text, signature) = (nonempty(delta.text), nonempty(delta.signature));
        let redacted = nonempty(delta.redacted_content);
        if text.is_none() && signature.is_none() && redacted.is_none() {
            return Ok(false);
        }
        let is_other = |open: &Thought| {
            let mixes = if redacted.is_some() {
                // Pieces of base64 can be joined unless the first is padded.
                open.has_text || !open.signature.is_empty() || is_padded(&open.redacted)
            } else {
                !open.redacted.is_empty()
            };
            open.index != index || mixes
        };
        if self.open.as_ref().is_some_and(is_other) {
            self.end(out);
        }
        let (signature, redacted) = (signature.unwrap_or_default(), redacted.unwrap_or_default());
        self.opaque_bytes += signature.len() + redacted.len();
        if self.opaque_bytes > MAX_OPAQUE_BYTES {
            let message = "what cannot be read of the reasoning outgrew the limit";
            return Err(ErrorInfo::new(ErrorKind::TooLarge, message));
        }
        if self.open.is_none() && std::mem::take(&mut self.loose) {
            out.push(sealed(Map::new()));
        }
        let open = self.open.get_or_insert_with(|| Thought {
            index,
            has_text: false,
            signature: String::new(),
            redacted: String::new(),
        });
        open.signature.push_str(&signature);
        open.redacted.push_str(&redacted);
        if let Some(text) = text {
            open.has_text = true;
            out.push(LlmEvent::reasoning(text).into());
        }
        Ok(true)
    }

    /// Ends the block of this index, if it is open.
    pub(super) fn stop(&mut self, index: u64, out: &mut Vec<StreamItem>) {
        if self.open.as_ref().is_some_and(|open| open.index == index) {
            self.end(out);
        }
    }

    /// Ends the open block, since something else follows or the answer is whole.
    pub(super) fn end(&mut self, out: &mut Vec<StreamItem>) {
        let Some(open) = self.open.take() else { return };
        let (field, value) = match (open.redacted, open.signature) {
            (redacted, _) if !redacted.is_empty() => (REDACTED, redacted),
            (_, signature) if !signature.is_empty() => (SIGNATURE, signature),
            _ => {
                self.loose = open.has_text;
                return;
            }
        };
        out.push(sealed(Map::from_iter([(field.to_owned(), value.into())])));
    }

    /// Ends the open block because a part of another kind comes.
    pub(super) fn leave(&mut self, out: &mut Vec<StreamItem>) {
        self.end(out);
        self.loose = false;
    }
}

fn is_padded(base64: &str) -> bool {
    base64.ends_with('=') || !base64.len().is_multiple_of(4)
}

/// The delta that ends a block and carries its opaque part.
fn sealed(fields: Map<String, Value>) -> StreamItem {
    let opaque = Map::from_iter([(KEY.to_owned(), Value::Object(fields))]);
    LlmEvent::ReasoningDelta(ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) }).into()
}
