//! The audit trail of a channel that stores nothing: what was sent, by whom, and what became of it, as events of `tracing`.

use turnwright_core::CommandId;

use crate::{ControlCommand, Fate, SendError};

/// The target of the events by which [`InMemoryControlChannel`](crate::InMemoryControlChannel) tells what it was sent and what
/// became of that: an audit trail, for whoever gives this target a sink of its own.
///
/// All are of level INFO and have the fields `step` and `command`, the command's id. The first step is `sent`, with `type`,
/// `actor` and `scope`; then comes exactly one of `settled` (with `fate`), `refused` (with `error`) and `repeated` (with `first`,
/// the command whose idempotency key it had). One that is sent again while it waits is told as sent again. No words of a message
/// are in them.
pub const AUDIT_TARGET: &str = "turnwright::audit";

/// Told before it is queued: whoever takes it may be quicker than this thread.
pub(super) fn sent(command: &ControlCommand) {
    tracing::info!(
        target: AUDIT_TARGET,
        step = "sent",
        command = %command.id,
        r#type = ?command.command_type(),
        actor = command.actor,
        scope = ?command.scope,
    );
}

pub(super) fn refused(command: CommandId, error: &SendError) {
    tracing::info!(target: AUDIT_TARGET, step = "refused", %command, %error);
}

pub(super) fn repeated(command: CommandId, first: CommandId) {
    tracing::info!(target: AUDIT_TARGET, step = "repeated", %command, %first);
}

pub(super) fn settled(command: CommandId, fate: &Fate) {
    tracing::info!(target: AUDIT_TARGET, step = "settled", %command, ?fate);
}
