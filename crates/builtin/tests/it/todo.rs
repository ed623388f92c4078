//! Todo lists: their tools, and the turns they keep going.

use std::sync::Arc;

use turnwright_builtin::{
    LengthGuard, MemoryTodos, TodoContinuation, TodoStatus, TodoStore, register_tree_aware_hooks, todo_tools,
    todos_of,
};
use turnwright_core::{BudgetLimits, Outcome, SessionId, StopReason};
use turnwright_react_runtime::{AgentBuilder, machine::Limits};
use turnwright_testkit::Reply;

use crate::support::{agent, ask, calls, reminders};

fn write(entries: &[(&str, &str)]) -> Reply {
    let entries: Vec<_> = entries
        .iter()
        .map(|(content, status)| serde_json::json!({"content": content, "status": status}))
        .collect();
    calls("todo_write", &serde_json::json!({ "todos": entries }).to_string())
}

fn with_todos(script: impl IntoIterator<Item = Reply>) -> (AgentBuilder, Arc<dyn TodoStore>) {
    let store: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
    let (to, from) = todo_tools(&store);
    (register_tree_aware_hooks(agent(script).tool(to).tool(from), Some(store.clone())), store)
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_work_left_goes_on_until_the_list_is_done() {
    let script = [
        write(&[("a", "in_progress"), ("b", "pending")]),
        says("a is done"),
        write(&[("a", "completed"), ("b", "in_progress")]),
        says("half of it"),
        write(&[("a", "completed"), ("b", "completed")]),
        says("all of it"),
    ];
    let (agent, store) = with_todos(script);
    let session = agent.build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.content.as_str(), result.attempts), ("all of it", 3));
    let told = reminders(&session);
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("1. [in_progress] a\n2. [pending] b"), "{}", told[0]);
    assert!(!told[1].contains("] a"), "what is done is not left: {}", told[1]);
    assert_eq!(store.load(session.id()).await.unwrap()[1].status, TodoStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_move_lets_the_turn_end() {
    let script = [write(&[("a", "pending")]), says("later"), says("later still")];
    let (agent, _) = with_todos(script);
    let session = agent.build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Completed, "later still"));
    assert_eq!(reminders(&session).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_edits_its_list_for_ever_is_bounded() {
    let script = (0..200).map(|n| match n % 2 {
        0 => write(&[(&format!("step {n}"), "pending")]),
        _ => says("not yet"),
    });
    let (agent, _) = with_todos(script);
    let result = ask(&agent.build().unwrap().new_session()).await;
    assert_eq!((result.outcome(), result.attempts), (Outcome::LimitReached, 13));
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_budget_is_not_gone_on_with_and_one_at_its_iterations_is() {
    let script = || [write(&[("a", "pending")]), write(&[("a", "completed")]), says("done")];
    let budget = BudgetLimits { tool_calls: Some(1), ..BudgetLimits::default() };
    let session = with_todos(script()).0.budget(budget).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.stop_reason, result.attempts), (StopReason::Budget, 1), "{result:?}");
    assert!(reminders(&session).is_empty(), "nothing is said that nobody reads");
    let limits = Limits { iterations: 1, ..Limits::default() };
    let script = [write(&[("a", "pending")]), says("on it"), says("done")];
    let session = with_todos(script).0.limits(limits).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.content.as_str(), reminders(&session).len()), ("on it", 1), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_is_refused_and_the_old_one_stays() {
    let long = "x".repeat(501);
    let many: Vec<_> = (0..101).map(|_| ("a", "pending")).collect();
    let script = [
        write(&[("a", "pending")]),
        write(&[(" ", "pending")]),
        write(&[(&long, "pending")]),
        write(&many),
        write(&[("a", "soon")]),
        calls("todo_read", "{}"),
        says("end"),
        says("end"),
    ];
    let (agent, _) = with_todos(script);
    let session = agent.build().unwrap().new_session();
    ask(&session).await;
    let messages = session.messages();
    let said: Vec<_> = messages.iter().flat_map(|m| m.tool_results()).map(|r| r.content.as_str()).collect();
    assert!(said[1].contains("entry 1 says nothing") && said[2].contains("500 are the most"), "{said:?}");
    assert!(said[3].contains("100 are the most") && said[4].contains("unknown variant `soon`"), "{said:?}");
    assert_eq!(said[5], "1. [pending] a");
}

#[tokio::test(start_paused = true)]
async fn a_history_says_which_list_was_written_last() {
    let script = [
        says("nothing to do"),
        write(&[("a", "pending")]),
        write(&[("b", "in_progress")]),
        write(&[("", "pending")]),
        says("end"),
        says("end"),
    ];
    let (agent, store) = with_todos(script);
    let session = agent.build().unwrap().new_session();
    ask(&session).await;
    assert_eq!(todos_of(session.messages().iter().map(|m| &**m)), None);
    ask(&session).await;
    let written = todos_of(session.messages().iter().map(|m| &**m)).unwrap();
    assert_eq!(written, store.load(session.id()).await.unwrap(), "the one that was refused does not count");
    assert_eq!((written[0].content.as_str(), written.len()), ("b", 1));
}

#[tokio::test]
async fn lists_of_sessions_are_their_own_and_an_empty_one_is_forgotten() {
    let store = MemoryTodos::default();
    let id = |n: usize| SessionId::new(format!("s{n}")).unwrap();
    let list =
        |text: &str| vec![turnwright_builtin::Todo { content: text.into(), status: TodoStatus::Pending }];
    for n in 0..MemoryTodos::SESSIONS + 10 {
        store.save(&id(n), list(&n.to_string())).await.unwrap();
    }
    assert_eq!(store.load(&id(0)).await.unwrap(), vec![], "the longest ago goes first");
    assert_eq!(store.load(&id(10)).await.unwrap()[0].content, "10");
    store.save(&id(10), vec![]).await.unwrap();
    assert_eq!(store.load(&id(10)).await.unwrap(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn hooks_of_a_tree_come_in_their_order_and_a_declared_one_wins() {
    let names = |agent: AgentBuilder| -> Vec<(String, i32)> {
        let plan = agent.build().unwrap().plan();
        plan.hooks.into_iter().map(|hook| (hook.name, hook.priority)).collect()
    };
    let store: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
    let plain = register_tree_aware_hooks(agent([]), Some(store.clone()));
    assert_eq!(names(plain), [("todo_continuation".to_owned(), -1000), ("length_guard".to_owned(), 0)]);
    let declared = turnwright_hook::HookSpec::from(TodoContinuation::new(store.clone())).priority(7);
    let declared = agent([]).hook(LengthGuard::default().nudges(3)).hook(declared);
    let both = register_tree_aware_hooks(declared, Some(store));
    assert_eq!(names(both), [("length_guard".to_owned(), 0), ("todo_continuation".to_owned(), 7)]);
    assert_eq!(names(register_tree_aware_hooks(agent([]), None)), [("length_guard".to_owned(), 0)]);
}
