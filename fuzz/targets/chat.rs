//! Any bytes: the decoder of chat completions.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("chat", input));
