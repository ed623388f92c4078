//! What the suite found.

use std::fmt;

use crate::{check::Verdict, provider::WireFormat};

/// What the suite found of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The format the client spoke.
    pub format: WireFormat,
    /// What was tried, in order.
    pub outcomes: Vec<Outcome>,
}

/// One thing that was tried.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The scenario, or the point of the contract.
    pub name: &'static str,
    /// Whether the client did as it must; else what it did.
    pub verdict: Verdict,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_pass(&self) -> bool {
        self.failures().next().is_none()
    }

    /// What is wrong: names, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| Some((outcome.name, outcome.verdict.as_ref().err()?.as_str())))
    }
}

/// The count, and a line for each failure.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures().count();
        let all = self.outcomes.len();
        write!(f, "{}: {} of {all} passed", self.format, all - failed)?;
        for (name, why) in self.failures() {
            write!(f, "\n  {name}: {why}")?;
        }
        Ok(())
    }
}
