//! Commands about sessions that are stored.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use turnwright::{SessionId, runtime::store::SessionStatus};

use super::seconds;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them: id, how each stands, messages, last change.
    List {
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Those with a greater id than this one: the last one of the page before.
        #[arg(long, value_name = "ID")]
        after: Option<SessionId>,
        /// Those that stand so only.
        #[arg(long, value_name = "STATUS")]
        status: Option<Status>,
    },
    /// Show one: how it stands, what waits, and its messages.
    Show {
        /// The session.
        session: SessionId,
        /// Show its recorded events in place of its messages.
        #[arg(long)]
        events: bool,
        /// Show the commands it was sent, and what became of them, in place of its messages.
        #[arg(long, conflicts_with = "events")]
        commands: bool,
        /// Show the questions its calls waited with, and who decided what, in place of its messages.
        #[arg(long, conflicts_with_all = ["events", "commands"])]
        approvals: bool,
    },
    /// Make a new session of one, which stays as it is. Prints the new id.
    Fork {
        /// The session.
        session: SessionId,
        /// Up to and with this message; else whole, with its open turn.
        #[arg(long, value_name = "MESSAGE")]
        at: Option<String>,
        /// The id of the new one; a fresh one by default.
        #[arg(long, value_name = "ID")]
        to: Option<SessionId>,
    },
    /// Print one as a JSON document.
    Export {
        /// The session.
        session: SessionId,
    },
    /// Store what `export` printed. Prints the id.
    Import {
        /// The document; `-`, or none, reads standard input.
        file: Option<PathBuf>,
        /// Under this id; by default its own.
        #[arg(long, value_name = "ID")]
        to: Option<SessionId>,
    },
    /// Delete one, and all that belongs to it. There is no way back.
    Delete {
        /// The session.
        session: SessionId,
    },
}

/// How a session may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    /// No turn is open.
    Idle,
    /// A process runs a turn.
    Running,
    /// Calls wait for decisions.
    Suspended,
    /// A turn was paused.
    Drained,
    /// The process that ran a turn died.
    Interrupted,
}

impl From<Status> for SessionStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Suspended => Self::Suspended,
            Status::Drained => Self::Drained,
            Status::Interrupted => Self::Interrupted,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Cancel the running turn at once.
    Stop {
        /// The session.
        session: SessionId,
        /// Why.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Stop the running turn at its next step boundary; `resume` goes on.
    Pause {
        /// The session.
        session: SessionId,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Guide the running turn: it reads this before it asks the model again.
    Steer {
        /// The session.
        session: SessionId,
        /// What to say.
        text: String,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Say something that the turn reads when it would end.
    Say {
        /// The session.
        session: SessionId,
        /// What to say.
        text: String,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Let calls run that wait for a decision.
    Approve {
        /// The session.
        session: SessionId,
        /// The calls; all that wait by default.
        calls: Vec<String>,
        /// Who decides.
        #[arg(long, value_name = "NAME", default_value = "user", env = "TURNWRIGHT_ACTOR")]
        actor: String,
    },
    /// Do not let calls run that wait for a decision.
    Deny {
        /// The session.
        session: SessionId,
        /// The calls; all that wait by default.
        calls: Vec<String>,
        /// Why; the model is told.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Who decides.
        #[arg(long, value_name = "NAME", default_value = "user", env = "TURNWRIGHT_ACTOR")]
        actor: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs {
    /// Who asks; the turn's last event says so.
    #[arg(long, value_name = "NAME", default_value = "user", env = "TURNWRIGHT_ACTOR")]
    pub(crate) actor: String,
    /// How long to wait for what becomes of it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10", env = "TURNWRIGHT_WAIT")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read everything, and name what cannot be read. Exits with 1 when there is something.
    Check,
    /// Forget what is too old or too much, as `store.idle_days` and `store.events_per_session` say. Sessions with an open
    /// turn stay.
    Sweep,
}
