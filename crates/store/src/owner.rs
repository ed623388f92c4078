//! Who is alive: each open store holds a lock of the operating system, which goes with its process.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// An open store's sign of life. The lock is the process's: however it ends, the lock is gone.
pub(crate) struct Owner {
    id: String,
    directory: PathBuf,
    /// Keeps the lock.
    _lock: File,
}

impl Owner {
    /// Takes a lock beside this database.
    pub(crate) fn new(database: &Path, id: String) -> io::Result<Self> {
        let mut directory = database.as_os_str().to_owned();
        directory.push("-owners");
        let directory = PathBuf::from(directory);
        fs::create_dir_all(&directory)?;
        // Locked before anybody can see it under its name: a file that is not locked belongs to the dead.
        let unseen = directory.join(format!(".{id}"));
        let lock = File::create(&unseen)?;
        lock.lock()?;
        fs::rename(&unseen, directory.join(&id))?;
        let owner = Self { id, directory, _lock: lock };
        owner.tidy();
        Ok(owner)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the process of this owner is gone. When that cannot be found out, it is not.
    pub(crate) fn is_dead(&self, owner: &str) -> bool {
        // Ids are ours, and no paths.
        if owner == self.id || owner.contains(['/', '\\', '.']) {
            return false;
        }
        match is_free(&self.directory.join(owner)) {
            Ok(is_free) => is_free,
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Removes what dead owners left.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            // One with a dot is about to be locked.
            let is_owner = !name.as_encoded_bytes().starts_with(b".");
            if is_owner && name != *self.id && is_free(&entry.path()).unwrap_or(false) {
                // Another store may be doing the same.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.join(&self.id));
    }
}

fn is_free(path: &Path) -> io::Result<bool> {
    let file = OpenOptions::new().write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}
