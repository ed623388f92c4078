//! How an answer ended: in the words of the servers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::Response;
use crate::{
    FinishReason,
    wire::{
        events::{is_set, object},
        text::nonempty,
    },
};

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is as whole as the reason says; with the server's word.
    Finished(FinishReason, Option<String>),
    /// It failed; the response says why.
    Failed,
    /// Somebody stopped it on the server's side.
    Cancelled,
}

#[derive(Debug, Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    reason: Option<&'a RawValue>,
}

/// What the last event means. Its status counts more than its name, and the reason for a cut more than both.
pub(super) fn end_of(event: &str, response: &Response<'_>) -> End {
    let status = nonempty(response.status);
    let word = status.as_deref().or(event.strip_prefix("response.")).unwrap_or_default();
    if word == "failed" || is_set(response.error) {
        return End::Failed;
    }
    if matches!(word, "cancelled" | "canceled") {
        return End::Cancelled;
    }
    let details: Option<Details<'_>> = object(response.incomplete_details);
    if let Some(reason) = details.and_then(|details| nonempty(details.reason)) {
        let meaning = match &*reason {
            "max_output_tokens" | "max_tokens" | "length" => FinishReason::Length,
            "content_filter" => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        };
        return End::Finished(meaning, Some(reason.into_owned()));
    }
    let meaning = match word {
        "completed" | "done" => FinishReason::Stop,
        _ => FinishReason::Other,
    };
    End::Finished(meaning, status.map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FinishReason::*;

    #[test]
    fn every_end_has_a_meaning_and_keeps_its_word() {
        let finished =
            |reason, word: &str| End::Finished(reason, (!word.is_empty()).then(|| word.to_owned()));
        let table = [
            ("response.completed", r#"{"status":"completed","error":null}"#, finished(Stop, "completed")),
            ("response.completed", "{}", finished(Stop, "")),
            ("response.completed", r#"{"status":"incomplete"}"#, finished(Other, "incomplete")),
            ("response.completed", r#"{"status":"requires_action"}"#, finished(Other, "requires_action")),
            (
                "response.incomplete",
                r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
                finished(Length, "max_output_tokens"),
            ),
            (
                "response.incomplete",
                r#"{"incomplete_details":{"reason":"content_filter"}}"#,
                finished(ContentFilter, "content_filter"),
            ),
            (
                "response.completed",
                r#"{"status":"completed","incomplete_details":{"reason":"new"}}"#,
                finished(Other, "new"),
            ),
            ("response.incomplete", r#"{"incomplete_details":"odd"}"#, finished(Other, "")),
            ("response.failed", "{}", End::Failed),
            ("response.completed", r#"{"status":"failed"}"#, End::Failed),
            ("response.completed", r#"{"error":{"code":"x"}}"#, End::Failed),
            ("response.cancelled", "{}", End::Cancelled),
            ("response.completed", r#"{"status":"cancelled"}"#, End::Cancelled),
        ];
        for (event, json, expected) in table {
            assert_eq!(end_of(event, &serde_json::from_str(json).unwrap()), expected, "{event} {json}");
        }
    }
}
