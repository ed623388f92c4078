//! Content that is no plain string.

use serde_json::value::RawValue;
use turnwright_core::ErrorInfo;

use super::chunk::ContentPart;
use crate::{
    LlmEvent, StreamItem,
    wire::{
        list::items_of,
        text::{nonempty, text_of},
    },
};

/// Emits content: it is a string, or a list of parts of which some are thoughts. Returns how many items its lists
/// have.
pub(super) fn content_of(raw: &RawValue, out: &mut Vec<StreamItem>) -> Result<usize, ErrorInfo> {
    if let Some(text) = text_of(raw) {
        if !text.is_empty() {
            out.push(LlmEvent::text(text).into());
        }
        return Ok(0);
    }
    let parts = items_of(raw)?;
    let mut count = parts.len();
    for raw in parts {
        if let Some(text) = nonempty(Some(raw)) {
            out.push(LlmEvent::text(text).into());
        }
        let Some(part) = part_of(raw) else { continue };
        if let Some(text) = nonempty(part.text) {
            out.push(LlmEvent::text(text).into());
        }
        let Some(thinking) = part.thinking else { continue };
        if let Some(text) = nonempty(Some(thinking)) {
            out.push(LlmEvent::reasoning(text).into());
        }
        let thoughts = items_of(thinking)?;
        count += thoughts.len();
        for raw in thoughts {
            let text = nonempty(Some(raw)).or_else(|| nonempty(part_of(raw)?.text));
            if let Some(text) = text {
                out.push(LlmEvent::reasoning(text).into());
            }
        }
    }
    Ok(count)
}

/// A part, if it is one: an object. Odd parts are skipped.
fn part_of(raw: &RawValue) -> Option<ContentPart<'_>> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}
