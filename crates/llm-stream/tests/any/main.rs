//! What holds for any input: one body a part, run here on the committed seeds and on random input, and by the fuzzers of
//! `fuzz/` for as long as somebody lets them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: the helpers of tests count as such"
)]

mod bodies;
mod seeds;
mod words;

use proptest::prelude::*;

/// Runs a body on its seeds, on seeds that were damaged or cut, on words of its format strung together, and on random
/// bytes.
fn run(name: &str, cases: u32) {
    let (_, body) = bodies::ALL.iter().find(|(known, _)| *known == name).unwrap();
    let seeds = seeds::of(name);
    seeds.iter().for_each(|seed| body(seed));
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let damaged = (prop::sample::select(seeds), damage, any::<prop::sample::Index>()).prop_map(
        |(mut seed, damage, cut): (Vec<u8>, Vec<(prop::sample::Index, u8)>, prop::sample::Index)| {
            for (at, byte) in damage {
                if !seed.is_empty() {
                    let at = at.index(seed.len());
                    seed[at] = byte;
                }
            }
            // Half of them whole.
            let cut = cut.index(2 * seed.len() + 1);
            seed.truncate(cut);
            seed
        },
    );
    let words = prop::collection::vec(prop::sample::select(words::of(name)), 0..30)
        .prop_map(|words| words.concat().into_bytes());
    let random = prop::collection::vec(any::<u8>(), 0..600);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest!(config, |(input in prop_oneof![random, words, damaged])| body(&input));
}

#[test]
fn fault_r1_21_any_bytes_frame_as_the_standard_says_at_any_split() {
    run("sse", 500);
}

#[test]
fn fault_e2_lines_and_elements_come_out_as_they_went_in_at_any_split() {
    run("lines", 300);
    run("array", 300);
}

#[test]
fn fault_r1_21_any_bytes_end_in_one_terminal_event_at_any_split_within_the_caps() {
    for name in ["chat", "responses", "messages", "gemini", "ollama", "converse"] {
        run(name, 150);
    }
}

#[test]
fn events_in_any_order_end_once_at_any_split() {
    run("odd", 400);
}

#[test]
fn fault_e1_e2_r1_21_a_script_means_the_same_in_any_format_encoding_framing_and_split() {
    run("script", 1000);
}

#[test]
fn fault_d1_r17_any_events_end_once_and_assemble_to_what_they_say() {
    run("events", 500);
}

#[test]
fn any_refusal_is_classified_without_its_secrets() {
    run("errors", 500);
}

#[test]
fn every_body_is_run_here() {
    let own = include_str!("main.rs");
    for (name, _) in bodies::ALL {
        assert!(own.contains(&format!("\"{name}\"")), "{name}");
        assert!(!seeds::of(name).is_empty(), "{name} has no seed");
    }
}
