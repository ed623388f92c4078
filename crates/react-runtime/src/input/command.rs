//! Words that are commands, and no messages.

use turnwright_control::{CommandBody, ControlCommand, ControlScope, Receipt};
use turnwright_core::{ApprovalRequest, CancelCause, CancelKind};

use super::Refused;
use crate::{
    Session, TurnHandle,
    approval::{TextDecision, Unclear},
};

/// A command that somebody typed. They act at once, past whatever waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `/stop`: cancels the turn that runs, or that waits.
    Stop,
    /// `/pause`: stops the turn at its next step boundary.
    Pause,
    /// `/resume`: goes on with the turn that waits.
    Resume,
    /// `/approve`, `/deny`, `/edit`, `/answer`: decides about calls that wait.
    Decide(TextDecision),
}

/// What a command did.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommandDone {
    /// The running turn was asked to stop or to pause.
    Asked,
    /// It was asked before.
    AskedAlready,
    /// No turn runs or waits: there was nothing to do.
    Nothing,
    /// A further leg began: of the resumed turn, of one whose last call was decided, or of one that is cancelled.
    Leg(TurnHandle),
    /// The decision was taken; these still wait. With none left, the turn could not go on here, and waits to be resumed.
    Decided(Vec<ApprovalRequest>),
    /// The turn runs in another process, and was sent what to do.
    Sent(Receipt),
}

impl Command {
    /// Reads one; none for any other text, so that a message may begin with a slash.
    ///
    /// # Errors
    /// [`Unclear`] for a decision that names no call that waits.
    pub fn parse(text: &str, pending: &[ApprovalRequest]) -> Result<Option<Self>, Unclear> {
        Ok(match text.trim() {
            "/stop" => Some(Self::Stop),
            "/pause" => Some(Self::Pause),
            "/resume" => Some(Self::Resume),
            other => TextDecision::parse(other, pending)?.map(Self::Decide),
        })
    }
}

pub(super) async fn run(session: &Session, command: Command, actor: &str) -> Result<CommandDone, Refused> {
    let now = session.0.agent.sources.clock.now();
    match (command, session.0.running()) {
        // The turn is named by its own token: one that begins meanwhile is not meant.
        (Command::Stop, Some(running)) => {
            let is_first = running.ctx.cancel().cancel(CancelCause::requested(actor).reason("/stop"));
            Ok(if is_first { CommandDone::Asked } else { CommandDone::AskedAlready })
        }
        // It runs elsewhere, or was cut off: who has it takes the command. Of one that nobody has, `is_held` knows.
        (command @ (Command::Stop | Command::Pause), None)
            if session.is_interrupted() && is_held(session).await =>
        {
            send(session, &command, actor).await
        }
        (Command::Stop, None) if session.is_parked() => {
            let leg = session.cancel_parked(CancelCause::requested(actor).reason("/stop"));
            Ok(CommandDone::Leg(leg?))
        }
        (Command::Pause, Some(running)) => {
            Ok(if running.ctx.request_drain() { CommandDone::Asked } else { CommandDone::AskedAlready })
        }
        (Command::Resume, None) if session.is_parked() => Ok(CommandDone::Leg(session.resume()?)),
        (Command::Decide(decision), _) => {
            let pending = session.decide(&decision.by(actor, now)).await?;
            match pending.is_empty() {
                // It is stored, whether or not the turn can go on here.
                true => Ok(session.resume().map_or_else(|_| CommandDone::Decided(pending), CommandDone::Leg)),
                false => Ok(CommandDone::Decided(pending)),
            }
        }
        _ => Ok(CommandDone::Nothing),
    }
}

/// Whether another process has the session.
async fn is_held(session: &Session) -> bool {
    let agent = &session.0.agent;
    let (Some(store), Some(_)) = (&agent.store, &agent.channel) else { return false };
    store.load(session.id()).await.ok().flatten().is_some_and(|stored| stored.lease.is_some())
}

/// Sends it to whoever runs the turn.
async fn send(session: &Session, command: &Command, actor: &str) -> Result<CommandDone, Refused> {
    let agent = &session.0.agent;
    let channel = agent.channel.clone().ok_or(Refused::NoChannel)?;
    let body = match command {
        Command::Stop => CommandBody::CancelTurn { reason: Some("/stop".into()) },
        _ => CommandBody::DrainTurn,
    };
    let mut scope = ControlScope::session(session.id().clone());
    scope.turn = session.snapshot().map(|snapshot| snapshot.turn);
    let command = ControlCommand::new(&agent.sources, scope, actor, body);
    Ok(CommandDone::Sent(channel.send(command).await?))
}

/// Why a turn was interrupted for another message.
pub(super) fn superseded(actor: &str) -> CancelCause {
    let mut cause = CancelCause::runtime(CancelKind::Superseded, "another message took its place");
    actor.clone_into(&mut cause.actor);
    cause
}
