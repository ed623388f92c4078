//! `todo_reorientation`: after a clean-up the model is told what it was about.

use std::sync::Arc;

use turnwright_core::{BoxFuture, TurnContext};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook};

use crate::{
    remind,
    todo::{Todo, TodoStore, listed},
};

/// Reminds the model, after a clean-up that left something out, that it did, and of what is left on its todo list; name
/// `todo_reorientation`. A list that cannot be read leaves the reminder without it.
#[derive(Clone)]
pub struct TodoReorientation {
    store: Arc<dyn TodoStore>,
}

impl TodoReorientation {
    /// With the lists of this store.
    pub fn new(store: Arc<dyn TodoStore>) -> Self {
        Self { store }
    }
}

impl MemoryHook for TodoReorientation {
    fn name(&self) -> &str {
        "todo_reorientation"
    }

    fn on<'a>(
        &'a self,
        ctx: &'a TurnContext,
        event: &'a MemoryEvent,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let MemoryEvent::CleanupFinished { pruned: pruned @ 1.., .. } = event else { return Ok(()) };
            let mut words = format!(
                "The conversation became too long: {pruned} earlier messages are replaced by the summary at its beginning. Read files \
                 again before you rely on what they said."
            );
            match self.store.load(ctx.session()).await {
                Ok(list) => {
                    let active: Vec<Todo> = list.into_iter().filter(|todo| todo.status.is_active()).collect();
                    if !active.is_empty() {
                        words.push_str("\nYour todo list has left to do:\n");
                        words.push_str(&listed(&active));
                    }
                }
                Err(e) => tracing::warn!("the todo list of session {} cannot be read: {e}", ctx.session()),
            }
            Ok(remind(ctx, "todo_reorientation", words)?)
        })
    }
}
