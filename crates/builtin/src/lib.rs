//! Hooks that come with turnwright, and what they work with. Each is a small struct in a file of its own, with the seed's
//! defaults; `docs/hooks.md` has the table: point, job, default, what it writes where.
//!
//! A hook speaks to the model by a reminder ([`remind`]): a message of the user's role whose text stands in a
//! `<system-reminder>` element and whose origin is the hook. It is a part of the history; people are not shown it.

mod current_time;
mod reminder;

pub use current_time::CurrentTime;
pub use reminder::{is_reminder, remind};
