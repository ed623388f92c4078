//! Any bytes: the decoder of Ollama.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| turnwright_fuzz::run("ollama", input));
