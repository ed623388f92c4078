//! `search`.

use std::{fs::File, io::Read, path::Path};

use ignore::WalkBuilder;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{MOST_BYTES, Workspace, cut};

/// The most matching lines that are shown, and how much of each.
const MOST: usize = 100;
const MOST_OF_A_LINE: usize = 240;
/// Larger files are skipped.
const LARGEST: u64 = 1 << 20;
/// The most files that are looked at.
const MOST_FILES: usize = 50_000;

#[derive(Debug, Deserialize, JsonSchema)]
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
    let describe =
        "Searches text files for lines that match. Hidden files and those that .gitignore names are skipped.";
    tool("search", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move { ctx.blocking(move |ctx| find(ctx, &workspace, &args)).await }
    })
    .parallel()
    .idempotent()
}

fn find(ctx: &ToolContext, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    let pattern = pattern(args)?;
    let start = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
    // Links are not followed: a file is found where it is, and not outside.
    let walk = WalkBuilder::new(start)
        .follow_links(false)
        .require_git(false)
        .sort_by_file_path(Ord::cmp)
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|t| t.is_file()));
    let mut found = Found { lines: Vec::new(), bytes: 0, files: 0, skipped: 0 };
    for entry in walk {
        // The thread cannot be stopped from outside.
        if ctx.cancel().is_cancelled() {
            return Err(ToolError::model("the search was cancelled"));
        }
        if found.is_full() {
            break;
        }
        found.add(workspace, entry.path(), &pattern);
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

    fn add(&mut self, workspace: &Workspace, path: &Path, pattern: &Regex) {
        self.files += 1;
        let Some(text) = text_of(path) else {
            self.skipped += 1;
            return;
        };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
            if self.is_full() {
                return;
            }
            let (head, is_cut) = cut(line, MOST_OF_A_LINE);
            let end = if is_cut { "…" } else { "" };
            let line = format!("{}:{}: {head}{end}", workspace.shown(path), number + 1);
            self.bytes += line.len() + 1;
            self.lines.push(line);
        }
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
    File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > LARGEST || bytes.contains(&0) {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
