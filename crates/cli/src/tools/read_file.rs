//! `read_file`.

use std::{fmt::Write, io::Read};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{MOST_BYTES, Workspace, cut, workspace::unreadable};

/// The largest file that is read at all.
const LARGEST: u64 = 8 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the tool root.
    path: String,
    /// The first line to read, counted from 1. The beginning by default.
    start_line: Option<usize>,
    /// How many lines to read. As many as fit by default.
    line_count: Option<usize>,
}

/// Reads a text file, or some lines of it.
pub(crate) fn read_file(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe =
        "Reads a text file, whole or some lines of it. Long files come in parts; the end says how to go on.";
    tool("read_file", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move { ctx.blocking(move |_| read(&workspace, &args)).await }
    })
    .parallel()
    .idempotent()
}

fn read(workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    let path = &args.path;
    let (file, size) = workspace.file(path)?;
    let too_large = |size: u64| {
        let most = LARGEST >> 20;
        ToolError::model(format!(
            "{path:?} has {size} bytes, and files over {most} MiB are not read; search finds lines in smaller files"
        ))
    };
    if size > LARGEST {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // The size may have grown, or be unknown.
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    if bytes.len() as u64 > LARGEST {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.contains(&0) {
        return Err(ToolError::model(format!(
            "{path:?} is a binary file of {} bytes, not text",
            bytes.len()
        )));
    }
    let text = String::from_utf8_lossy(&bytes);
    part(&text, args.start_line.unwrap_or(1).max(1), args.line_count.unwrap_or(usize::MAX).max(1))
}

/// Some lines, and where they stand if they are not all.
fn part(text: &str, start: usize, count: usize) -> Result<String, ToolError> {
    let total = text.lines().count();
    if total == 0 {
        return Ok("[the file is empty]".into());
    }
    if start > total {
        return Err(ToolError::model(format!("the file has {total} lines; line {start} is beyond its end")));
    }
    let mut out = String::new();
    let mut last = start - 1;
    for line in text.split_inclusive('\n').skip(start - 1).take(count) {
        if out.len() + line.len() > MOST_BYTES {
            break;
        }
        out.push_str(line);
        last += 1;
    }
    if last < start {
        // Not even one line fits.
        let line = text.lines().nth(start - 1).unwrap_or_default();
        let (head, _) = cut(line, MOST_BYTES);
        return Ok(format!("{head}\n[line {start} of {total}, cut: it has {} bytes]", line.len()));
    }
    if start > 1 || last < total {
        if !out.ends_with('\n') {
            out.push('\n');
        }
        // Writing to a string does not fail.
        let _ = write!(out, "[lines {start} to {last} of {total}");
        if last < total {
            let _ = write!(out, "; start_line {} goes on", last + 1);
        }
        out.push(']');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_where_it_stands_and_how_to_go_on() {
        let text = "a\nb\nc";
        assert_eq!(part(text, 1, 9).unwrap(), text);
        assert_eq!(part(text, 2, 1).unwrap(), "b\n[lines 2 to 2 of 3; start_line 3 goes on]");
        assert_eq!(part(text, 3, 1).unwrap(), "c\n[lines 3 to 3 of 3]");
        assert_eq!(part("", 1, 1).unwrap(), "[the file is empty]");
        assert!(format!("{:?}", part(text, 4, 1).unwrap_err()).contains("has 3 lines"));
    }

    #[test]
    fn output_is_bounded_between_characters() {
        let long = "é".repeat(MOST_BYTES);
        let out = part(&format!("x\n{long}\ny"), 2, 5).unwrap();
        assert!(out.len() < MOST_BYTES + 100 && out.contains("[line 2 of 3, cut"), "{}", out.len());
        let many = "line\n".repeat(20_000);
        let out = part(&many, 1, usize::MAX).unwrap();
        assert!(
            out.ends_with("[lines 1 to 8000 of 20000; start_line 8001 goes on]"),
            "{}",
            &out[out.len() - 80..]
        );
    }
}
