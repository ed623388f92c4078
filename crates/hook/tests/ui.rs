//! What the compiler tells whoever registers something that is no hook.

#[test]
fn misuse_does_not_compile_and_says_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
