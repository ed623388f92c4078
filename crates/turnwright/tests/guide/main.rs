//! What doc tests of the guide do not run: programs that are tests themselves.

mod page;

#[test]
fn the_page_about_testing_shows_what_runs_here() {
    let page = include_str!("../../../../docs/guide/testing.md");
    let (_, code) = include_str!("page.rs").split_once("\n\n").unwrap();
    assert!(page.contains(&format!("```rust\n{code}```\n")), "{code}");
}
