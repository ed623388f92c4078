//! Any bytes: the adapters of a stream, and the assembler.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("events", input));
