//! Finish reasons in the words of the servers.

use crate::FinishReason;

/// What a finish reason means; nothing when it says that there is none.
pub(super) fn finish_reason(raw: &str) -> Option<FinishReason> {
    Some(match raw {
        "FINISH_REASON_UNSPECIFIED" => return None,
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}
