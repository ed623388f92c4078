//! Where a file is to be written, and writing it there in one step.

use std::{
    ffi::OsString,
    fs::{self, Metadata, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use turnwright::ToolError;

use super::workspace::{Missed, Workspace, outside, regular, unreadable};

/// The largest file that is written. What is larger `read_file` does not read either.
pub(super) const LARGEST: usize = 8 << 20;

/// Asked right before the one step that others see: whether the call still may.
pub(super) type MayStill<'a> = &'a dyn Fn() -> Result<(), ToolError>;

/// A regular file below the root, or one that may come to be there.
pub(super) struct Place {
    /// The model's word for it.
    asked: String,
    /// A real directory, which exists.
    base: PathBuf,
    /// The directories below it that do not exist yet.
    missing: Vec<OsString>,
    name: OsString,
    /// The file that stands there.
    replaced: Option<Metadata>,
}

impl Place {
    /// Finds out where a path leads. Nothing is made yet.
    ///
    /// Of a path that does not exist the deepest existing directory is resolved. A link that leads nowhere is refused:
    /// nobody meant to write where it leads.
    pub(super) fn find(workspace: &Workspace, path: &str) -> Result<Self, ToolError> {
        match workspace.find(path) {
            Ok(real) => Self::existing(path, &real),
            Err(Missed::Outside) => Err(outside(path)),
            Err(Missed::Unreadable(e)) if e.kind() == io::ErrorKind::NotFound => Self::new(workspace, path),
            Err(Missed::Unreadable(e)) => Err(unreadable(path, &e)),
        }
    }

    fn existing(path: &str, real: &Path) -> Result<Self, ToolError> {
        let file = fs::symlink_metadata(real).map_err(|e| unreadable(path, &e))?;
        regular(path, &file)?;
        if file.permissions().readonly() {
            return Err(ToolError::model(format!("{path:?} is write-protected")));
        }
        // A regular file has both.
        let (Some(base), Some(name)) = (real.parent(), real.file_name()) else { return Err(outside(path)) };
        let (base, name) = (base.to_path_buf(), name.to_owned());
        Ok(Self { asked: path.into(), base, missing: Vec::new(), name, replaced: Some(file) })
    }

    fn new(workspace: &Workspace, path: &str) -> Result<Self, ToolError> {
        if path.trim().ends_with(['/', std::path::MAIN_SEPARATOR]) || path.trim().ends_with("/.") {
            return Err(ToolError::model(format!("{path:?} names a directory, not a file")));
        }
        let mut at = workspace.asked(path);
        let mut names = Vec::new();
        let base = loop {
            if at.is_symlink() {
                return Err(ToolError::model(format!("{path:?} goes through a link that leads nowhere")));
            }
            let Some(name) = at.file_name() else {
                let message = format!("{path:?} goes back with `..` from a directory that does not exist");
                return Err(ToolError::model(message));
            };
            names.push(name.to_owned());
            at.pop();
            match at.canonicalize() {
                Ok(base) if workspace.holds(&base) => break base,
                Ok(_) => return Err(outside(path)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(unreadable(path, &e)),
            }
        };
        // The first name is the file's, the last one stands right below the base.
        let name = names.remove(0);
        names.reverse();
        Ok(Self { asked: path.into(), base, missing: names, name, replaced: None })
    }

    pub(super) fn is_new(&self) -> bool {
        self.replaced.is_none()
    }

    /// The real path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory().join(&self.name)
    }

    fn directory(&self) -> PathBuf {
        self.missing.iter().fold(self.base.clone(), |dir, name| dir.join(name))
    }

    /// Writes the file: beside its place first, then by one rename, so that nobody ever sees half of it.
    ///
    /// A replaced file leaves its permissions to the new one. Owner, further attributes and other names (hard links)
    /// stay with the old one. Nothing is synced to the disk. Whatever fails before the rename leaves things as they were.
    pub(super) fn write(&self, may_still: MayStill<'_>, content: &[u8]) -> Result<(), ToolError> {
        let failed = |e: &io::Error| unwritable(&self.asked, e);
        // Dropped after the file in it.
        let mut made = Made::default();
        let mut at = self.base.clone();
        for name in &self.missing {
            at.push(name);
            made.directory(&at).map_err(|e| failed(&e))?;
        }
        // Somebody may have put a link there meanwhile.
        if at.canonicalize().map_err(|e| failed(&e))? != at {
            return Err(outside(&self.asked));
        }
        let mut file = self.beside(&at).map_err(|e| failed(&e))?;
        file.write_all(content).map_err(|e| failed(&e))?;
        if let Some(replaced) = &self.replaced {
            fs::set_permissions(file.path(), kept(replaced)).map_err(|e| failed(&e))?;
        }
        self.check_unchanged()?;
        may_still()?;
        let target = at.join(&self.name);
        let placed = if self.is_new() { file.persist_noclobber(target) } else { file.persist(target) };
        placed.map_err(|e| failed(&e.error))?;
        made.keep();
        Ok(())
    }

    /// A file nobody else knows, in the same directory: a rename works within one file system only.
    fn beside(&self, directory: &Path) -> io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".turnwright-").suffix(".tmp");
        // A new file is as the umask has it. What replaces another is nobody else's until it has that one's permissions.
        #[cfg(unix)]
        let usual: Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        #[cfg(unix)]
        if self.is_new() {
            builder.permissions(usual);
        }
        builder.tempfile_in(directory)
    }

    /// What somebody else wrote since this place was found is not lost.
    fn check_unchanged(&self) -> Result<(), ToolError> {
        let Some(then) = &self.replaced else { return Ok(()) };
        if fs::symlink_metadata(self.path()).is_ok_and(|now| is_same(then, &now)) {
            return Ok(());
        }
        Err(ToolError::model(format!(
            "{:?} was changed by somebody else meanwhile; read it again",
            self.asked
        )))
    }
}

/// Whether nobody wrote a file, and no other one took its place.
fn is_same(then: &Metadata, now: &Metadata) -> bool {
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino;
    #[cfg(not(unix))]
    let number = |_: &Metadata| 0;
    let what = |file: &Metadata| (file.is_file(), file.len(), file.modified().ok(), number(file));
    what(then) == what(now)
}

/// Who may read and write, but no bits that lend rights: writing clears those.
#[cfg(unix)]
fn kept(replaced: &Metadata) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    Permissions::from_mode(replaced.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn kept(replaced: &Metadata) -> Permissions {
    replaced.permissions()
}

/// Directories that were made for a file. Without the file they go again.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Ok(()) => self.0.push(path.to_path_buf()),
            // Somebody else made it; if it is no directory, what comes next says so.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // One that somebody put something into stays.
            let _ = fs::remove_dir(path);
        }
    }
}

/// In the model's words for the path, and without any path of ours.
fn unwritable(path: &str, e: &io::Error) -> ToolError {
    ToolError::model(match e.kind() {
        io::ErrorKind::AlreadyExists => format!("{path:?} was created by somebody else meanwhile"),
        io::ErrorKind::NotADirectory => format!("{path:?} does not lie in a directory"),
        io::ErrorKind::PermissionDenied => format!("{path:?} may not be written"),
        kind => format!("{path:?} cannot be written: {kind}"),
    })
}
