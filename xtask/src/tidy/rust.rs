//! Rust sources: module docs, sizes, leftovers, and how a lint is silenced.

use crate::Report;
use crate::source::{Source, find_words, line_of};

/// Lines outside tests from which a file is long, and from which it is too long.
const LONG: usize = 500;
const TOO_LONG: usize = 800;

pub(crate) fn check(path: &str, text: &str) -> Report {
    let source = Source::parse(path, text);
    let mut report = Report::default();
    if !opens_with_docs(text) && !is_compiler_test(path) {
        report.failures.push(format!("{path}: open the file with a `//!` line that says what it holds"));
    }
    let lines = source.lines_outside_tests();
    if lines > TOO_LONG {
        report.failures.push(format!("{path}: {lines} lines outside tests, {TOO_LONG} at most: split it"));
    } else if lines > LONG {
        report.warnings.push(format!("{path}: {lines} lines outside tests, better {LONG} at most"));
    }
    let code = source.code();
    let mut fault =
        |at: usize, what: &str| report.failures.push(format!("{path}:{}: {what}", line_of(code, at)));
    for macro_name in ["todo!", "unimplemented!", "dbg!"] {
        find_words(code, macro_name).for_each(|at| fault(at, &format!("`{macro_name}` is left over")));
    }
    for (at, attribute) in attributes(code) {
        let body = attribute.trim_start_matches(['#', '!', '[']).trim_start();
        let is = |name: &str| body.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_identifier));
        if is("ignore") {
            fault(at, "`#[ignore]`: a test runs or goes");
        } else if is("allow") {
            fault(at, "`#[allow(…)]`: write `#[expect(…, reason = \"…\")]`");
        } else if is("expect") && find_words(body, "reason").next().is_none() {
            fault(at, "`#[expect(…)]` without a reason: add `reason = \"…\"`");
        } else if is("cfg_attr") && find_words(body, "allow(").next().is_some() {
            fault(at, "`allow` in `cfg_attr`: write `expect` with a reason");
        } else if is("cfg_attr") && find_words(body, "ignore").next().is_some() {
            fault(at, "`ignore` in `cfg_attr`: a test runs or goes");
        }
    }
    report
}

fn opens_with_docs(text: &str) -> bool {
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty()).unwrap_or_default();
    first.starts_with("//!") || first.starts_with("#![doc")
}

/// Inputs of compile-fail tests: their line numbers stand in the expected output.
fn is_compiler_test(path: &str) -> bool {
    path.contains("/ui/")
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Each attribute with the byte where it starts.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = code.match_indices('#').map(|(at, _)| at);
    starts.filter(|at| code[*at..].starts_with("#[") || code[*at..].starts_with("#![")).map(|at| {
        let mut depth = 0_usize;
        let end = code[at..].char_indices().find(|(_, c)| {
            depth = if *c == '[' { depth + 1 } else { depth };
            depth = if *c == ']' { depth.saturating_sub(1) } else { depth };
            *c == ']' && depth == 0
        });
        (at, &code[at..end.map_or(code.len(), |(offset, _)| at + offset + 1)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fails(text: &str, word: &str) {
        let found = check("src/a.rs", text).failures;
        assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
    }

    #[test]
    fn good_files_pass() {
        let text = "//! A file.\n#[expect(dead_code, reason = \"later\")]\nfn a() { b.allow(1); ignore(2); allowed![]; } // todo!()\n\
                    const C: &str = \"dbg!(x) #[ignore]\";\n#[allowance]\nstruct D;\n";
        assert_eq!(check("src/a.rs", text), Report::default());
        assert_eq!(check("tests/ui/a.rs", "fn a() {}"), Report::default());
    }

    #[test]
    fn leftovers_and_silenced_lints_fail() {
        fails("fn a() {}", "`//!`");
        fails("", "`//!`");
        fails("//! A.\nfn a() { todo!() }", ":2: `todo!`");
        fails("//! A.\nfn a() { unimplemented!(\"x\") }", "`unimplemented!`");
        fails("//! A.\n#[cfg(test)]\nmod tests { fn a() { dbg!(1); } }", ":3: `dbg!`");
        fails("//! A.\n#[test]\n#[ignore = \"slow\"]\nfn a() {}", ":3: `#[ignore]`");
        fails("//! A.\n#[cfg_attr(windows, ignore)]\nfn a() {}", "`ignore` in");
        fails("//! A.\n#![allow(dead_code, reason = \"x\")]", "`#[expect(");
        fails("//! A.\n#[cfg_attr(test, allow(dead_code))]\nfn a() {}", "`allow` in");
        fails("//! A.\n#[expect(\n  dead_code\n)]\nfn a() {}", "without a reason");
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        let of = |lines: usize| format!("//! A.\n{}", "fn a() {}\n".repeat(lines - 1));
        assert_eq!(check("src/a.rs", &of(LONG)), Report::default());
        assert_eq!(check("src/a.rs", &of(LONG + 1)).warnings.len(), 1);
        assert_eq!(check("src/a.rs", &of(TOO_LONG)).failures.len(), 0);
        fails(&of(TOO_LONG + 1), "801 lines");
        let tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", of(LONG), "fn a() {}\n".repeat(TOO_LONG));
        assert_eq!(check("src/a.rs", &tests), Report::default());
        assert_eq!(check("tests/src/a.rs", &of(TOO_LONG + 1)), Report::default());
    }
}
