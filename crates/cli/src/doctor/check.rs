//! What was found, and how it is shown.

use anstyle::Style;
use serde::Serialize;

use crate::{
    output::{Look, style},
    view::spelled,
};

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// Not there, and a turn can do without it.
    Missing,
    /// Keeps a turn from running.
    Problem,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    name: String,
    status: Status,
    detail: String,
    /// What a person can do about it, or with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Check {
    pub(super) fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }
}

/// Everything that was found.
#[derive(Default)]
pub(super) struct Report(Vec<Check>);

/// As `--json` prints it.
#[derive(Serialize)]
pub(super) struct ReportJson<'a> {
    version: &'static str,
    ok: bool,
    checks: &'a [Check],
}

impl Report {
    pub(super) fn add(&mut self, name: &str, status: Status, detail: impl Into<String>) -> &mut Check {
        self.0.push(Check { name: name.into(), status, detail: detail.into(), hint: None });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Whether nothing keeps a turn from running.
    pub(super) fn can_run(&self) -> bool {
        self.0.iter().all(|check| check.status != Status::Problem)
    }

    pub(super) fn json(&self) -> ReportJson<'_> {
        ReportJson { version: env!("CARGO_PKG_VERSION"), ok: self.can_run(), checks: &self.0 }
    }

    pub(super) fn text(&self, look: Look) -> String {
        let width = self.0.iter().map(|check| check.name.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        for Check { name, status, detail, hint } in &self.0 {
            let (word, style): (_, Style) = match status {
                Status::Ok => ("ok", style::GOOD),
                Status::Missing => ("missing", style::DIM),
                Status::Problem => ("problem", style::ERROR),
            };
            let word = look.paint(style, &format!("{word:7}"));
            text.push_str(&format!("{word}  {name:width$}  {}\n", spelled(detail)));
            if let Some(hint) = hint {
                text.push_str(&format!(
                    "{:9}{:width$}  {} {}\n",
                    "",
                    "",
                    look.paint(style::HINT, "hint:"),
                    spelled(hint)
                ));
            }
        }
        let end = if self.can_run() { "a turn could run" } else { "a turn could not run: see the problems" };
        text + end + "\n"
    }
}
