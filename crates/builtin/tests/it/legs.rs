//! Turns of several legs, and turns that are cut.

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use turnwright_builtin::{
    CurrentTime, EnvInjection, LengthGuard, LoopDetection, MemoryTodos, RecordContext, Todo,
    TodoPlanningNudge, TodoStatus, TodoStore, register_tree_aware_hooks, runtime_context,
};
use turnwright_core::{CancelCause, Decision, LegOutcome, Outcome, child_env, history};
use turnwright_react_runtime::{
    Agent, TurnEventKind,
    gate::AskFor,
    store::MemoryStore,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, virtual_sources};

use crate::support::{agent, calls, reminders, same};

/// A process of its own: nothing is shared with the others but the store.
fn process(store: &Arc<MemoryStore>, seed: u64, script: Vec<Reply>) -> Agent {
    let known = tool("known", "", async |ctx: ToolContext, _: Value| {
        let calls = runtime_context(ctx.turn())?;
        let calls: Vec<_> = calls.calls.iter().map(|c| format!("{} = {}", c.tool, c.result)).collect();
        let is_of_this_leg = child_env(ctx.turn())?["TURNWRIGHT_CTX_LEG"] == ctx.turn().leg().to_string();
        Ok::<_, ToolError>(format!("{} {is_of_this_leg}", calls.join(", ")))
    });
    agent(script)
        .sources(virtual_sources(seed))
        .store(store.clone())
        .gate(AskFor::tools(["write"]))
        .tool(known)
        .tool(same("look"))
        .tool(same("write"))
        .hook(CurrentTime::in_zone(jiff::tz::TimeZone::UTC))
        .hook(EnvInjection::default())
        .hook(RecordContext)
        .hook(LoopDetection::default().window(2).observation(2))
        .hook(LengthGuard::default().nudges(1))
        .hook(TodoPlanningNudge)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_resumed_by_another_process_is_told_nothing_twice_and_keeps_what_was_noted() {
    let store = Arc::new(MemoryStore::new());
    let cut = || Reply::new().text("half").finish_with(turnwright_llm_stream::FinishReason::Length);
    let first = process(
        &store,
        1,
        vec![cut(), calls("look", "{}"), calls("look", "{}"), Reply::new().call("w", "write", "{}").finish()],
    );
    let session = first.new_session();
    let id = session.id().clone();
    let mut turn = session.start("hi").unwrap();
    assert!(matches!(turn.outcome().await, LegOutcome::Suspended { .. }));
    let told = reminders(&session);
    assert_eq!(told.len(), 4, "the time, the cut, the loop, the list: {told:?}");
    drop((session, turn, first));

    let second = process(&store, 2, vec![calls("known", "{}"), Reply::new().text("done").finish()]);
    let session = second.open_session(id).await.unwrap();
    session.decide(&Decision::allow(["w".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    let result = session.resume().unwrap().result().await.unwrap();
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Completed, "done"));
    assert_eq!(reminders(&session), told);
    let messages = session.messages();
    let said = messages.iter().flat_map(|m| m.tool_results()).last().unwrap().content.clone();
    assert_eq!(said, "look = same, look = same, write = same true");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_cut_is_neither_reminded_nor_gone_on_with() {
    let todos: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
    let silent = Reply::new().text("let me").silence();
    let session =
        register_tree_aware_hooks(agent([silent]), Some(todos.clone())).build().unwrap().new_session();
    let list = vec![Todo { content: "a".into(), status: TodoStatus::Pending }];
    todos.save(session.id(), list).await.unwrap();
    let mut turn = session.start("hi").unwrap();
    let mut failed = Vec::new();
    while let Some(event) = turn.next().await {
        match event.kind {
            TurnEventKind::TextDelta { .. } => assert!(turn.cancel(CancelCause::requested("ann"))),
            TurnEventKind::HookFailed(failure) => failed.push(failure),
            _ => {}
        }
    }
    let result = turn.result().await.unwrap();
    assert_eq!((result.outcome(), result.attempts), (Outcome::Cancelled, 1));
    assert!(reminders(&session).is_empty() && failed.is_empty(), "{failed:?}");
    history::check(session.messages().iter().map(|m| &**m)).unwrap();
}
