//! `config check`: everything that is wrong with a file.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value as Json, json};

use super::{load, mistake};
use crate::{Global, Refusal, exit, output};

/// Tells what is wrong with this file, or with the one that would be used.
pub(crate) fn run(global: &Global, file: Option<&Path>) -> Result<ExitCode, Refusal> {
    let path = file.map(PathBuf::from).or_else(load::which);
    let found = path.as_deref().map_or_else(|| Ok(Vec::new()), load::mistakes);
    if global.json {
        let mistakes: Vec<Json> = match &found {
            Ok(mistakes) => mistakes.iter().map(mistake::Mistake::json).collect(),
            // It could not be read, so there is no place in it.
            Err(Refusal { message, .. }) => {
                vec![json!({ "line": null, "column": null, "key": null, "message": message })]
            }
        };
        let is_right = mistakes.is_empty();
        let path = path.map(|path| path.display().to_string());
        let json = json!({ "ok": is_right, "path": path, "mistakes": mistakes });
        let printed = output::print(&format!("{json}\n"), global.color);
        return Ok(if is_right { printed } else { exit::USAGE.into() });
    }
    let mistakes = found?;
    let text = match path {
        Some(path) if !mistakes.is_empty() => return Err(mistake::refusal(&path, &mistakes)),
        Some(path) => format!("{}: nothing is wrong\n", path.display()),
        None => "there is no configuration file; everything is as it is built in\n".into(),
    };
    Ok(output::print(&text, global.color))
}
