//! Prices: what is known, what a call costs, and what a table of one's own changes.

use turnwright_core::TokenUsage;
use turnwright_llm_stream::prices::{Price, Prices};

fn usage(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input_tokens: Some(input), output_tokens: Some(output), ..TokenUsage::UNKNOWN }
}

/// In millionths of a dollar.
fn micros(cost: Option<f64>) -> Option<i64> {
    cost.map(|dollars| (dollars * 1e6).round() as i64)
}

#[test]
fn the_built_in_table_is_read_and_what_it_does_not_know_has_no_price() {
    let prices = Prices::built_in();
    let cost = |provider: &str, model: &str| micros(prices.cost(provider, model, &usage(1_000, 1_000)));
    assert_eq!(cost("openai", "gpt-4o-mini"), Some(150 + 600));
    assert_eq!(cost("openai", "gpt-4o-mini-2024-07-18"), Some(150 + 600));
    assert_eq!(cost("openai", "gpt-4o-2024-08-06"), Some(2_500 + 10_000));
    assert_eq!(
        cost("openai", "gpt-4o-2024-05-13"),
        Some(5_000 + 15_000),
        "a version with a price of its own"
    );
    assert_eq!(cost("anthropic", "claude-haiku-4-5-20251001"), Some(1_000 + 5_000));
    assert_eq!(cost("anthropic", "claude-opus-4-20250514"), Some(15_000 + 75_000));
    assert_eq!(cost("anthropic", "claude-opus-4-5"), Some(5_000 + 25_000), "the longest name counts");
    assert_eq!(cost("gcp.gemini", "gemini-2.5-flash"), Some(300 + 2_500));
    for (provider, model) in [
        ("openai", "gpt-4o-audio-preview"),
        ("openai", "gpt-5-pro"),
        ("openai", "gpt-5.9"),
        ("anthropic", "claude-opus-4-9"),
        ("anthropic", "gpt-4o"),
        ("ollama", "llama3"),
        ("nobody", "gpt-4o"),
        ("openai", ""),
    ] {
        assert_eq!(prices.of(provider, model), None, "{provider}/{model}");
    }
}

#[test]
fn fault_r6_95_cached_tokens_have_their_own_price_and_are_part_of_the_input() {
    let price = Price { input: 4.0, output: 20.0, cache_read: Some(0.4), cache_write: Some(5.0), long: None };
    let cached = |read, written| TokenUsage {
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
        ..usage(1_000, 100)
    };
    assert_eq!(micros(price.cost(&cached(None, None))), Some(4_000 + 2_000));
    assert_eq!(micros(price.cost(&cached(Some(600), Some(100)))), Some(300 * 4 + 240 + 500 + 2_000));
    assert_eq!(
        micros(price.cost(&cached(Some(9_000), Some(9_000)))),
        Some(400 + 2_000),
        "no more than there is"
    );
    let plain = Price { cache_read: None, cache_write: None, ..price };
    assert_eq!(plain.cost(&cached(Some(600), Some(100))), plain.cost(&usage(1_000, 100)));
    let unknown = TokenUsage { output_tokens: None, ..usage(1_000, 0) };
    assert_eq!((price.cost(&unknown), price.cost(&TokenUsage::UNKNOWN)), (None, None), "unknown is not zero");
}

#[test]
fn a_long_prompt_has_another_price_for_all_of_its_call() {
    let prices = Prices::from_json(
        r#"{ "providers": { "p": { "models": { "m": { "input": 1, "output": 2, "cache_read": 0.5,
            "long": { "over": 100, "input": 10, "output": 20 } } } } } }"#,
    )
    .unwrap();
    let cost = |input, read| {
        micros(prices.cost("p", "m", &TokenUsage { cache_read_input_tokens: Some(read), ..usage(input, 10) }))
    };
    assert_eq!((cost(100, 0), cost(100, 100)), (Some(100 + 20), Some(50 + 20)));
    assert_eq!(
        (cost(101, 0), cost(101, 101)),
        (Some(1_010 + 200), Some(1_010 + 200)),
        "cached ones make it long"
    );
}

#[test]
fn a_table_of_ones_own_wins_for_what_it_knows_and_wrong_ones_are_refused() {
    let own = |json: &str| Prices::from_json(json);
    let ours = own(r#"{ "about": "ours", "providers": { "openai": { "source": "a contract", "models": {
        "gpt-4o*": { "input": 1, "output": 1 }, "gpt-4o-mini": { "input": 2, "output": 2 } } } } }"#);
    let prices = Prices::built_in().clone().with(ours.unwrap());
    let input = |model: &str| prices.of("openai", model).map(|price| price.input);
    assert_eq!((input("gpt-4o"), input("gpt-4o-audio-preview")), (Some(1.0), Some(1.0)));
    assert_eq!((input("gpt-4o-mini"), input("gpt-4.1")), (Some(2.0), Some(2.0)));
    assert_eq!(prices.of("anthropic", "claude-haiku-4-5").map(|price| price.output), Some(5.0));
    for wrong in [
        "",
        "{}",
        r#"{ "providers": { "p": { "models": { "m": { "input": 1 } } } } }"#,
        r#"{ "providers": { "p": { "models": { "m": { "input": 1, "output": 1, "cached": 1 } } } } }"#,
        r#"{ "providers": { "p": { "models": { "m": { "input": 1, "output": -1 } } } } }"#,
        r#"{ "providers": { "p": { "models": { "m": { "input": 1, "output": 1, "long": { "over": 1, "input": -1, "output": 1 } } } } } }"#,
        r#"{ "providers": { "p": { "models": { "m": { "input": "1", "output": 1 } } } }, "more": 1 }"#,
    ] {
        let error = own(wrong).unwrap_err().to_string();
        assert!(error.starts_with("the table of prices cannot be read: "), "{error}");
    }
}
