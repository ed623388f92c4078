//! Token usage, of which the chunks repeat parts.

use serde::Deserialize;
use turnwright_core::TokenUsage;

use crate::wire::count::Count;

/// The figures so far. A chunk may leave out what an earlier one had.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Usage {
    prompt_token_count: Count,
    /// What the tools of the server itself put into the prompt; not in the former.
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    /// Without thoughts.
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

impl Usage {
    /// Takes the figures of a chunk, each of which replaces the one before. Returns all; nothing when none is known.
    pub(super) fn merge(&mut self, new: Self) -> Option<TokenUsage> {
        for (old, new) in [
            (&mut self.prompt_token_count, new.prompt_token_count),
            (&mut self.tool_use_prompt_token_count, new.tool_use_prompt_token_count),
            (&mut self.cached_content_token_count, new.cached_content_token_count),
            (&mut self.candidates_token_count, new.candidates_token_count),
            (&mut self.thoughts_token_count, new.thoughts_token_count),
        ] {
            old.0 = new.0.or(old.0);
        }
        let usage = TokenUsage {
            input_tokens: sum(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens: sum(self.candidates_token_count, self.thoughts_token_count),
            cache_read_input_tokens: self.cached_content_token_count.0,
            cache_creation_input_tokens: None,
            reasoning_tokens: self.thoughts_token_count.0,
            partial: false,
        };
        (!usage.is_unknown()).then_some(usage)
    }
}

/// Both together. The format leaves out what is zero.
fn sum(a: Count, b: Count) -> Option<u64> {
    match (a.0, b.0) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lenient::Object;

    fn read(usage: &mut Usage, json: &str) -> Option<[Option<u64>; 4]> {
        let new: Object<Usage> = serde_json::from_str(json).unwrap();
        let u = usage.merge(new.0?)?;
        Some([u.input_tokens, u.output_tokens, u.cache_read_input_tokens, u.reasoning_tokens])
    }

    #[test]
    fn fault_f8_figures_are_merged_and_each_is_counted_once() {
        let mut usage = Usage::default();
        assert_eq!(read(&mut usage, r#"{"trafficType":"ON_DEMAND"}"#), None);
        let n = Some;
        let steps = [
            (r#"{"promptTokenCount":5,"totalTokenCount":5}"#, [n(5), None, None, None]),
            (r#"{"promptTokenCount":5,"thoughtsTokenCount":4}"#, [n(5), n(4), None, n(4)]),
            (r#"{"promptTokenCount":5,"candidatesTokenCount":2}"#, [n(5), n(6), None, n(4)]),
            (r#"{"cachedContentTokenCount":3,"candidatesTokenCount":3}"#, [n(5), n(7), n(3), n(4)]),
            (r#"{"toolUsePromptTokenCount":10,"promptTokenCount":null}"#, [n(15), n(7), n(3), n(4)]),
            (r#"{"candidatesTokenCount":"many","thoughtsTokenCount":-1}"#, [n(15), n(7), n(3), n(4)]),
        ];
        for (json, expected) in steps {
            assert_eq!(read(&mut usage, json), Some(expected), "{json}");
        }
        for odd in ["null", "[]", "7"] {
            assert_eq!(read(&mut Usage::default(), odd), None, "{odd}");
        }
    }
}
