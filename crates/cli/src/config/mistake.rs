//! Something that is wrong with a file, and where.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::Refusal;

/// One mistake.
#[derive(Debug)]
pub(crate) struct Mistake {
    line: usize,
    column: usize,
    /// The key; none where the file is no TOML.
    key: Option<String>,
    message: String,
    /// The line itself.
    shown: String,
}

impl Mistake {
    /// What is wrong at this byte of the text.
    pub(super) fn at(text: &str, at: usize, key: Option<String>, message: String) -> Self {
        let (line, column) = place(text, at);
        let shown = text.lines().nth(line - 1).unwrap_or_default().to_owned();
        Self { line, column, key, message, shown }
    }

    /// As `config check --json` shows it.
    pub(super) fn json(&self) -> Json {
        let Self { line, column, key, message, .. } = self;
        json!({ "line": line, "column": column, "key": key, "message": message })
    }

    fn told(&self, file: &Path) -> String {
        let Self { line, column, key, message, shown } = self;
        let key = key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
        format!("{}:{line}:{column}: {key}{message}\n  {shown}", file.display())
    }
}

/// All of them at once, for people.
pub(super) fn refusal(file: &Path, mistakes: &[Mistake]) -> Refusal {
    let told: Vec<String> = mistakes.iter().map(|mistake| mistake.told(file)).collect();
    Refusal::new(told.join("\n"))
        .hint("docs/configuration.md lists every key; `turnwright config show` those that count")
}

/// A line and column, counted from 1.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
