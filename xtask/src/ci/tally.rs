//! What all test programs of a run add up to.

use std::fmt;

/// The closing lines of all test programs added up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    pub(super) fn see(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for count in counts.1.split("; ") {
            let Some((Ok(number), what)) = count.split_once(' ').map(|(n, what)| (n.parse::<u64>(), what))
            else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.see(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        );
        tally.see("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 5 filtered out; finished in 1.00s");
        tally.see("test a ... ok");
        assert_eq!(tally.to_string(), "15 passed, 2 failed, 1 skipped");
    }
}
