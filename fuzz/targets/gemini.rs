//! Any bytes: the decoder of Gemini.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("gemini", input));
