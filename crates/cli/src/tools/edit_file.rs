//! `edit_file`.

mod excerpt;
mod splice;

use std::io::Read;

use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{
    Workspace,
    place::{LARGEST, MayStill, Place},
    workspace::{open_regular, unreadable},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the tool root.
    path: String,
    /// The text to replace, exactly as the file has it, white space included. It must occur once: add lines round it
    /// until it does.
    old_text: String,
    /// What comes in its place. Empty to delete.
    new_text: String,
    /// Replace every occurrence. False by default.
    #[serde(default)]
    replace_all: bool,
}

/// Replaces a text in a file.
pub(crate) fn edit_file(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe = "Replaces an exact text in a text file. The answer shows the changed lines. Line ends follow the file's own.";
    tool("edit_file", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move { ctx.blocking(move |ctx| run(ctx, &workspace, &args)).await }
    })
}

/// Its thread cannot be stopped: a call that is over meanwhile writes nothing.
fn run(ctx: &ToolContext, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    edit(&|| ctx.check_open().map_err(ToolError::from), workspace, args)
}

fn edit(may_still: MayStill<'_>, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    let path = &args.path;
    let place = Place::find(workspace, path)?;
    if place.is_new() {
        return Err(ToolError::model(format!("{path:?} does not exist; write_file creates it")));
    }
    let text = text(&place, path)?;
    let edited = splice::replace(&text, &args.old_text, &args.new_text, args.replace_all)
        .map_err(|why| ToolError::model(format!("{path:?} is unchanged: {why}")))?;
    place.write(may_still, edited.text.as_bytes())?;
    let times = if edited.count == 1 { "once".into() } else { format!("{} times", edited.count) };
    let shown = edited.changed.len();
    let first = if shown < edited.count { format!("; the first {shown} are shown") } else { String::new() };
    let lines = excerpt::of(&edited.text, &edited.changed);
    Ok(format!("replaced {times} in {}{first}\n{lines}", workspace.shown(&place.path())))
}

/// The whole file. What is no UTF-8 is refused: writing it back would change more than was asked for.
fn text(place: &Place, path: &str) -> Result<String, ToolError> {
    let file = open_regular(&place.path()).map_err(|e| unreadable(path, &e))?;
    let mut bytes = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    if bytes.len() > LARGEST {
        return Err(ToolError::model(format!("{path:?} is larger than {} MiB", LARGEST >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| ToolError::model(format!("{path:?} is no text in UTF-8")))
}

#[cfg(test)]
mod tests;
