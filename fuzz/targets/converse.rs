//! Any bytes: the decoder of ConverseStream.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("converse", input));
