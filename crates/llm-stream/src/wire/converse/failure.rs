//! Errors that come as messages.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::super::{count::Count, eventstream::Message, text::nonempty};

/// The payload of an exception.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exception<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    /// Some services spell it so.
    #[serde(borrow, default, rename = "Message")]
    capitalised: Option<&'a RawValue>,
    /// What the model's own server said, where Bedrock only passes it on.
    #[serde(borrow, default)]
    original_message: Option<&'a RawValue>,
    #[serde(default)]
    original_status_code: Count,
}

/// The error that a message of type `exception` or `error` reports, as the classifier reads it; nothing when it is of
/// another type.
pub(super) fn of_message(message: &Message<'_>) -> Option<Vec<u8>> {
    match message.text(":message-type") {
        Some("exception") => {
            Some(body(message.text(":exception-type").unwrap_or_default(), message.payload()))
        }
        Some("error") => {
            let code = message.text(":error-code").unwrap_or_default();
            Some(match message.text(":error-message") {
                Some(words) => object(code, words, None),
                None => body(code, message.payload()),
            })
        }
        _ => None,
    }
}

/// The error in a payload.
fn body(kind: &str, payload: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(payload);
    let Some(exception) = exception(&text) else { return object(kind, text.trim(), None) };
    let message = nonempty(exception.message).or_else(|| nonempty(exception.capitalised));
    let message = match (message, nonempty(exception.original_message)) {
        (Some(message), Some(original)) if !message.contains(&*original) => {
            Cow::Owned(format!("{message}: {original}"))
        }
        (message, original) => message.or(original).unwrap_or_default(),
    };
    object(kind, &message, exception.original_status_code.0)
}

fn exception(text: &str) -> Option<Exception<'_>> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

fn object(code: &str, message: &str, status: Option<u64>) -> Vec<u8> {
    let mut fields = Map::new();
    fields.insert("code".into(), code.into());
    fields.insert("message".into(), message.into());
    fields.insert("status".into(), status.into());
    Value::Object(fields).to_string().into_bytes()
}
