//! The directory that tools cannot leave.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use turnwright::ToolError;

/// A directory, by its canonical path. Cheap to clone.
///
/// What a tool opens is the canonical path, with every link followed, and it must lie below the root. Somebody who
/// swaps directories for links while a call runs could still win: a root is only as trustworthy as those who write in it.
#[derive(Debug, Clone)]
pub(crate) struct Workspace(Arc<Path>);

impl Workspace {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(root.into()))
    }

    /// The real path of what a model asked for, if it lies below the root. A blank path is the root.
    pub(crate) fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        let outside =
            || ToolError::model(format!("{path:?} is outside of the tool root; paths are relative to it"));
        let asked = self.0.join(path.trim());
        // Refused unseen, so that nobody learns what exists outside.
        if !lexical(&asked).starts_with(&self.0) {
            return Err(outside());
        }
        let real = asked.canonicalize().map_err(|e| unreadable(path, &e))?;
        if real.starts_with(&self.0) { Ok(real) } else { Err(outside()) }
    }

    /// A path as the model should see it: relative to the root, with slashes.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.0).unwrap_or(path);
        let names: Vec<_> = below.components().map(|c| c.as_os_str().to_string_lossy()).collect();
        if names.is_empty() { ".".into() } else { names.join("/") }
    }

    /// A regular file below the root, with its size. Pipes and devices are refused: reading one may never end.
    pub(crate) fn file(&self, path: &str) -> Result<(PathBuf, u64), ToolError> {
        let real = self.resolve(path)?;
        let kind = fs::metadata(&real).map_err(|e| unreadable(path, &e))?;
        if kind.is_dir() {
            return Err(ToolError::model(format!("{path:?} is a directory; list_dir lists it")));
        }
        if !kind.is_file() {
            return Err(ToolError::model(format!("{path:?} is not a regular file")));
        }
        Ok((real, kind.len()))
    }
}

/// In the model's words for the path: the real one is nobody's business.
pub(crate) fn unreadable(path: &str, e: &io::Error) -> ToolError {
    ToolError::model(match e.kind() {
        io::ErrorKind::NotFound => format!("{path:?} does not exist"),
        io::ErrorKind::NotADirectory => format!("{path:?} is not a directory"),
        io::ErrorKind::PermissionDenied => format!("{path:?} may not be read"),
        _ => format!("{path:?} cannot be read: {e}"),
    })
}

/// The path with `.` and `..` worked out on paper.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}
