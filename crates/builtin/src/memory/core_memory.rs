//! Core memory: a file of what is always to be known, and the tool that edits it.

use std::{fs, io, path::PathBuf, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use turnwright_core::TurnContext;
use turnwright_hook::{MemoryEvent, MemoryRunner};
use turnwright_llm_stream::estimate;
use turnwright_react_runtime::tool::{Tool, ToolContext, ToolError, tool};

use crate::files::{io_blocking, replace};

/// The name of the tool that edits the core memory.
pub const CORE_MEMORY: &str = "core_memory";

/// The longest file, in bytes: all of it is in the context of every turn.
const LONGEST: usize = 16_000;

/// A file with what an agent is always to know: facts about its user, decisions, preferences. The model edits it with the
/// tool `core_memory` ([`tool`](CoreMemory::tool)), and is told of it as a source of
/// [`ContextAssembly`](super::ContextAssembly).
///
/// At most 16,000 bytes. A change is written beside the file and put in its place, so that a crash leaves the old or the new
/// one. One writer at a time within this process; of two processes the last one wins. Clones are the same memory. Each change
/// tells [`MemoryEvent::CoreMemoryUpdated`], with a digest and never the content.
#[derive(Clone)]
pub struct CoreMemory(Arc<Inner>);

struct Inner {
    path: PathBuf,
    writing: Mutex<()>,
    runner: MemoryRunner,
}

/// Why the core memory could not be read or changed. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreMemoryError {
    /// The file cannot be read or written.
    #[error("the core memory {path} cannot be {what}: {why}")]
    Io {
        /// The file.
        path: String,
        /// `read` or `written`.
        what: &'static str,
        /// Why.
        why: io::Error,
    },
    /// It would become too long.
    #[error(
        "the core memory would have {0} bytes, {LONGEST} are the most: remove or shorten something first"
    )]
    TooLong(usize),
    /// The words that were to be changed are not there, or more than once.
    #[error("these words stand {0} times in the core memory, and must stand there once: give more of them")]
    NotOnce(usize),
    /// A hook ended the turn.
    #[error(transparent)]
    Control(#[from] turnwright_control::ControlError),
}

/// What the tool takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "mode", rename_all = "snake_case")]
enum Edit {
    /// Adds a line at the end.
    Append {
        /// The line.
        text: String,
    },
    /// Puts other words in the place of these.
    Replace {
        /// Words that stand there once.
        old: String,
        /// What stands there from then on.
        text: String,
    },
    /// Takes these words out.
    Remove {
        /// Words that stand there once.
        old: String,
    },
}

impl CoreMemory {
    /// In this file, which is made when something is first written.
    pub fn in_file(path: impl Into<PathBuf>) -> Self {
        Self::telling(path, MemoryRunner::default())
    }

    /// The same, and tells these of changes.
    pub fn telling(path: impl Into<PathBuf>, runner: MemoryRunner) -> Self {
        Self(Arc::new(Inner { path: path.into(), writing: Mutex::default(), runner }))
    }

    /// What there is; empty without a file.
    ///
    /// # Errors
    /// [`CoreMemoryError::Io`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn read(&self) -> Result<String, CoreMemoryError> {
        let path = self.0.path.clone();
        let read = io_blocking(move || match fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read,
        });
        read.await.map_err(|why| self.io("read", why))
    }

    fn io(&self, what: &'static str, why: io::Error) -> CoreMemoryError {
        CoreMemoryError::Io { path: self.0.path.display().to_string(), what, why }
    }

    /// Changes it, and says what there is now.
    ///
    /// # Cancel safety
    /// Dropped, the change is made wholly or not at all.
    pub(super) async fn change(
        &self,
        ctx: &TurnContext,
        mode: &str,
        change: impl FnOnce(&str) -> Result<String, CoreMemoryError>,
    ) -> Result<String, CoreMemoryError> {
        let _writing = self.0.writing.lock().await;
        let before = self.read().await?;
        let after = change(&before)?;
        if after.len() > LONGEST {
            return Err(CoreMemoryError::TooLong(after.len()));
        }
        let changed = after != before;
        if changed {
            let (path, text) = (self.0.path.clone(), after.clone());
            let written = tokio::task::spawn_blocking(move || replace(&path, &text));
            written
                .await
                .unwrap_or_else(|e| Err(io::Error::other(e)))
                .map_err(|why| self.io("written", why))?;
        }
        let digest = Sha256::digest(after.as_bytes());
        let event = MemoryEvent::CoreMemoryUpdated {
            mode: mode.into(),
            changed,
            digest: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
            tokens_before: estimate::text(&before),
            tokens_after: estimate::text(&after),
        };
        self.0.runner.tell(ctx, &event).await?;
        Ok(after)
    }

    /// The tool `core_memory`: appends a line, replaces words, removes words.
    pub fn tool(&self) -> impl Tool + use<> {
        let memory = self.clone();
        let describe = "Edits your core memory: a short text that you are told at the beginning of every conversation, and that \
            stays when this one is over. Keep facts about the person, their preferences and decisions there; no secrets, and nothing \
            that is of this conversation only.";
        tool(CORE_MEMORY, describe, move |ctx: ToolContext, edit: Edit| {
            let memory = memory.clone();
            async move {
                let mode = match &edit {
                    Edit::Append { .. } => "append",
                    Edit::Replace { .. } => "replace",
                    Edit::Remove { .. } => "remove",
                };
                let after = memory.change(ctx.turn(), mode, |before| apply(before, &edit)).await?;
                Ok::<_, ToolError>(match after.trim() {
                    "" => "The core memory is empty now.".to_owned(),
                    text => format!("The core memory is now:\n{text}"),
                })
            }
        })
    }
}

fn apply(before: &str, edit: &Edit) -> Result<String, CoreMemoryError> {
    let (old, text) = match edit {
        // What is there already is not added again.
        Edit::Append { text } if before.lines().any(|line| line == text.trim()) => {
            return Ok(before.to_owned());
        }
        Edit::Append { text } => {
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
            return Ok(format!("{before}{gap}{}\n", text.trim()));
        }
        Edit::Replace { old, text } => (old, text.as_str()),
        Edit::Remove { old } => (old, ""),
    };
    match before.matches(old.as_str()).count() {
        1 if !old.is_empty() => Ok(before.replacen(old.as_str(), text, 1)),
        _ if old.is_empty() => Err(CoreMemoryError::NotOnce(0)),
        count => Err(CoreMemoryError::NotOnce(count)),
    }
}
