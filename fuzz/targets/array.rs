//! Any bytes: texts as elements of an array.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("array", input));
