//! `write_file`.

use schemars::JsonSchema;
use serde::Deserialize;
use turnwright::{Tool, ToolContext, ToolError, tool};

use super::{
    Workspace,
    place::{LARGEST, MayStill, Place},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the tool root. Missing directories are created.
    path: String,
    /// All it is to hold.
    content: String,
}

/// Creates a text file, or replaces one.
pub(crate) fn write_file(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe =
        "Creates a text file, or replaces a whole one. To change a part of a file, edit_file is better.";
    tool("write_file", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move { ctx.blocking(move |ctx| run(ctx, &workspace, &args)).await }
    })
}

/// Its thread cannot be stopped: a call that is over meanwhile writes nothing.
fn run(ctx: &ToolContext, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    write(&|| ctx.check_open().map_err(ToolError::from), workspace, args)
}

fn write(may_still: MayStill<'_>, workspace: &Workspace, args: &Args) -> Result<String, ToolError> {
    let Args { path, content } = args;
    if content.len() > LARGEST {
        let (size, most) = (content.len(), LARGEST >> 20);
        return Err(ToolError::model(format!("{size} bytes are not written: {most} MiB are the most")));
    }
    let place = Place::find(workspace, path)?;
    place.write(may_still, content.as_bytes())?;
    let done = if place.is_new() { "created" } else { "replaced" };
    Ok(format!("{done} {}, {} bytes", workspace.shown(&place.path()), content.len()))
}

#[cfg(test)]
mod tests;
