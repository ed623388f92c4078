//! Any bytes: the classifier of errors.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("errors", input));
