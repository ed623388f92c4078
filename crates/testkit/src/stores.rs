//! What every store of sessions, every control channel and every mailbox must do, as suites that their authors run.
//!
//! ```
//! # use std::sync::Arc;
//! # use turnwright_react_runtime::store::{MemoryStore, SessionStore};
//! # use turnwright_testkit::stores::store_conformance;
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let make = || Arc::new(MemoryStore::new()) as Arc<dyn SessionStore>;
//! assert_eq!(store_conformance(&make).await, Ok(()));
//! # });
//! ```

mod channel;
mod mailbox;
mod model;
mod session;

pub use channel::{MakeChannel, channel_conformance};
pub use mailbox::{MakeMailbox, mailbox_conformance};
pub use session::{MakeStore, store_conformance};

/// The promise that was broken, and what was found in its place.
pub type Broken = String;

/// Says which promise is broken unless both are equal.
macro_rules! same {
    ($found:expr, $wanted:expr, $promise:expr) => {
        match (&$found, &$wanted) {
            (found, wanted) if *found != *wanted => {
                return Err(format!("{}: found {found:?}, wanted {wanted:?}", $promise));
            }
            _ => {}
        }
    };
}
pub(crate) use same;

/// Says which promise is broken unless it holds.
macro_rules! holds {
    ($held:expr, $promise:expr) => {
        if !$held {
            return Err(format!("{} ({})", $promise, stringify!($held)));
        }
    };
}
pub(crate) use holds;
