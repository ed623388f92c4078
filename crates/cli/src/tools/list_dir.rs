//! `list_dir`.

use std::fs;

use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{MOST_BYTES, Workspace, workspace::unreadable};
use crate::view::spelled;

/// The most entries that are listed.
const MOST: usize = 500;
/// The most entries that are looked at: sorting needs them all.
const MOST_SEEN: usize = 100_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The directory, relative to the tool root. The root itself by default.
    #[serde(default)]
    path: Option<String>,
}

/// Lists a directory.
pub(crate) fn list_dir(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe =
        "Lists a directory, one entry a line: directories end in a slash, files have their size in bytes.";
    tool("list_dir", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move { ctx.blocking(move |_| list(&workspace, args.path.as_deref().unwrap_or("."))).await }
    })
    .parallel()
    .idempotent()
}

fn list(workspace: &Workspace, path: &str) -> Result<String, ToolError> {
    let real = workspace.resolve(path)?;
    let mut entries: Vec<_> = fs::read_dir(&real)
        .map_err(|e| unreadable(path, &e))?
        .take(MOST_SEEN)
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry))
        .collect();
    if entries.is_empty() {
        return Ok("[the directory is empty]".into());
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut out = String::new();
    for (shown, (name, entry)) in entries.iter().enumerate() {
        if shown == MOST || out.len() > MOST_BYTES {
            out.push_str(&format!("[{shown} of {} entries]", entries.len()));
            break;
        }
        let name = spelled(name);
        // Of the entry itself: where a link leads is not looked at.
        let line = match entry.metadata() {
            Ok(m) if m.is_dir() => format!("{name}/\n"),
            Ok(m) if m.is_file() => format!("{name} {}\n", m.len()),
            Ok(m) if m.is_symlink() => format!("{name} (link)\n"),
            Ok(_) => format!("{name} (special)\n"),
            Err(_) => format!("{name} (unreadable)\n"),
        };
        out.push_str(&line);
    }
    Ok(out)
}
