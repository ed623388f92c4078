//! Where and how a leg is cut.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use futures::FutureExt;
use parking_lot::Mutex;
use turnwright_control::{CommandBody, ControlChannel, ControlCommand, ControlScope, InMemoryControlChannel};
use turnwright_core::{BoxFuture, CancelCause, CancelKind, Sources, clock::Instant};
use turnwright_react_runtime::TurnHandle;
use turnwright_testkit::{ScriptedModel, trace::HookTrace};

use super::place::Record;

/// How a leg is cut. The `AtCommit` modes act at the start of a ledger commit, that is in the middle of a poll, as
/// another thread would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    None,
    /// The turn's token.
    Token,
    /// A command in the control channel.
    Channel,
    /// The direct path.
    Interrupt,
    /// Both at once, the direct path first.
    Both,
    /// The reader drops its handle.
    DropHandle,
    /// The runtime goes away: the future is dropped.
    RuntimeDrop,
    TokenAtCommit,
    ChannelAtCommit,
    InterruptAtCommit,
}

impl Mode {
    pub(super) const CUTS: [Self; 9] = [
        Self::Token,
        Self::Channel,
        Self::Interrupt,
        Self::Both,
        Self::DropHandle,
        Self::RuntimeDrop,
        Self::TokenAtCommit,
        Self::ChannelAtCommit,
        Self::InterruptAtCommit,
    ];

    pub(super) fn is_at_commit(self) -> bool {
        matches!(self, Self::TokenAtCommit | Self::ChannelAtCommit | Self::InterruptAtCommit)
    }

    /// Whether the cut is raised inside as a control error, and the work has a grace.
    pub(super) fn is_raised(self) -> bool {
        matches!(self, Self::Token | Self::TokenAtCommit | Self::Channel | Self::ChannelAtCommit)
    }

    /// Who cuts.
    pub(super) fn cause(self) -> CancelCause {
        match self {
            _ if self.is_raised() => CancelCause::requested("user"),
            Self::DropHandle => {
                CancelCause::runtime(CancelKind::HandleDropped, "the turn's handle was dropped")
            }
            _ => CancelCause::runtime(CancelKind::Superseded, "a new message came"),
        }
    }

    /// What the mark on an answer that was cut says.
    pub(super) fn mark(self) -> &'static str {
        match self {
            _ if self.is_raised() => "user_stop",
            Self::RuntimeDrop => "error",
            _ => "cancelled",
        }
    }
}

/// What a cut acts on.
pub(super) struct Knife {
    pub(super) mode: Mode,
    pub(super) k: usize,
    pub(super) polls: AtomicUsize,
    pub(super) commits: AtomicUsize,
    pub(super) handle: Mutex<Option<TurnHandle>>,
    pub(super) channel: Arc<InMemoryControlChannel>,
    pub(super) sources: Sources,
    pub(super) trace: HookTrace,
    pub(super) model: ScriptedModel,
    /// What an uncut leg writes down.
    pub(super) record: Record,
    /// When it cut.
    pub(super) cut_at: Mutex<Option<Instant>>,
}

impl Knife {
    /// Called at the start of every commit.
    pub(super) fn commit(&self) {
        self.note_commit();
        let n = self.commits.fetch_add(1, SeqCst);
        if self.mode.is_at_commit() && n == self.k {
            self.act();
        }
    }

    fn act(&self) {
        // A handle that acts is put back: it holds the events.
        let Some(handle) = self.handle.lock().take() else { return };
        *self.cut_at.lock() = Some(self.sources.clock.instant());
        match self.mode {
            Mode::Token | Mode::TokenAtCommit => drop(handle.cancel(self.mode.cause())),
            Mode::Channel | Mode::ChannelAtCommit => {
                let scope = ControlScope::turn(handle.session().clone(), handle.turn());
                let stop = CommandBody::CancelTurn { reason: None };
                let command = ControlCommand::new(&self.sources, scope, "user", stop);
                self.channel.send(command).now_or_never().unwrap().unwrap();
            }
            Mode::Interrupt | Mode::InterruptAtCommit => drop(handle.interrupt(self.mode.cause())),
            Mode::Both => {
                handle.interrupt(self.mode.cause());
                handle.cancel(CancelCause::requested("user"));
            }
            Mode::DropHandle => return,
            Mode::None | Mode::RuntimeDrop => {}
        }
        *self.handle.lock() = Some(handle);
    }
}

/// Counts the polls of a leg and cuts it just before poll `k`.
pub(super) struct CutAt {
    pub(super) leg: Option<BoxFuture<'static, ()>>,
    pub(super) knife: Arc<Knife>,
}

impl Future for CutAt {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let n = self.knife.polls.fetch_add(1, SeqCst);
        self.knife.note_poll();
        if n == self.knife.k && !self.knife.mode.is_at_commit() {
            if self.knife.mode == Mode::RuntimeDrop {
                *self.knife.cut_at.lock() = Some(self.knife.sources.clock.instant());
                self.leg = None;
                return Poll::Ready(());
            }
            self.knife.act();
        }
        match &mut self.leg {
            Some(leg) => leg.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
