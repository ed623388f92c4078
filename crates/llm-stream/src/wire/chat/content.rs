//! Content that is no plain string.

use serde_json::value::RawValue;

use super::{
    chunk::ContentPart,
    text::{nonempty, text_of},
};
use crate::{LlmEvent, StreamItem};

/// Emits content: it is a string, or a list of parts of which some are thoughts.
pub(super) fn content_of(raw: &RawValue, out: &mut Vec<StreamItem>) {
    if let Some(text) = text_of(raw) {
        if !text.is_empty() {
            out.push(LlmEvent::text(text).into());
        }
    } else if raw.get().starts_with('[') {
        let parts: Vec<ContentPart<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
        for part in &parts {
            if let Some(text) = nonempty(part.text) {
                out.push(LlmEvent::text(text).into());
            }
            let Some(thinking) = part.thinking else { continue };
            if let Some(text) = nonempty(Some(thinking)) {
                out.push(LlmEvent::reasoning(text).into());
            }
            let thoughts: Vec<ContentPart<'_>> = serde_json::from_str(thinking.get()).unwrap_or_default();
            for text in thoughts.iter().filter_map(|thought| nonempty(thought.text)) {
                out.push(LlmEvent::reasoning(text).into());
            }
        }
    }
}
