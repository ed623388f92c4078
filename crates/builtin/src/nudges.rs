//! `todo_planning_nudge` and `task_delegation_nudge`: hints that models of today do without. Deprecated by the seed; here for
//! those who want them.

use turnwright_core::{Message, Origin, Role, StateKey, TurnContext};
use turnwright_hook::{
    HookError,
    point::{BeforeIteration, StartNodeTurn},
};

use crate::{remind, todo::TODO_WRITE};

/// Answers in a turn before it is long enough to be told.
const LONG: usize = 3;

static PLANNING: StateKey<bool> = StateKey::new("turnwright.builtin/todo_planning_nudge", 1);
static DELEGATION: StateKey<bool> = StateKey::new("turnwright.builtin/task_delegation_nudge", 1);

/// Hints once a turn, after three answers without one, that a todo list would help.
///
/// START_NODE_TURN and BEFORE_ITERATION, name `todo_planning_nudge`. Deprecated by the seed: opt in only for models that lose
/// the thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct TodoPlanningNudge;

/// Hints once a turn, after three answers without one, that a subagent could do a part of the work.
///
/// START_NODE_TURN and BEFORE_ITERATION, name `task_delegation_nudge`. Deprecated by the seed: opt in only for models that do
/// everything themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskDelegationNudge;

/// Armed at the beginning of a turn and not of an attempt, so that a continuation is not told again.
fn nudge(
    ctx: &TurnContext,
    armed: &StateKey<bool>,
    (hook, tool, words): (&str, &str, &str),
) -> Result<(), HookError> {
    if ctx.state().get(armed)?.as_deref() != Some(&true) {
        return Ok(());
    }
    let history = ctx.history().snapshot();
    let is_users =
        |m: &Message| m.role == Role::User && !matches!(m.origin, Origin::Hook(_) | Origin::Summary { .. });
    let turn = history.messages.iter().rev().take_while(|m| !is_users(m));
    let answers: Vec<_> = turn.filter(|m| m.role == Role::Assistant).collect();
    let is_used = answers.iter().any(|m| m.tool_calls().any(|call| call.name == tool));
    if is_used {
        ctx.state().set(armed, false);
    } else if answers.len() >= LONG {
        ctx.state().set(armed, false);
        remind(ctx, hook, words)?;
    }
    Ok(())
}

impl StartNodeTurn for TodoPlanningNudge {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        ctx.state().set(&PLANNING, true);
        Ok(())
    }
}

impl BeforeIteration for TodoPlanningNudge {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let words = "This takes several steps: consider keeping a list of them with todo_write.";
        nudge(ctx, &PLANNING, ("todo_planning_nudge", TODO_WRITE, words))
    }
}

impl StartNodeTurn for TaskDelegationNudge {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        ctx.state().set(&DELEGATION, true);
        Ok(())
    }
}

impl BeforeIteration for TaskDelegationNudge {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let words = "This takes several steps: consider giving a part that stands by itself to a subagent, with task.";
        nudge(ctx, &DELEGATION, ("task_delegation_nudge", "task", words))
    }
}
