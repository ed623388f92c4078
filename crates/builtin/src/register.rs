//! Built-in hooks as an agent takes them: with their names and priorities.

use std::sync::Arc;

use turnwright_hook::{HookSpec, hook};
use turnwright_react_runtime::AgentBuilder;

use crate::{
    Checkpoint, CurrentTime, EnvInjection, InboxFlush, LengthGuard, Logging, LoopDetection, RecordContext,
    SubagentAutoSend, TaskDelegationNudge, TodoContinuation, TodoPlanningNudge, TodoStore,
};

macro_rules! named {
    ($($hook:ty, $name:literal $(, $priority:literal)?;)*) => {
        $(
            impl From<$hook> for HookSpec {
                fn from(value: $hook) -> Self {
                    hook!(value).name($name)$(.priority($priority))?
                }
            }
        )*
    };
}

named! {
    Checkpoint, "checkpoint";
    CurrentTime, "current_time";
    EnvInjection, "env_injection";
    InboxFlush, "inbox_flush";
    LengthGuard, "length_guard";
    Logging, "logging";
    LoopDetection, "loop_detection";
    RecordContext, "runtime_context";
    SubagentAutoSend, "subagent_auto_send";
    TaskDelegationNudge, "task_delegation_nudge";
    TodoContinuation, "todo_continuation", -1000;
    TodoPlanningNudge, "todo_planning_nudge";
}

/// Registers the hooks that an agent and its subagents have alike, in this order: [`TodoContinuation`] (where there are lists)
/// and [`LengthGuard`]. A hook of the same name that was registered before wins.
///
/// For the agent at the root and for each subagent: one function, so that both have the same.
pub fn register_tree_aware_hooks(mut agent: AgentBuilder, todos: Option<Arc<dyn TodoStore>>) -> AgentBuilder {
    let todos = todos.map(|todos| HookSpec::from(TodoContinuation::new(todos)));
    for spec in todos.into_iter().chain([LengthGuard::default().into()]) {
        if !agent.has_hook(spec.hook_name()) {
            agent = agent.hook(spec);
        }
    }
    agent
}
