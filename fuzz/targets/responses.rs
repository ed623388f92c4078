//! Any bytes: the decoder of Responses.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("responses", input));
