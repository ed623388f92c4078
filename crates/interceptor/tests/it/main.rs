//! What the chains promise, through their public face.

#[cfg(test)]
mod builtin;
#[cfg(test)]
mod cancel;
#[cfg(test)]
mod exit;
#[cfg(test)]
mod gating;
#[cfg(test)]
mod llm_breaker;
#[cfg(test)]
mod llm_cache;
mod llm_context;
#[cfg(test)]
mod llm_fallback;
#[cfg(test)]
mod llm_limit;
#[cfg(test)]
mod llm_retry;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod order;
#[cfg(test)]
mod random;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod settle;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod support;

/// What the compiler tells whoever misuses a layer.
#[test]
fn misuse_does_not_compile_and_says_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
