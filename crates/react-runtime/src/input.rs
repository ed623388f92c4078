//! The door for what users say: commands, decisions and messages, also while a turn runs.
//!
//! [`Inbox::submit`] takes one message and says what became of it. What it does with a message while a turn runs is its
//! [`BusyMode`]. Nothing is dropped in silence: a message starts a turn, lands in the one that runs, waits with a
//! [`Ticket`], or is refused and is the caller's again.
//!
//! | mode | idle | a turn runs | a turn waits (suspended, drained, interrupted) |
//! |---|---|---|---|
//! | `Queue` | starts | waits: lands when the turn would end, else starts the next one | waits for the turn to go on |
//! | `Steer` | starts | lands before the next model call, else starts the next turn | waits for the turn to go on |
//! | `Interrupt` | starts | the turn is dropped at once, and a new one starts | the turn is cancelled, and a new one starts |
//! | `Reject` | starts | refused | refused |

mod command;
mod inbox;
mod ticket;

pub use command::{Command, CommandDone};
pub use inbox::{BusyMode, Inbox, Refused, Submitted, UserMessage};
pub use ticket::{Delivered, Ticket};
