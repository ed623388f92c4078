//! Token usage.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwright_core::TokenUsage;

use crate::wire::count::Count;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
}

/// The usage in a `usage` object; nothing when it holds no figure, or has a shape that is not known: an answer is not
/// lost over its bill.
///
/// What was read from a cache or written to one is not among the provider's input tokens; it is among ours.
pub(super) fn usage_of(raw: &RawValue) -> Option<TokenUsage> {
    let raw: RawUsage = serde_json::from_str(raw.get()).ok()?;
    let (read, written) = (raw.cache_read_input_tokens.0, raw.cache_write_input_tokens.0);
    let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
    let usage = TokenUsage {
        input_tokens: raw.input_tokens.0.map(|input| input.saturating_add(cached)),
        output_tokens: raw.output_tokens.0,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
        ..TokenUsage::UNKNOWN
    };
    (!usage.is_unknown()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_f8_cached_tokens_are_part_of_the_input_and_unknown_is_not_zero() {
        let read = |json: &str| {
            let u = usage_of(serde_json::from_str(json).unwrap())?;
            Some([u.input_tokens, u.output_tokens, u.cache_read_input_tokens, u.cache_creation_input_tokens])
        };
        let n = Some;
        let table = [
            (r#"{"inputTokens":5,"outputTokens":2,"totalTokens":7}"#, [n(5), n(2), None, None]),
            (
                r#"{"inputTokens":5,"outputTokens":2,"totalTokens":17,"cacheReadInputTokens":7,"cacheWriteInputTokens":3}"#,
                [n(15), n(2), n(7), n(3)],
            ),
            (r#"{"inputTokens":5,"cacheReadInputTokens":0,"serverToolUsage":{}}"#, [n(5), None, n(0), None]),
            (r#"{"cacheReadInputTokens":7}"#, [None, None, n(7), None]),
            (r#"{"inputTokens":"x","outputTokens":-1,"cacheWriteInputTokens":3}"#, [None, None, None, n(3)]),
        ];
        for (json, expected) in table {
            assert_eq!(read(json), Some(expected), "{json}");
        }
        for none in ["null", "{}", "[]", "7", r#"{"totalTokens":7}"#] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
