//! Draining: the one function by which commands reach a turn.

use turnwright_core::{CancelCause, Timestamp, TurnContext};

use crate::{
    CommandBody, CommandType, ControlChannel, ControlCommand, ControlError, ControlScope, Delivery, Fate,
};

const EXITS: [CommandType; 3] = [CommandType::CancelTurn, CommandType::CancelRun, CommandType::DrainTurn];
const MESSAGES: [CommandType; 2] = [CommandType::InjectSteer, CommandType::InjectUserMessage];

/// Takes the cancels and drains that are for this turn and latches them in its context: a cancel in
/// [`TurnContext::cancel`], a drain in [`TurnContext::request_drain`]. A command for another turn, or without a turn
/// and accepted before this one began, is stale.
///
/// Called at every safe point by the driver and by the two control interceptors; whoever comes second sees the latch,
/// so the order does not matter and a cancel is never lost between them.
///
/// # Cancel safety
/// Synchronous: what was taken is latched and has its fate when it returns.
///
/// # Errors
/// The [`ControlError`] of the latched cancel, now and on every later call.
pub fn drain_control_channel(channel: &dyn ControlChannel, ctx: &TurnContext) -> Result<(), ControlError> {
    drain_and_tell(channel, ctx, &mut |_, _| {})
}

/// The same, telling what became of each command that was taken.
///
/// # Cancel safety
/// As [`drain_control_channel`].
///
/// # Errors
/// As [`drain_control_channel`].
pub fn drain_and_tell(
    channel: &dyn ControlChannel,
    ctx: &TurnContext,
    tell: &mut dyn FnMut(&ControlCommand, &Fate),
) -> Result<(), ControlError> {
    check_cancelled(ctx)?;
    for delivery in channel.take(&scope_of(ctx), &EXITS) {
        let is_mine = is_for(&delivery, ctx);
        match &delivery.command.body {
            _ if !is_mine => {}
            CommandBody::CancelTurn { reason } => {
                ctx.cancel().cancel(cause(&delivery, reason));
            }
            CommandBody::CancelRun { reason } => {
                ctx.run_cancel().cancel(cause(&delivery, reason));
            }
            _ => {
                ctx.request_drain();
            }
        }
        settle(delivery, if is_mine { Fate::Applied } else { Fate::Stale }, tell);
    }
    check_cancelled(ctx)
}

fn settle(delivery: Delivery, fate: Fate, tell: &mut dyn FnMut(&ControlCommand, &Fate)) {
    tell(&delivery.command, &fate);
    delivery.settle(fate);
}

/// Takes the messages of this type that are for this turn. Each must be settled once it is in history; one that is
/// dropped is returned to its sender.
///
/// # Cancel safety
/// Synchronous. A caller that is dropped before it settled a delivery returns it, so commit a message and settle it in
/// one synchronous step.
pub fn take_messages(
    channel: &dyn ControlChannel,
    ctx: &TurnContext,
    command_type: CommandType,
) -> Vec<Delivery> {
    let (mine, others): (Vec<_>, Vec<_>) =
        channel.take(&scope_of(ctx), &[command_type]).into_iter().partition(|d| is_for(d, ctx));
    for other in others {
        other.settle(Fate::returned("the turn it was for is over"));
    }
    mine
}

/// When a turn is over: its unused messages go back, and cancels that came too late are stale. Tells what became of
/// each.
///
/// # Cancel safety
/// Synchronous: everything that waited has its fate when it returns.
pub fn return_leftovers(
    channel: &dyn ControlChannel,
    ctx: &TurnContext,
    tell: &mut dyn FnMut(&ControlCommand, &Fate),
) {
    for late in channel.take(&scope_of(ctx), &EXITS) {
        settle(late, Fate::Stale, tell);
    }
    for unused in channel.take(&scope_of(ctx), &MESSAGES) {
        settle(unused, Fate::returned("the turn ended before it could land"), tell);
    }
}

fn check_cancelled(ctx: &TurnContext) -> Result<(), ControlError> {
    match ctx.cancel().cause() {
        Some(cause) => Err(cause.into()),
        None => Ok(()),
    }
}

fn scope_of(ctx: &TurnContext) -> ControlScope {
    ControlScope {
        run: Some(ctx.run()),
        agent: Some(ctx.agent().into()),
        turn: Some(ctx.turn()),
        ..ControlScope::session(ctx.session().clone())
    }
}

/// To the millisecond: stores keep no more of a time, and a stop that came right after the turn began is meant.
fn is_before(accepted: Timestamp, started: Timestamp) -> bool {
    accepted.as_millisecond() < started.as_millisecond()
}

/// A run or turn id decides when there is one. Else an exit that was accepted before the turn began meant an earlier
/// one (the channel's clock decides, since the sender's may be off); a message without a turn is for whichever runs.
fn is_for(delivery: &Delivery, ctx: &TurnContext) -> bool {
    let command = &delivery.command;
    if command.scope.run.is_some_and(|run| run != ctx.run()) {
        return false;
    }
    match command.scope.turn {
        Some(turn) => turn == ctx.turn(),
        None => {
            command.command_type().carries_message() || !is_before(delivery.accepted_at(), ctx.started_at())
        }
    }
}

fn cause(delivery: &Delivery, reason: &Option<String>) -> CancelCause {
    let mut cause = CancelCause::requested(&delivery.command.actor);
    cause.reason.clone_from(reason);
    cause
}
