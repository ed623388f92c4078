//! Core memory: a file of what is always to be known, and the tool that edits it.

use std::{
    fs::{self, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
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
/// one. One writer at a time, of all processes: each takes a lock on an empty file of the same name with `.lock` behind it, and waits
/// up to five seconds for it. Clones are the same memory. Each change tells [`MemoryEvent::CoreMemoryUpdated`], with a digest and
/// never the content.
#[derive(Clone)]
pub struct CoreMemory(Arc<Inner>);

struct Inner {
    path: PathBuf,
    runner: MemoryRunner,
}

/// How often a writer looks whether another one is done, and after how long.
const LOOKS: usize = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Why the core memory could not be read or changed. But for [`CoreMemoryError::Control`] it is as it was.
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
    /// Somebody changed it while the change was made up.
    #[error("the core memory was changed meanwhile")]
    Changed,
    /// A hook that was told of the change, which is made, ends the turn.
    #[error("a memory hook ends the turn")]
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
        Self(Arc::new(Inner { path: path.into(), runner }))
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
        io_blocking(move || read(&path)).await.map_err(|why| self.io("read", why))
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
        change: impl FnOnce(&str) -> Result<String, CoreMemoryError> + Send + 'static,
    ) -> Result<String, CoreMemoryError> {
        let lock = self.lock().await.map_err(|why| self.io("written", why))?;
        let memory = self.clone();
        // The lock goes with the work: whoever asked for it may be gone before it is done.
        let changed = io_blocking(move || Ok(memory.change_now(&lock, change))).await;
        let (before, after) = changed.map_err(|why| self.io("written", why))??;
        let digest = Sha256::digest(after.as_bytes());
        let event = MemoryEvent::CoreMemoryUpdated {
            mode: mode.into(),
            changed: before != after,
            digest: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
            tokens_before: estimate::text(&before),
            tokens_after: estimate::text(&after),
        };
        self.0.runner.tell(ctx, &event).await?;
        Ok(after)
    }

    /// What there was, and what there is now.
    fn change_now(
        &self,
        _lock: &fs::File,
        change: impl FnOnce(&str) -> Result<String, CoreMemoryError>,
    ) -> Result<(String, String), CoreMemoryError> {
        let before = read(&self.0.path).map_err(|why| self.io("read", why))?;
        let after = change(&before)?;
        if after.len() > LONGEST {
            return Err(CoreMemoryError::TooLong(after.len()));
        }
        if after != before {
            replace(&self.0.path, after.as_bytes()).map_err(|why| self.io("written", why))?;
        }
        Ok((before, after))
    }

    /// The lock of all writers. It is given back when the file is dropped, and by the system when its process ends.
    async fn lock(&self) -> io::Result<fs::File> {
        for _ in 0..LOOKS {
            let mut path = self.0.path.clone().into_os_string();
            path.push(".lock");
            if let Some(lock) = io_blocking(move || try_lock(Path::new(&path))).await? {
                return Ok(lock);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "somebody else has been writing for five seconds"))
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
                let after = memory.change(ctx.turn(), mode, move |before| apply(before, &edit)).await?;
                Ok::<_, ToolError>(match after.trim() {
                    "" => "The core memory is empty now.".to_owned(),
                    text => format!("The core memory is now:\n{text}"),
                })
            }
        })
    }
}

fn read(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

fn try_lock(path: &Path) -> io::Result<Option<fs::File>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = fs::File::options().create(true).truncate(false).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
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
