//! Which call the code that runs is a part of.

use std::{fmt, pin::Pin, task::Context, task::Poll};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use turnwright_core::{Sources, id::Id};

tokio::task_local!(static CURRENT: CallScope);

/// Names a call that is watched, and the call it is a part of: an agent run, a model call, a tool call or a code cell.
///
/// The current one is that of the code which runs, by task and not by thread: what is polled beside it has its own. Work
/// that is spawned does not have it by itself: [`follow`] takes it along. The runtime does so itself for turns that are
/// started in a call, for calls that a call makes, and for [blocking](CallScope::run_blocking) bodies of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallScope {
    /// This call.
    pub id: Id<CallScope>,
    /// The call it is a part of; none at the top.
    pub parent: Option<Id<CallScope>>,
}

impl CallScope {
    /// The call that the code which runs is a part of; none outside of one, and where nothing is instrumented.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|scope| *scope).ok()
    }

    /// A call that is a part of the current one.
    pub(super) fn under_current(sources: &Sources) -> Self {
        Self { id: sources.id(), parent: Self::current().map(|scope| scope.id) }
    }

    /// Polls a future as a part of this call, in whatever task.
    pub fn run<F: Future>(self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self, work)
    }

    /// Runs code as a part of this call, on whatever thread.
    pub fn run_blocking<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }
}

impl fmt::Display for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// The same future, as a part of the call that is current now, for spawning: `tokio::spawn(follow(work))`.
pub fn follow<F: Future>(work: F) -> Scoped<F> {
    match CallScope::current() {
        Some(scope) => Scoped::In { work: CURRENT.scope(scope, work) },
        None => Scoped::Plain { work },
    }
}

pin_project! {
    /// A future that [`follow`]s the call it was made in.
    #[project = ScopedProj]
    pub enum Scoped<F> {
        #[doc(hidden)]
        In {
            #[pin]
            work: TaskLocalFuture<CallScope, F>,
        },
        #[doc(hidden)]
        Plain {
            #[pin]
            work: F,
        },
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            ScopedProj::In { work } => work.poll(cx),
            ScopedProj::Plain { work } => work.poll(cx),
        }
    }
}
