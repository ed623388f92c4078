//! What SQLite says, in the words of the store.

use std::path::PathBuf;

use rusqlite::{Error, ErrorCode};
use turnwright_react_runtime::store::StoreError;

/// Why a store was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store {} cannot be opened: {why}", path.display())]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub why: StoreError,
}

/// An error of SQLite about the whole store.
pub(crate) fn store_error(e: &Error) -> StoreError {
    let Error::SqliteFailure(failure, words) = e else { return StoreError::Backend(e.to_string()) };
    let words = words.clone().unwrap_or_else(|| e.to_string());
    let backend = |what: &str| StoreError::Backend(format!("{what} ({words})"));
    match failure.code {
        ErrorCode::DiskFull => backend("the disk, or the file's allowed size, is full"),
        ErrorCode::ReadOnly => backend("the file or its directory cannot be written"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            backend("another process holds the file for longer than it may be waited for")
        }
        ErrorCode::PermissionDenied | ErrorCode::CannotOpen => backend("the file cannot be opened"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Corrupt { what: "the store's file".into(), why: words }
        }
        _ => StoreError::Backend(words),
    }
}

/// A row whose content is not what it should be.
pub(crate) fn corrupt(what: impl Into<String>, why: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: what.into(), why: why.to_string() }
}
