//! Where leg tasks run.

use std::sync::Arc;

use turnwright_core::BoxFuture;

use crate::session::StartError;

type Spawn = dyn Fn(BoxFuture<'static, ()>) -> Result<(), StartError> + Send + Sync;

/// Spawns the task that owns a leg. By default on the tokio runtime that `start` is called in.
#[derive(Clone, Default)]
pub struct Spawner(Option<Arc<Spawn>>);

impl Spawner {
    /// Spawns with this function: for embedders that supervise tasks themselves. It must poll the future to its end on a
    /// tokio runtime with time enabled; dropping it ends the turn as when the runtime is shut down.
    pub fn new(
        spawn: impl Fn(BoxFuture<'static, ()>) -> Result<(), StartError> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(spawn)))
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        match self.0 {
            Some(_) => Ok(()),
            None => current().map(drop),
        }
    }

    pub(crate) fn spawn(&self, leg: BoxFuture<'static, ()>) -> Result<(), StartError> {
        match &self.0 {
            Some(spawn) => spawn(leg),
            None => {
                current()?.spawn(leg);
                Ok(())
            }
        }
    }
}

fn current() -> Result<tokio::runtime::Handle, StartError> {
    let hint = "no tokio runtime here: start turns inside one, or set `AgentBuilder::spawner`";
    tokio::runtime::Handle::try_current().map_err(|_| StartError::Spawn(hint.into()))
}
