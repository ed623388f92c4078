//! `checkpoint`: what a turn had come to after each iteration.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use turnwright_core::{BoxFuture, Message, SessionId, Timestamp, TurnContext, TurnId, TurnState};
use turnwright_hook::{HookError, point::AfterIteration};

/// What a turn had come to after an iteration: enough to look back at it, or to begin a session from there.
#[derive(Debug, Clone)]
pub struct IterationCheckpoint {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The iteration within it, from 1.
    pub iteration: u32,
    /// When.
    pub at: Timestamp,
    /// The history, shared.
    pub messages: Vec<Arc<Message>>,
    /// The turn's state, apart from the turn. A store that writes it down takes its [`TurnState::snapshot`].
    pub state: TurnState,
}

/// Where checkpoints go.
pub trait CheckpointStore: Send + Sync + 'static {
    /// Keeps one.
    ///
    /// # Errors
    /// Why it could not be kept, in words. The turn goes on without it.
    fn keep(&self, checkpoint: IterationCheckpoint) -> BoxFuture<'_, Result<(), String>>;

    /// Those of a turn, by attempt and iteration.
    ///
    /// # Errors
    /// Why they cannot be read, in words.
    fn list<'a>(
        &'a self,
        session: &'a SessionId,
        turn: TurnId,
    ) -> BoxFuture<'a, Result<Vec<IterationCheckpoint>, String>>;

    /// Forgets those of a session, for whoever closes or deletes it. None is no error.
    ///
    /// # Errors
    /// Why they could not be forgotten, in words; some may be.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), String>>;
}

/// Checkpoints in memory: the last so many, of all sessions together. They hold the histories they show until others take their
/// place, or [`forget`](CheckpointStore::forget) is called.
#[derive(Debug)]
pub struct MemoryCheckpoints {
    kept: Mutex<VecDeque<IterationCheckpoint>>,
    most: usize,
}

impl MemoryCheckpoints {
    /// Keeps so many; the oldest go first.
    pub fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }
}

impl Default for MemoryCheckpoints {
    /// The last 1,000.
    fn default() -> Self {
        Self::new(1000)
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn keep(&self, checkpoint: IterationCheckpoint) -> BoxFuture<'_, Result<(), String>> {
        let dropped: Vec<_> = {
            let mut kept = self.kept.lock();
            kept.push_back(checkpoint);
            let surplus = kept.len().saturating_sub(self.most);
            kept.drain(..surplus).collect()
        };
        // Out of the lock.
        drop(dropped);
        Box::pin(std::future::ready(Ok(())))
    }

    fn list<'a>(
        &'a self,
        session: &'a SessionId,
        turn: TurnId,
    ) -> BoxFuture<'a, Result<Vec<IterationCheckpoint>, String>> {
        let kept = self.kept.lock();
        let mut of: Vec<_> =
            kept.iter().filter(|one| one.session == *session && one.turn == turn).cloned().collect();
        of.sort_by_key(|one| (one.attempt, one.iteration));
        Box::pin(std::future::ready(Ok(of)))
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), String>> {
        let gone: VecDeque<_> = {
            let mut kept = self.kept.lock();
            let (gone, others) = kept.drain(..).partition(|one| one.session == *session);
            *kept = others;
            gone
        };
        // Out of the lock.
        drop(gone);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Keeps what a turn had come to after each iteration.
///
/// AFTER_ITERATION, name `checkpoint`. These are for looking back; what makes a turn survive its process is the agent's store of
/// sessions, which needs no hook. A store that fails is a failed hook: by its policy (`Log`) the turn goes on.
#[derive(Clone)]
pub struct Checkpoint {
    store: Arc<dyn CheckpointStore>,
}

impl Checkpoint {
    /// Keeps them here.
    pub fn new(store: Arc<dyn CheckpointStore>) -> Self {
        Self { store }
    }
}

impl AfterIteration for Checkpoint {
    async fn after_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let checkpoint = IterationCheckpoint {
            session: ctx.session().clone(),
            turn: ctx.turn(),
            attempt: ctx.attempt(),
            iteration: ctx.iteration(),
            at: ctx.sources().clock.now(),
            messages: ctx.history().snapshot().messages,
            state: ctx.state().fork(),
        };
        self.store.keep(checkpoint).await.map_err(HookError::msg)
    }
}
