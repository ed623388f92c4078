//! Instruction files: what a project tells every agent that works in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The longest file, in bytes.
const LONGEST: u64 = 64 << 10;
/// How many folders are looked at on the way up.
const DEEPEST: usize = 32;

/// A file that is there and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the instructions {path} cannot be read: {why}")]
pub struct InstructionsError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: io::Error,
}

/// The instruction files of a folder and of those above it, outermost first, for
/// [`AgentBuilder::instructions`](turnwright_react_runtime::AgentBuilder::instructions): read once, when the agent is built, so that
/// the prompt begins with the same bytes in every turn. Of each folder the first of these names counts, for example
/// `["AGENTS.md"]`. It looks no further up than a folder with a `.git` in it. Each file stands under a heading with its path.
///
/// It reads files: call it before the async runtime is busy.
///
/// # Errors
/// [`InstructionsError`] for a file that is there and is no text, or has more than 64 KiB: instructions are not left out in silence.
pub fn instruction_files(folder: &Path, names: &[&str]) -> Result<String, InstructionsError> {
    let mut found = Vec::new();
    for above in folder.ancestors().take(DEEPEST) {
        let file = names.iter().map(|name| above.join(name)).find(|path| path.is_file());
        found.extend(file.map(read).transpose()?);
        if above.join(".git").exists() {
            break;
        }
    }
    found.reverse();
    Ok(found.join("\n\n"))
}

fn read(path: PathBuf) -> Result<String, InstructionsError> {
    let text = (|| {
        if fs::metadata(&path)?.len() > LONGEST {
            return Err(io::Error::other(format!("it has more than {LONGEST} bytes")));
        }
        fs::read_to_string(&path)
    })();
    match text {
        Ok(text) => Ok(format!("# {}\n\n{}", path.display(), text.trim())),
        Err(why) => Err(InstructionsError { path, why }),
    }
}
