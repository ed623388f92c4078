//! Any bytes: the decoder of Messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("messages", input));
