//! What all that keep files share.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Runs what blocks where it may.
pub(crate) async fn io_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

/// Writes beside the file first, then puts it in its place: a crash leaves the old one or the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}
