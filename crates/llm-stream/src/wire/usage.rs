//! Token usage under the names that servers give it.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwright_core::TokenUsage;

use crate::wire::count::Count;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    cached_tokens: Count,
    prompt_cache_hit_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    reasoning_tokens: Count,
    prompt_tokens_details: Option<InputDetails>,
    input_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

/// The usage in a `usage` object; nothing when it is null, holds no figure, or has a shape that is not known: an
/// answer is not lost over its bill.
pub(in crate::wire) fn usage_of(raw: &RawValue) -> Option<TokenUsage> {
    let raw: RawUsage = serde_json::from_str(raw.get()).ok()?;
    let input = raw.prompt_tokens_details.or(raw.input_tokens_details).unwrap_or_default();
    let output = raw.completion_tokens_details.or(raw.output_tokens_details).unwrap_or_default();
    let reasoning = output.reasoning_tokens.0.max(raw.reasoning_tokens.0);
    let input_tokens = raw.prompt_tokens.0.or(raw.input_tokens.0);
    let completion = raw.completion_tokens.0.or(raw.output_tokens.0);
    let usage = TokenUsage {
        input_tokens,
        output_tokens: completion.map(|c| with_reasoning(c, reasoning, input_tokens, raw.total_tokens.0)),
        // A server that speaks two dialects fills one of them with zeros.
        cache_read_input_tokens: [
            input.cached_tokens.0,
            raw.cached_tokens.0,
            raw.prompt_cache_hit_tokens.0,
            raw.cache_read_input_tokens.0,
        ]
        .into_iter()
        .max()
        .flatten(),
        cache_creation_input_tokens: raw.cache_creation_input_tokens.0.max(input.cache_write_tokens.0),
        reasoning_tokens: reasoning,
        partial: false,
    };
    (!usage.is_unknown()).then_some(usage)
}

/// Some servers count reasoning beside the completion; their total tells.
fn with_reasoning(completion: u64, reasoning: Option<u64>, input: Option<u64>, total: Option<u64>) -> u64 {
    let (Some(reasoning), Some(input), Some(total)) = (reasoning, input, total) else { return completion };
    let sum = completion.saturating_add(reasoning);
    if total == input.saturating_add(sum) { sum } else { completion }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<[Option<u64>; 5]> {
        let u = usage_of(serde_json::from_str(json).unwrap())?;
        Some([
            u.input_tokens,
            u.output_tokens,
            u.cache_read_input_tokens,
            u.cache_creation_input_tokens,
            u.reasoning_tokens,
        ])
    }

    #[test]
    fn fault_f8_every_name_is_known_and_unknown_is_not_zero() {
        let n = Some;
        let table = [
            (r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}"#, [n(5), n(2), None, None, None]),
            (
                r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":null}}"#,
                [n(5), None, n(3), None, None],
            ),
            (
                r#"{"prompt_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":1}"#,
                [n(5), None, n(4), None, None],
            ),
            (r#"{"prompt_tokens":5,"cached_tokens":4}"#, [n(5), None, n(4), None, None]),
            (
                r#"{"prompt_tokens":5,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}"#,
                [n(5), None, n(4), n(1), None],
            ),
            (
                r#"{"completion_tokens":9,"reasoning_tokens":4,"completion_tokens_details":{}}"#,
                [None, n(9), None, None, n(4)],
            ),
            (
                r#"{"prompt_tokens":331,"completion_tokens":11,"total_tokens":613,"completion_tokens_details":{"reasoning_tokens":271}}"#,
                [n(331), n(282), None, None, n(271)],
            ),
            (
                r#"{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":4}}"#,
                [n(5), n(9), None, None, n(4)],
            ),
            (
                r#"{"prompt_tokens":5.0,"completion_tokens":"x","completion_tokens_details":null,"cost":"0"}"#,
                [n(5), None, None, None, None],
            ),
        ];
        for (json, expected) in table {
            assert_eq!(read(json), Some(expected), "{json}");
        }
        for none in ["null", "{}", r#"{"cost":1}"#, "[]", "7", r#"{"prompt_tokens":null}"#] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
