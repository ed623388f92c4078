//! What tokens cost.
//!
//! A table of prices is data: the one that comes with the crate (`data/prices.json` says where it is from, and of when)
//! and those of your own over it. A model that no table knows has no price, which is not zero.
//!
//! ```
//! use turnwright_core::TokenUsage;
//! use turnwright_llm_stream::prices::Prices;
//!
//! // Your own contract, and a server of your own that costs nothing a token.
//! let own = r#"{ "providers": {
//!     "acme": { "models": { "large": { "input": 1.0, "output": 4.0 } } },
//!     "local": { "models": { "*": { "input": 0, "output": 0 } } }
//! } }"#;
//! let prices = Prices::built_in().clone().with(Prices::from_json(own)?);
//!
//! let usage = TokenUsage { input_tokens: Some(2_000_000), output_tokens: Some(1_000), ..TokenUsage::UNKNOWN };
//! assert_eq!(prices.cost("acme", "large-2026-05-01", &usage), Some(2.004));
//! assert_eq!(prices.cost("local", "llama", &usage), Some(0.0));
//! assert_eq!(prices.cost("acme", "small", &usage), None);
//! # Ok::<(), turnwright_llm_stream::prices::PricesError>(())
//! ```

mod table;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use turnwright_core::TokenUsage;

pub use table::PricesError;
use table::Table;

/// Tables of prices, the latest first asked. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Prices(Vec<Arc<Table>>);

/// What the tokens of one model cost, in US dollars a million.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens of the prompt that came from no cache.
    pub input: f64,
    /// Tokens of the answer, reasoning included.
    pub output: f64,
    /// Tokens of the prompt that were read from a cache; as any other when not given.
    pub cache_read: Option<f64>,
    /// Tokens of the prompt that were written to a cache; as any other when not given. Providers ask for more where the
    /// cache lasts longer, which usage does not tell: this is the price of the shortest time.
    pub cache_write: Option<f64>,
    /// Other prices for long prompts: of all tokens of such a call.
    pub long: Option<LongPrice>,
}

/// What the tokens of a call with a long prompt cost, in US dollars a million.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// Prompts of more tokens than this are long, cached ones included.
    pub over: u64,
    /// As [`Price::input`].
    pub input: f64,
    /// As [`Price::output`].
    pub output: f64,
    /// As [`Price::cache_read`].
    pub cache_read: Option<f64>,
    /// As [`Price::cache_write`].
    pub cache_write: Option<f64>,
}

static BUILT_IN: LazyLock<Prices> = LazyLock::new(|| {
    // A test holds that it can be read.
    Prices::from_json(include_str!("../data/prices.json")).unwrap_or_default()
});

impl Prices {
    /// The table that comes with the crate. Prices change: check before you bill anybody.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads a table: `{ "providers": { PROVIDER: { "models": { MODEL: PRICE } } } }`, with `"about"` beside `providers`
    /// and `"source"` beside `models` for people. A provider is named as its client names itself
    /// ([`crate::LlmClient::provider`]). A price has the fields of [`Price`].
    ///
    /// A model's name stands for itself and for its dated versions (`-20260501`, `-2026-05-01`, `@20260501`, `-latest`); one
    /// that ends in `*` for every model that begins so. The longest one that fits counts.
    ///
    /// # Errors
    /// [`PricesError`]: it is no JSON of this form, or a price is negative.
    pub fn from_json(json: &str) -> Result<Self, PricesError> {
        Ok(Self(vec![Arc::new(Table::from_json(json)?)]))
    }

    /// These prices, and over them those ones: a model that they know costs what they say.
    #[must_use]
    pub fn with(mut self, over: Self) -> Self {
        self.0.splice(0..0, over.0);
        self
    }

    /// The price of a model, if it is known.
    pub fn of(&self, provider: &str, model: &str) -> Option<&Price> {
        self.0.iter().find_map(|table| table.find(provider, model))
    }

    /// What a call cost, in US dollars: see [`Price::cost`]. None when the model's price or the usage is not known.
    pub fn cost(&self, provider: &str, model: &str, usage: &TokenUsage) -> Option<f64> {
        self.of(provider, model)?.cost(usage)
    }
}

impl Price {
    /// What one call cost, in US dollars. None unless input and output are known. A partial usage gives the cost of what is
    /// known: the call cost at least that. Where cached tokens are not told, all count as read anew.
    ///
    /// Price each call by itself and add: the sum of a turn's usage is no long prompt, and may be of several models.
    pub fn cost(&self, usage: &TokenUsage) -> Option<f64> {
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        let Self { long, .. } = *self;
        let price = match long.filter(|long| input > long.over) {
            Some(LongPrice { over: _, input, output, cache_read, cache_write }) => {
                Self { input, output, cache_read, cache_write, long }
            }
            None => *self,
        };
        let read = usage.cache_read_input_tokens.unwrap_or(0).min(input);
        let written = usage.cache_creation_input_tokens.unwrap_or(0).min(input - read);
        let of = |tokens: u64, price: f64| tokens as f64 * price;
        let dollars = of(input - read - written, price.input)
            + of(read, price.cache_read.unwrap_or(price.input))
            + of(written, price.cache_write.unwrap_or(price.input))
            + of(output, price.output);
        Some(dollars / 1e6)
    }
}
