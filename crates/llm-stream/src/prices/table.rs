//! One table, and finding a model in it.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use super::{LongPrice, Price};

/// Why a table of prices was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PricesError(String);

impl std::fmt::Display for PricesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the table of prices cannot be read: {}", self.0)
    }
}

impl std::error::Error for PricesError {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default, rename = "about")]
    _about: IgnoredAny,
    providers: BTreeMap<String, Provider>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    #[serde(default, rename = "source")]
    _source: IgnoredAny,
    models: BTreeMap<String, Price>,
}

impl Table {
    pub(super) fn from_json(json: &str) -> Result<Self, PricesError> {
        let table: Self = serde_json::from_str(json).map_err(|e| PricesError(e.to_string()))?;
        for (provider, Provider { models, .. }) in &table.providers {
            if let Some((model, _)) = models.iter().find(|(_, price)| price.has_negative()) {
                return Err(PricesError(format!("a price of {provider}/{model} is negative")));
            }
        }
        Ok(table)
    }

    pub(super) fn find(&self, provider: &str, model: &str) -> Option<&Price> {
        let models = &self.providers.get(provider)?.models;
        let fitting = models.iter().filter(|(name, _)| stands_for(name, model));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, price)| price)
    }
}

/// Whether the price of this name is that of the model.
fn stands_for(name: &str, model: &str) -> bool {
    if let Some(begin) = name.strip_suffix('*') {
        return model.starts_with(begin);
    }
    // Not of everything that begins so: `-pro` and `-mini` have prices of their own, and so has the next version.
    model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_version(rest))
}

/// A date, or the newest of them.
fn is_version(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@']) else { return false };
    let digits = version.bytes().filter(u8::is_ascii_digit).count();
    version == "latest" || (digits >= 6 && version.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
}

impl Price {
    fn has_negative(&self) -> bool {
        let Self { input, output, cache_read, cache_write, long } = *self;
        let long = long.map(|LongPrice { over: _, input, output, cache_read, cache_write }| {
            [Some(input), Some(output), cache_read, cache_write]
        });
        let all = [Some(input), Some(output), cache_read, cache_write];
        all.into_iter().chain(long.into_iter().flatten()).flatten().any(|price| price < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_its_dated_versions_and_no_other_model() {
        for (name, model, stands) in [
            ("m-4", "m-4", true),
            ("m-4", "m-4-20260501", true),
            ("m-4", "m-4-2026-05-01", true),
            ("m-4", "m-4@20260501", true),
            ("m-4", "m-4-latest", true),
            ("m-4", "m-4-1", false),
            ("m-4", "m-4-pro", false),
            ("m-4", "m-4.1", false),
            ("m-4", "m-42", false),
            ("m-4", "m-4-20260501-pro", false),
            ("m-4", "m-", false),
            ("m-*", "m-4-pro", true),
            ("*", "anything", true),
            ("m-*", "n", false),
        ] {
            assert_eq!(stands_for(name, model), stands, "{name} for {model}");
        }
    }
}
