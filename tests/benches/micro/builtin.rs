//! The built-in hooks: what each costs a turn of one model call, beside the same points with nobody there. A history of forty
//! messages, with calls and results.

use std::sync::Arc;

use turnwright_builtin::{
    Checkpoint, CurrentTime, EnvInjection, LengthGuard, Logging, LoopDetection, MemoryCheckpoints,
    MemoryTodos, RecordContext, TaskDelegationNudge, TodoContinuation, TodoPlanningNudge,
    memory::{CleanUp, ContextAssembly},
};
use turnwright_core::{
    MemoryHistory, Message, Part, Role, SessionId, Sources, ToolCall, ToolResult, TurnContext,
};
use turnwright_hook::{HookRunner, HookSpec};

use crate::{cpu::Bench, hooks::fire_all};

/// Those that need nothing from outside.
pub(crate) fn hooks() -> Vec<(&'static str, HookSpec)> {
    let todos = Arc::new(MemoryTodos::default());
    vec![
        ("checkpoint", Checkpoint::new(Arc::new(MemoryCheckpoints::default())).into()),
        ("clean_up", CleanUp::for_window(100_000).into()),
        ("context_assembly", ContextAssembly::default().into()),
        ("current_time", CurrentTime::in_zone(jiff::tz::TimeZone::UTC).into()),
        ("env_injection", EnvInjection::default().into()),
        ("length_guard", LengthGuard::default().into()),
        ("logging", Logging::default().into()),
        ("loop_detection", LoopDetection::default().into()),
        ("runtime_context", RecordContext.into()),
        ("task_delegation_nudge", TaskDelegationNudge.into()),
        ("todo_continuation", TodoContinuation::new(todos).into()),
        ("todo_planning_nudge", TodoPlanningNudge.into()),
    ]
}

fn context(messages: &[Arc<Message>]) -> TurnContext {
    let history = Arc::new(MemoryHistory::new(messages.to_vec()));
    TurnContext::builder(SessionId::new("s").unwrap()).history(history).build()
}

fn messages() -> Vec<Arc<Message>> {
    let sources = Sources::default();
    let mut messages = vec![Message::user(sources.id(), "Compare the entries.")];
    for n in 0..20 {
        let call = ToolCall::new(format!("c{n}"), "lookup", format!(r#"{{"key":"entry {n}"}}"#));
        let result = ToolResult::ok(&call, "The entry: ".repeat(20));
        messages.push(Message::new(sources.id(), Role::Assistant, vec![Part::ToolCall(call)]));
        messages.push(Message::tool(sources.id(), result));
    }
    messages.into_iter().map(Arc::new).collect()
}

pub(crate) fn all(c: &mut Bench) {
    let messages = messages();
    let mut group = c.benchmark_group("builtin");
    let runtime = crate::cpu::runtime();
    let none = std::iter::once(("nobody", None));
    for (name, spec) in none.chain(hooks().into_iter().map(|(name, spec)| (name, Some(spec)))) {
        let runner = HookRunner::new(spec);
        group.bench_function(name, |b| {
            b.iter_batched(
                || context(&messages),
                |ctx| runtime.block_on(fire_all(&runner, &ctx)),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}
