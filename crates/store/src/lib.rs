//! Sessions in SQLite: history, open turns, journals, approvals, commands, mail, leases and events, in one file that several
//! processes of one machine may share.
//!
//! - [`SqliteStore`]: a [`SessionStore`](turnwright_react_runtime::store::SessionStore); [`SqliteStore::open`] makes the
//!   file and brings it up to date.
//! - [`SqliteChannel`]: a [`ControlChannel`](turnwright_control::ControlChannel) in the same file, so that a command reaches
//!   the process that runs its session.
//! - [`SqliteMailbox`]: a [`Mailbox`](turnwright_react_runtime::mailbox::Mailbox) in the same file.
//! - [`Retention`], [`SqliteStore::sweep`]: what is forgotten, and when.
//! - [`SqliteStore::check`]: what of a file cannot be read.
//!
//! The file is in WAL mode. All writing is done by one thread of the store's own, which commits what waits together; all
//! reading by others. No async worker waits for a disk.
//!
//! A lease names the store that took it, and that store holds a lock of the operating system for as long as its process
//! lives: when the process dies, its leases end at once.

mod channel;
mod check;
mod commands;
mod error;
mod mail;
mod owner;
mod poll;
mod read;
mod retention;
mod schema;
mod sqlite;
mod threads;
mod write;

pub use channel::SqliteChannel;
pub use check::{CheckReport, Fault};
pub use commands::AuditRow;
pub use error::OpenError;
pub use mail::SqliteMailbox;
pub use read::ApprovalRow;
pub use retention::{Retention, Swept};
pub use sqlite::{SqliteOptions, SqliteStore, Synchronous};

const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<SqliteStore>();
    shared::<SqliteChannel>();
    shared::<SqliteMailbox>();
};
