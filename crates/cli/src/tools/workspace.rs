//! The directory that tools cannot leave.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use turnwright::ToolError;

use crate::view::spelled;

/// The most links on the way to one path, as operating systems have it.
const MOST_LINKS: usize = 40;

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
        self.find(path).map_err(|missed| match missed {
            Missed::Outside => outside(path),
            Missed::Unreadable(e) => unreadable(path, &e),
        })
    }

    /// As [`Workspace::resolve`], for those who go on where nothing is.
    pub(super) fn find(&self, path: &str) -> Result<PathBuf, Missed> {
        let asked = self.asked(path);
        // Refused unseen, so that nobody learns what exists outside.
        if !self.holds(&lexical(&asked)) {
            return Err(Missed::Outside);
        }
        match asked.canonicalize() {
            Ok(real) if self.holds(&real) => Ok(real),
            Err(e) if !self.is_led_out(path.trim()) => Err(Missed::Unreadable(e)),
            _ => Err(Missed::Outside),
        }
    }

    /// A path as it was asked for, nothing in it resolved.
    pub(super) fn asked(&self, path: &str) -> PathBuf {
        self.0.join(path.trim())
    }

    /// The root's own path: where commands run.
    #[cfg(unix)]
    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    /// Whether a canonical path is the root or lies below it.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.0)
    }

    /// Whether a path that could not be resolved leaves the root on its way, through links. What lies outside is not
    /// looked at: whether it exists makes no difference.
    fn is_led_out(&self, path: &str) -> bool {
        let mut at = self.0.to_path_buf();
        let mut rest: VecDeque<OsString> = parts(Path::new(path)).collect();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(part);
            if !self.holds(&at) {
                // On the way down to the root, which is canonical, there are no links.
                if self.0.starts_with(&at) {
                    continue;
                }
                return true;
            }
            let Ok(target) = at.read_link() else { continue };
            links += 1;
            if links > MOST_LINKS {
                return false;
            }
            at.pop();
            parts(&target).rev().for_each(|part| rest.push_front(part));
        }
        !self.holds(&at)
    }

    /// A path as the model should see it: relative to the root, with slashes, on one line.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.0).unwrap_or(path);
        let names: Vec<_> = below.components().map(|c| c.as_os_str().to_string_lossy()).collect();
        if names.is_empty() { ".".into() } else { spelled(&names.join("/")).into_owned() }
    }

    /// A regular file below the root, opened, with its size. Pipes and devices are refused: reading one may never end.
    pub(crate) fn file(&self, path: &str) -> Result<(File, u64), ToolError> {
        let real = self.resolve(path)?;
        let kind = fs::metadata(&real).map_err(|e| unreadable(path, &e))?;
        regular(path, &kind)?;
        Ok((open_regular(&real).map_err(|e| unreadable(path, &e))?, kind.len()))
    }
}

/// Refuses what is no regular file, in the model's words for the path.
pub(super) fn regular(path: &str, kind: &fs::Metadata) -> Result<(), ToolError> {
    if kind.is_dir() {
        return Err(ToolError::model(format!("{path:?} is a directory; list_dir lists it")));
    }
    if !kind.is_file() {
        return Err(ToolError::model(format!("{path:?} is not a regular file")));
    }
    Ok(())
}

/// Why a path has no real one below the root.
pub(super) enum Missed {
    Outside,
    Unreadable(io::Error),
}

pub(super) fn outside(path: &str) -> ToolError {
    ToolError::model(format!("{path:?} is outside of the tool root; paths are relative to it"))
}

/// Opens a regular file that no link stands for; anything else is refused unopened.
///
/// What was opened is asked again, so that nothing else that took the file's place is read. A pipe that takes it
/// between the two looks can still hold up the opening: of those who write in a root no more is asked than of those who
/// swap directories.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
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

/// The parts of a path but for `.`; an absolute one begins with the file system's root.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let parts = path.components().filter(|c| *c != Component::CurDir);
    parts.map(|c| c.as_os_str().to_owned())
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
