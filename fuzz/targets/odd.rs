//! Any bytes: events of a format, in any order.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("odd", input));
