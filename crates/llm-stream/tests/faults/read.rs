//! Bodies read by the decoder of their format, and what always holds of what comes out.

use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{Assembler, LlmResponse, StreamItem, ToolProgress};

use crate::format::Format;

/// Decodes the pieces; whatever they are, there is one terminal event, it is the last, and no progress is shown of a
/// call before its start.
pub(crate) fn decode<'a>(format: Format, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamItem> {
    let (mut decoder, mut out) = (format.decoder(), Vec::new());
    for piece in pieces {
        decoder.feed(piece, &mut out);
    }
    decoder.end(&mut out);
    assert!(decoder.is_done(), "{format:?}");
    check(format, &out);
    let count = out.len();
    decoder.feed(format.half().as_bytes(), &mut out);
    decoder.end(&mut out);
    assert_eq!(out.len(), count, "{format:?}: nothing follows the end");
    out
}

fn check(format: Format, items: &[StreamItem]) {
    let is_terminal = |item: &StreamItem| matches!(item, StreamItem::Event(event) if event.is_terminal());
    assert_eq!(items.iter().filter(|item| is_terminal(item)).count(), 1, "{format:?}: {items:?}");
    assert!(items.last().is_some_and(is_terminal), "{format:?}: {items:?}");
    let mut started = Vec::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                assert!(!name.is_empty() && !started.contains(id), "{format:?}: {items:?}");
                started.push(id.clone());
            }
            StreamItem::Progress(ToolProgress::Arguments { id, .. }) => {
                assert!(started.contains(id), "{format:?}: {items:?}");
            }
            _ => {}
        }
    }
}

/// Decodes a body whole, in two pieces and one byte at a time: the items must be equal.
pub(crate) fn items(format: Format, body: &str) -> Vec<StreamItem> {
    let bytes = body.as_bytes();
    let whole = decode(format, [bytes]);
    // One byte at a time cuts everywhere; two pieces are for what is held back between them.
    for split in (0..=bytes.len()).step_by(1 + bytes.len() / 60) {
        let (a, b) = bytes.split_at(split);
        assert_eq!(decode(format, [a, b]), whole, "{format:?}: split at {split} of {body}");
    }
    assert_eq!(decode(format, bytes.chunks(1)), whole, "{format:?}: one byte at a time: {body}");
    whole
}

pub(crate) fn assemble(items: &[StreamItem]) -> LlmResponse {
    let mut assembler = Assembler::new();
    for item in items {
        if let StreamItem::Event(event) = item {
            assembler.feed(event);
        }
    }
    assembler.finish()
}

/// The answer in a body, which is fed whole.
pub(crate) fn read(format: Format, body: &str) -> LlmResponse {
    assemble(&decode(format, [body.as_bytes()]))
}

/// The failure in a body.
pub(crate) fn failure(format: Format, body: &str) -> ErrorInfo {
    let response = read(format, body);
    assert_eq!(response.finish_reason, None, "{format:?}: {body}");
    response.error.unwrap_or_else(|| panic!("{format:?}: no failure in {body}"))
}
