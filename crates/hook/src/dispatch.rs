//! How a point is fired: with which limits, and what is written down.

use std::time::Duration;

use turnwright_core::clock::Instant;

use crate::{HookFailure, HookPoint};

/// What whoever fires points wants to know. The driver keeps these notes outside the work that a cancel drops, so that
/// no hook is begun twice and none is forgotten.
pub trait DispatchLog: Send + Sync {
    /// The index of the first hook of the point that was not begun yet. Called once when the point is fired.
    fn resume_at(&self, point: HookPoint) -> usize;

    /// A hook is begun: it is about to be polled for the first time.
    fn begun(&self, point: HookPoint, index: usize);

    /// A hook failed.
    fn failed(&self, failure: HookFailure);
}

/// How one firing of a point is carried out.
#[derive(Clone, Copy, Default)]
pub struct Dispatch<'a> {
    pub(crate) log: Option<&'a dyn DispatchLog>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) unwinding: bool,
    pub(crate) until: Option<Instant>,
}

impl<'a> Dispatch<'a> {
    /// An ordinary firing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps notes here.
    #[must_use]
    pub fn log(mut self, log: &'a dyn DispatchLog) -> Self {
        self.log = Some(log);
        self
    }

    /// Gives each hook at most this long, whatever its spec says.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The turn is unwinding: control errors are recorded and not obeyed, and every hook runs. After a cancel the owed
    /// hooks share the time until `until`; once it is spent each remaining one is still polled once.
    #[must_use]
    pub fn unwinding(mut self, until: Option<Instant>) -> Self {
        self.unwinding = true;
        self.until = until;
        self
    }
}
