//! `search`.

use std::{io::Read, path::Path};

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{MOST_BYTES, Workspace, cut, walk::Walk, workspace::open_regular};

/// The most matching lines that are shown, and how much of each.
const MOST: usize = 100;
const MOST_OF_A_LINE: usize = 240;
/// Larger files are skipped.
const LARGEST: u64 = 1 << 20;
/// The most files that are looked at.
const MOST_FILES: usize = 50_000;
/// How many lines are matched between two looks at whether somebody cancelled.
const LINES_AT_ONCE: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to search for: a regular expression (Rust syntax), matched line by line.
    pattern: String,
    /// The file or directory to search, relative to the tool root. The root itself by default.
    #[serde(default)]
    path: Option<String>,
    /// Take the pattern as plain text. False by default.
    #[serde(default)]
    literal: bool,
    /// Ignore case. False by default.
    #[serde(default)]
    ignore_case: bool,
}

/// Searches text files.
pub(crate) fn search(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe = "Searches text files for lines that match. Hidden files and those that .gitignore or .ignore name are skipped.";
    tool("search", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        let work = move |ctx: &ToolContext| find(&|| ctx.cancel().is_cancelled(), &workspace, &args);
        async move { ctx.blocking(work).await }
    })
    .parallel()
    .idempotent()
}

/// The thread cannot be stopped from outside: `is_cancelled` is asked at every entry and within long files.
fn find(is_cancelled: &dyn Fn() -> bool, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    let pattern = pattern(args)?;
    let start = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
    let mut found = Found { lines: Vec::new(), bytes: 0, files: 0, skipped: 0 };
    for file in Walk::new(workspace, start) {
        if found.is_full() {
            break;
        }
        let is_whole = match file {
            _ if is_cancelled() => false,
            Some(path) => found.add(is_cancelled, workspace, &path, &pattern),
            None => true,
        };
        if !is_whole {
            return Err(ToolError::model("the search was cancelled"));
        }
    }
    Ok(found.shown())
}

fn pattern(args: &Args) -> Result<Regex, ToolError> {
    if args.pattern.is_empty() {
        return Err(ToolError::model("the pattern is empty"));
    }
    let literal = args.literal.then(|| regex::escape(&args.pattern));
    RegexBuilder::new(literal.as_ref().unwrap_or(&args.pattern))
        .case_insensitive(args.ignore_case)
        .build()
        .map_err(|e| {
            ToolError::model(format!("the pattern cannot be used: {e}; `literal` takes it as plain text"))
        })
}

struct Found {
    lines: Vec<String>,
    bytes: usize,
    files: usize,
    skipped: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.lines.len() >= MOST || self.bytes >= MOST_BYTES || self.files >= MOST_FILES
    }

    /// Adds the matching lines of a file. Answers whether that was not cancelled.
    fn add(
        &mut self,
        is_cancelled: &dyn Fn() -> bool,
        workspace: &Workspace,
        path: &Path,
        pattern: &Regex,
    ) -> bool {
        self.files += 1;
        let Some(text) = text_of(path) else {
            self.skipped += 1;
            return true;
        };
        for (number, line) in text.lines().enumerate() {
            if number % LINES_AT_ONCE == LINES_AT_ONCE - 1 && is_cancelled() {
                return false;
            }
            if !pattern.is_match(line) {
                continue;
            }
            if self.is_full() {
                break;
            }
            let (head, is_cut) = cut(line, MOST_OF_A_LINE);
            let end = if is_cut { "…" } else { "" };
            let line = format!("{}:{}: {head}{end}", workspace.shown(path), number + 1);
            self.bytes += line.len() + 1;
            self.lines.push(line);
        }
        true
    }

    fn shown(mut self) -> String {
        let of = match self.skipped {
            0 => format!("{} files", self.files),
            n => format!("{} files, {n} of them binary, unreadable or too large", self.files),
        };
        if self.lines.is_empty() {
            return format!("[no line matches in {of}]");
        }
        if self.is_full() {
            self.lines
                .push(format!("[{} lines shown, there may be more: narrow the search]", self.lines.len()));
        }
        self.lines.join("\n")
    }
}

/// The file's text, unless it is binary, unreadable or too large.
fn text_of(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(path).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > LARGEST || bytes.contains(&0) {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::*;

    #[test]
    fn a_cancelled_search_stops_between_directories_and_within_a_file() {
        let root = std::env::temp_dir().join(format!("turnwright-search-{}", std::process::id()));
        fs::create_dir_all(root.join("empty")).unwrap();
        fs::write(root.join("long.txt"), "line\n".repeat(10 * LINES_AT_ONCE)).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        let args = |path: &str| Args {
            pattern: "none".into(),
            path: Some(path.into()),
            literal: false,
            ignore_case: false,
        };
        let looks_until = |limit: usize, path: &str| {
            let looks = Cell::new(0);
            let is_cancelled = || looks.replace(looks.get() + 1) + 1 >= limit;
            let answer = find(&is_cancelled, &workspace, &args(path));
            (looks.get(), answer.is_err())
        };
        assert_eq!(looks_until(usize::MAX, "long.txt"), (11, false));
        assert_eq!(looks_until(3, "long.txt"), (3, true));
        assert_eq!(looks_until(1, "empty"), (1, true), "where no file is, somebody looks too");
        fs::remove_dir_all(root).unwrap();
    }
}
