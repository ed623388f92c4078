//! Experiences: what was learned in one conversation and helps in others, in files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwright_core::{BoxFuture, TurnContext};
use turnwright_hook::HookError;
use turnwright_react_runtime::tool::{Tool, ToolContext, ToolError, tool};

use crate::{
    files::{io_blocking, replace},
    memory::ContextSource,
};

/// The name of the tool that writes an experience.
pub const WRITE_EXPERIENCE: &str = "write_experience";
/// The name of the tool that reads one.
pub const READ_EXPERIENCE: &str = "read_experience";

const MOST: usize = 200;
const LONGEST: usize = 16_000;
const LONGEST_NAME: usize = 60;
const LONGEST_DESCRIPTION: usize = 300;

/// A folder of experiences, a file each: `NAME.md`, whose first line says what it is good for. At most 200, of 16,000 bytes.
///
/// As a [`ContextSource`] it tells the model which there are; the tools `read_experience` and `write_experience` read and write
/// them. Clones are the same folder.
#[derive(Debug, Clone)]
pub struct ExperienceFiles(Arc<Path>);

/// An experience by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experience {
    /// Its name: lower-case letters, digits and `-`.
    pub name: String,
    /// What it is good for.
    pub description: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Its name: lower-case letters, digits and `-`. One that there is already is written anew.
    name: String,
    /// In one line, when it helps.
    description: String,
    /// What was learned.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    /// Its name.
    name: String,
}

impl ExperienceFiles {
    /// Those below this folder, which is made when it is needed.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into().into())
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// Why the folder cannot be read. One that is not there has none.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn list(&self) -> io::Result<Vec<Experience>> {
        let folder = self.0.clone();
        io_blocking(move || list(&folder)).await
    }

    fn path(&self, name: &str) -> Result<PathBuf, ToolError> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            let message =
                format!("{name:?} is no name: lower-case letters, digits and '-', {LONGEST_NAME} at most");
            return Err(ToolError::model(message));
        }
        Ok(self.0.join(format!("{name}.md")))
    }

    async fn write(&self, Written { name, description, text }: Written) -> Result<String, ToolError> {
        let path = self.path(&name)?;
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if description.is_empty() || description.chars().count() > LONGEST_DESCRIPTION {
            return Err(ToolError::model(format!(
                "the description wants one line, {LONGEST_DESCRIPTION} characters at most"
            )));
        }
        let text = format!("{description}\n\n{}\n", text.trim());
        if text.len() > LONGEST {
            return Err(ToolError::model(format!("it has {} bytes, {LONGEST} are the most", text.len())));
        }
        let folder = self.0.clone();
        let done = io_blocking(move || {
            if !path.exists() && list(&folder)?.len() >= MOST {
                return Err(io::Error::other(format!("there are {MOST} already: write one of them anew")));
            }
            replace(&path, text.as_bytes())
        });
        done.await.map_err(|e| ToolError::model(format!("{name:?} was not written: {e}")))?;
        Ok(format!("{name:?} is written."))
    }

    /// The tools `write_experience` and `read_experience`.
    pub fn tools(&self) -> (impl Tool + use<>, impl Tool + use<>) {
        let (to, from) = (self.clone(), self.clone());
        let write = "Keeps what was learned here and helps in other conversations: how something is done, what went wrong and why. No \
            secrets, nothing about persons, nothing that is of this conversation only.";
        let write = tool(WRITE_EXPERIENCE, write, move |_: ToolContext, written: Written| {
            let to = to.clone();
            async move { to.write(written).await }
        });
        let read =
            tool(READ_EXPERIENCE, "Reads an experience.", move |_: ToolContext, Named { name }: Named| {
                let from = from.clone();
                async move {
                    let path = from.path(&name)?;
                    let read = io_blocking(move || fs::read_to_string(path)).await;
                    read.map_err(|e| ToolError::model(format!("{name:?} cannot be read: {e}")))
                }
            });
        (write, read.idempotent())
    }
}

fn list(folder: &Path) -> io::Result<Vec<Experience>> {
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found: Vec<_> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".md")?.to_owned();
            let text = fs::read_to_string(&path).ok()?;
            let description =
                text.lines().next().unwrap_or_default().chars().take(LONGEST_DESCRIPTION).collect();
            Some(Experience { name, description })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl ContextSource for ExperienceFiles {
    fn name(&self) -> &str {
        "Experiences (read_experience reads one)"
    }

    fn retrieve<'a>(&'a self, _: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move {
            let all = self.list().await?;
            Ok(all.iter().map(|one| format!("- {}: {}\n", one.name, one.description)).collect())
        })
    }
}
