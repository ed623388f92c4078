//! The control plane: what acts on a turn from outside, and the errors by which any layer ends one.
//!
//! - [`ControlError`]: raised by hooks, layers and drains; swallowed by nothing. Each knows its stop reason.
//! - [`ControlCommand`], [`CommandType`], [`ControlScope`]: what is asked, and of whom.
//! - [`ControlChannel`]: a bounded queue of commands, routed by session; [`InMemoryControlChannel`] is the default.
//! - [`validate`]: what every channel refuses.
//! - [`Receipt`], [`Fate`]: what became of a command. Exactly one fate follows acceptance.
//! - [`drain_control_channel`]: takes cancels and drains at safe points, and latches them in the turn's context.
//!
//! Approvals never travel here: a decision goes through the runtime's approval API.

mod channel;
mod command;
mod drain;
mod error;
mod memory;
mod receipt;
mod sync;
mod validate;

pub use channel::{Ack, ControlChannel, Delivery, SendError, Wakeup};
pub use command::{CommandBody, CommandType, ControlCommand, ControlScope};
pub use drain::{drain_and_tell, drain_control_channel, return_leftovers, take_messages};
pub use error::{ControlError, ControlErrorKind};
pub use memory::{AUDIT_TARGET, ChannelLimits, InMemoryControlChannel};
pub use receipt::{Fate, Receipt};
pub use validate::validate;

const _: fn() = || {
    fn object_safe(_: &dyn ControlChannel) {}
    let _ = object_safe;
};
