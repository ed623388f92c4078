//! The hints that the seed calls deprecated.

use std::sync::Arc;

use turnwright_builtin::{
    LengthGuard, MemoryTodos, TaskDelegationNudge, TodoPlanningNudge, TodoStore, todo_tools,
};
use turnwright_llm_stream::FinishReason;
use turnwright_testkit::Reply;

use crate::support::{agent, ask, calls, reminders, same};

#[tokio::test(start_paused = true)]
async fn each_hints_once_a_turn_after_three_answers_also_where_the_turn_is_continued() {
    let cut = Reply::new().text("so far").finish_with(FinishReason::Length);
    let script: Vec<_> = (0..4)
        .map(|_| calls("look", "{}"))
        .chain([cut])
        .chain((0..4).map(|_| calls("look", "{}")))
        .chain([Reply::new().text("done").finish()])
        .collect();
    let builder = agent(script).tool(same("look")).hook(LengthGuard::default());
    let session = builder.hook(TodoPlanningNudge).hook(TaskDelegationNudge).build().unwrap().new_session();
    assert_eq!(ask(&session).await.content, "done");
    let told = reminders(&session);
    let count = |word: &str| told.iter().filter(|text| text.contains(word)).count();
    assert_eq!((count("todo_write"), count("subagent")), (1, 1), "{told:?}");
    assert!(session.messages()[7].text().contains("todo_write"), "after three answers and their results");
}

#[tokio::test(start_paused = true)]
async fn who_keeps_a_list_and_who_is_short_are_not_told() {
    let store: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
    let (to, from) = todo_tools(&store);
    let script: Vec<_> = [calls("todo_write", r#"{"todos":[]}"#)]
        .into_iter()
        .chain((0..5).map(|_| calls("look", "{}")))
        .chain([Reply::new().text("done").finish(), Reply::new().text("short").finish()])
        .collect();
    let builder = agent(script).tool(same("look")).tool(to).tool(from).hook(TodoPlanningNudge);
    let session = builder.build().unwrap().new_session();
    for answer in ["done", "short"] {
        assert_eq!(ask(&session).await.content, answer);
    }
    assert!(reminders(&session).is_empty());
}
