//! `todo_continuation`: a turn does not end with work left on its list, as long as the list moves.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnwright_core::{AgentResult, StateKey, StopReason, TurnContext};
use turnwright_hook::{
    HookError,
    point::{AfterTurn, TurnAnswer},
};

use crate::{
    remind,
    subagent::calls::is_awaited,
    todo::{Todo, TodoStore, listed},
};

static SEEN: StateKey<String> = StateKey::new("turnwright.builtin/todo_continuation", 1);

/// Goes on with a turn that would end while its todo list has something left to do.
///
/// AFTER_TURN, name `todo_continuation`, priority −1000: first. It reminds the model of what is left and asks for a further
/// attempt and a renewal of the attempts, once for each state of the list: a list that did not change since lets the turn end.
/// A model that keeps editing its list is bounded by the runtime's renewals (10 by default). Only an attempt that completed, or
/// that ended at the limit of its iterations or of the model's output, is gone on with: one that failed, was cancelled, or used
/// up its time or its budget is left alone. So is a turn that started a subagent in the background which has not reported: what is
/// left may be what it does.
#[derive(Clone)]
pub struct TodoContinuation {
    store: Arc<dyn TodoStore>,
}

impl TodoContinuation {
    /// Looks at the lists of this store.
    pub fn new(store: Arc<dyn TodoStore>) -> Self {
        Self { store }
    }
}

impl AfterTurn for TodoContinuation {
    async fn after_turn(&self, ctx: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        // A further attempt has nothing to spend when a budget is used up.
        let goes_on = [StopReason::Completed, StopReason::MaxIterations, StopReason::MaxTokens];
        if !goes_on.contains(&result.stop_reason) {
            return Ok(TurnAnswer::Done);
        }
        if is_awaited(ctx, &ctx.history().snapshot().messages) {
            return Ok(TurnAnswer::Done);
        }
        let list = self.store.load(ctx.session()).await.map_err(HookError::msg)?;
        let active: Vec<Todo> = list.into_iter().filter(|todo| todo.status.is_active()).collect();
        if active.is_empty() {
            ctx.state().remove(&SEEN);
            return Ok(TurnAnswer::Done);
        }
        let now = signature(&active);
        if ctx.state().get(&SEEN)?.as_deref() == Some(&now) {
            return Ok(TurnAnswer::Done);
        }
        let words = format!(
            "Your todo list has something left to do:\n{}\nGo on with it; or set what is no longer wanted to cancelled; or, if \
             something keeps you from it, say what, and end your answer.",
            listed(&active)
        );
        remind(ctx, "todo_continuation", words)?;
        ctx.state().set(&SEEN, now);
        Ok(TurnAnswer::ContinueAndRenew)
    }
}

/// Equal for lists of the same entries, in whatever order.
fn signature(active: &[Todo]) -> String {
    let mut lines: Vec<_> = active.iter().map(|todo| format!("{}:{:?}", todo.content, todo.status)).collect();
    lines.sort_unstable();
    let digest = Sha256::digest(lines.join("|").as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
