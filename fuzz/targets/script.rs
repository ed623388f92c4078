//! Any bytes: scripts in every format, encoding and framing.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("script", input));
