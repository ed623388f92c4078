//! Token usage.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, or of several added up with [`TokenUsage::plus`].
///
/// `None` is *unknown*, which is not zero. `input_tokens` includes cached ones and `output_tokens` includes
/// reasoning, as the OpenTelemetry GenAI conventions count them; the cache and reasoning fields say how much of
/// them was what. Snapshots of one stream replace each other; only different calls are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens of the prompt, cached ones included.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// The part of the input that was read from a cache.
    #[serde(default)]
    pub cache_read_input_tokens: Option<u64>,
    /// The part of the input that was written to a cache.
    #[serde(default)]
    pub cache_creation_input_tokens: Option<u64>,
    /// The part of the output that is reasoning.
    #[serde(default)]
    pub reasoning_tokens: Option<u64>,
    /// The figures are what was known when the call was cut, or leave out calls of unknown usage.
    #[serde(default)]
    pub partial: bool,
}

impl TokenUsage {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        input_tokens: None,
        output_tokens: None,
        cache_read_input_tokens: None,
        cache_creation_input_tokens: None,
        reasoning_tokens: None,
        partial: false,
    };

    /// Whether no figure at all is known.
    pub fn is_unknown(&self) -> bool {
        Self { partial: false, ..*self } == Self::UNKNOWN
    }

    /// Input and output together; unknown when either is.
    pub fn total_tokens(&self) -> Option<u64> {
        Some(self.input_tokens?.saturating_add(self.output_tokens?))
    }

    /// The usage of two different calls together. A figure that only one of them knows is kept, and the sum is
    /// then marked partial when the figure is input or output.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            }
        }
        let lopsided = self.input_tokens.is_some() != other.input_tokens.is_some()
            || self.output_tokens.is_some() != other.output_tokens.is_some();
        Self {
            input_tokens: add(self.input_tokens, other.input_tokens),
            output_tokens: add(self.output_tokens, other.output_tokens),
            cache_read_input_tokens: add(self.cache_read_input_tokens, other.cache_read_input_tokens),
            cache_creation_input_tokens: add(
                self.cache_creation_input_tokens,
                other.cache_creation_input_tokens,
            ),
            reasoning_tokens: add(self.reasoning_tokens, other.reasoning_tokens),
            partial: self.partial || other.partial || lopsided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_zero() {
        let known = TokenUsage { input_tokens: Some(3), output_tokens: Some(0), ..TokenUsage::UNKNOWN };
        assert!(!known.is_unknown());
        assert!(TokenUsage::UNKNOWN.is_unknown());
        assert_eq!(TokenUsage::UNKNOWN.total_tokens(), None);
        let sum = known.plus(TokenUsage::UNKNOWN);
        assert_eq!((sum.input_tokens, sum.output_tokens, sum.partial), (Some(3), Some(0), true));
        assert!(!known.plus(known).partial);
    }
}
