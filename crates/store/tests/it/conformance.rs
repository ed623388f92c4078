//! The suites that every store and every channel must pass.

use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;
use turnwright_control::{ChannelLimits, ControlChannel, InMemoryControlChannel};
use turnwright_core::Sources;
use turnwright_react_runtime::{
    mailbox::{Mailbox, MemoryMailbox},
    store::{MemoryStore, SessionStore},
};
use turnwright_store::{SqliteOptions, SqliteStore};
use turnwright_testkit::stores::{channel_conformance, mailbox_conformance, store_conformance};

fn in_files(directories: &Mutex<Vec<TempDir>>, options: SqliteOptions) -> SqliteStore {
    let directory = TempDir::new().unwrap();
    let store = SqliteStore::open_with(directory.path().join("s.db"), options, Sources::default()).unwrap();
    directories.lock().push(directory);
    store
}

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise() {
    let make = || Arc::new(MemoryStore::new()) as Arc<dyn SessionStore>;
    assert_eq!(store_conformance(&make).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_k3_k15_r8_112_the_sqlite_store_keeps_every_promise() {
    let directories = Mutex::default();
    let make = || Arc::new(in_files(&directories, SqliteOptions::default())) as Arc<dyn SessionStore>;
    assert_eq!(store_conformance(&make).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_channel_in_memory_keeps_every_promise() {
    let make = |limits| {
        Arc::new(InMemoryControlChannel::with_limits(&Sources::default(), limits)) as Arc<dyn ControlChannel>
    };
    assert_eq!(channel_conformance(&make).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sqlite_channel_keeps_every_promise() {
    let directories = Mutex::default();
    let make = |limits: ChannelLimits| {
        let options = SqliteOptions { limits, ..SqliteOptions::default() };
        in_files(&directories, options).channel() as Arc<dyn ControlChannel>
    };
    assert_eq!(channel_conformance(&make).await, Ok(()));
}

#[tokio::test]
async fn the_mailbox_in_memory_keeps_every_promise() {
    let make = || Arc::new(MemoryMailbox::new()) as Arc<dyn Mailbox>;
    assert_eq!(mailbox_conformance(&make).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sqlite_mailbox_keeps_every_promise() {
    let directories = Mutex::default();
    let make = || Arc::new(in_files(&directories, SqliteOptions::default()).mailbox()) as Arc<dyn Mailbox>;
    assert_eq!(mailbox_conformance(&make).await, Ok(()));
}
