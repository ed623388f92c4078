//! Token usage, which comes in parts.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwright_core::TokenUsage;

use crate::wire::{count::Count, events::object};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage<'a> {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    #[serde(borrow)]
    cache_creation: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens_details: Option<&'a RawValue>,
}

/// What was written to the cache, by how long it stays there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Creation {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

/// The figures so far. Those that an event does not have stay.
#[derive(Debug, Default)]
pub(super) struct Usage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    reasoning: Option<u64>,
    told: Option<TokenUsage>,
}

impl Usage {
    /// Takes the figures of a `usage` object. Returns the usage, if it changed. An object of another shape says
    /// nothing: an answer is not lost over its bill.
    pub(super) fn merge(&mut self, raw: Option<&RawValue>) -> Option<TokenUsage> {
        let raw: RawUsage<'_> = object(raw)?;
        let creation: Creation = object(raw.cache_creation).unwrap_or_default();
        let creation = match (creation.ephemeral_5m_input_tokens.0, creation.ephemeral_1h_input_tokens.0) {
            (None, None) => None,
            (short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
        };
        let details: OutputDetails = object(raw.output_tokens_details).unwrap_or_default();
        self.input = raw.input_tokens.0.or(self.input);
        self.output = raw.output_tokens.0.or(self.output);
        self.cache_read = raw.cache_read_input_tokens.0.or(self.cache_read);
        self.cache_creation = raw.cache_creation_input_tokens.0.or(creation).or(self.cache_creation);
        self.reasoning = details.thinking_tokens.0.or(self.reasoning);
        let usage = self.total();
        let is_news = !usage.is_unknown() && self.told.replace(usage) != Some(usage);
        is_news.then_some(usage)
    }

    /// The figures as we count them: the format counts cached tokens beside the input, we as a part of it.
    fn total(&self) -> TokenUsage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
        TokenUsage {
            input_tokens: self.input.map(|input| input.saturating_add(cached)),
            output_tokens: self.output,
            cache_read_input_tokens: self.cache_read,
            cache_creation_input_tokens: self.cache_creation,
            reasoning_tokens: self.reasoning,
            partial: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after these objects, and after which of them it was news.
    fn merged(objects: &[&str]) -> ([Option<u64>; 5], Vec<bool>) {
        let mut usage = Usage::default();
        let merge = |json: &&str| usage.merge(Some(serde_json::from_str(json).unwrap())).is_some();
        let news = objects.iter().map(merge).collect();
        let u = usage.total();
        let figures = [
            u.input_tokens,
            u.output_tokens,
            u.cache_read_input_tokens,
            u.cache_creation_input_tokens,
            u.reasoning_tokens,
        ];
        (figures, news)
    }

    #[test]
    fn fault_f8_r6_91_r6_95_parts_replace_key_by_key_and_cached_tokens_are_input() {
        let n = Some;
        let table: [(&[&str], _, &[bool]); 7] = [
            (
                &[r#"{"input_tokens":9,"output_tokens":1}"#, r#"{"output_tokens":7}"#],
                [n(9), n(7), None, None, None],
                &[true, true],
            ),
            (
                &[
                    r#"{"input_tokens":1,"cache_read_input_tokens":149,"output_tokens":0}"#,
                    r#"{"output_tokens":42}"#,
                ],
                [n(150), n(42), n(149), None, None],
                &[true, true],
            ),
            (
                &[
                    r#"{"input_tokens":0,"cache_creation_input_tokens":5,"cache_read_input_tokens":3}"#,
                    r#"{"input_tokens":26,"cache_creation_input_tokens":2,"output_tokens_details":{"thinking_tokens":4}}"#,
                ],
                [n(31), None, n(3), n(2), n(4)],
                &[true, true],
            ),
            (
                &[
                    r#"{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}"#,
                ],
                [n(6), None, None, n(5), None],
                &[true],
            ),
            (
                &[r#"{"input_tokens":1}"#, r#"{"input_tokens":null,"output_tokens":null}"#],
                [n(1), None, None, None, None],
                &[true, false],
            ),
            (&[r#"{"cache_read_input_tokens":4}"#], [None, None, n(4), None, None], &[true]),
            (
                &["null", "[1]", r#"{"output_tokens":"x","cache_creation":7,"output_tokens_details":null}"#],
                [None; 5],
                &[false; 3],
            ),
        ];
        for (objects, figures, news) in table {
            assert_eq!(merged(objects), (figures, news.to_vec()), "{objects:?}");
        }
    }
}
