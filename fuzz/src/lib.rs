//! What the fuzz targets run: the bodies that the tests of the stream crate run too.

#[path = "../../crates/llm-stream/tests/any/bodies/mod.rs"]
mod bodies;

use std::sync::OnceLock;

/// Runs the body of this name on an input.
///
/// # Panics
/// Where the input breaks a promise of the body, which is what a fuzzer looks for, or where no body has the name.
pub fn run(name: &str, input: &[u8]) {
    static BODY: OnceLock<bodies::Body> = OnceLock::new();
    let body = BODY.get_or_init(|| match bodies::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, body)) => *body,
        None => panic!("there is no body {name}"),
    });
    body(input);
}
