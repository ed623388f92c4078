//! What the events of any SSE format have in common.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

/// `[DONE]`, with any spacing.
pub(in crate::wire) fn is_done_mark(data: &[u8]) -> bool {
    let inner = data.strip_prefix(b"[").and_then(|d| d.strip_suffix(b"]"));
    inner.is_some_and(|inner| inner.trim_ascii() == b"DONE")
}

/// The error of an event that is no JSON.
pub(in crate::wire) fn invalid(error: &serde_json::Error) -> ErrorInfo {
    broken(&format!("is not valid JSON, at column {}", error.column()))
}

/// The error of an event that cannot be read.
pub(in crate::wire) fn broken(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Decode, format!("an event of the stream {what}"))
}

/// Reads an object out of a value that may be anything.
pub(in crate::wire) fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    let json = raw?.get();
    json.starts_with('{').then(|| serde_json::from_str(json).ok()).flatten()
}

/// Whether a value says something.
pub(in crate::wire) fn is_set(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\""))
}
