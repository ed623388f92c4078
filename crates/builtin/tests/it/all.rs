//! All of them together.

use std::sync::Arc;

use futures::StreamExt;
use turnwright_builtin::{
    Checkpoint, CurrentTime, EnvInjection, Logging, LoopDetection, MemoryCheckpoints, MemoryTodos,
    RecordContext, TaskDelegationNudge, TodoPlanningNudge, TodoStore, register_tree_aware_hooks, todo_tools,
};
use turnwright_core::Origin;
use turnwright_hook::{HookSpec, hook};
use turnwright_react_runtime::{Agent, AgentBuilder};
use turnwright_testkit::{
    Reply,
    trace::{HookTrace, TraceHook},
    virtual_sources,
};

use crate::support::{agent, calls, same};

fn script() -> Vec<Reply> {
    vec![
        calls("todo_write", r#"{"todos":[{"content":"look","status":"in_progress"}]}"#),
        calls("look", "{}"),
        Reply::new().text("half").finish(),
        calls("todo_write", r#"{"todos":[{"content":"look","status":"completed"}]}"#),
        Reply::new().text("done").finish(),
    ]
}

/// The hooks and tools of all agents here: clones share them.
struct All {
    hooks: Vec<HookSpec>,
    todos: Arc<dyn TodoStore>,
}

impl All {
    fn new() -> Self {
        let hooks = vec![
            CurrentTime::in_zone(jiff::tz::TimeZone::UTC).into(),
            EnvInjection::default().into(),
            RecordContext.into(),
            Logging::default().into(),
            LoopDetection::default().into(),
            Checkpoint::new(Arc::new(MemoryCheckpoints::default())).into(),
            TodoPlanningNudge.into(),
            TaskDelegationNudge.into(),
        ];
        Self { hooks, todos: Arc::new(MemoryTodos::default()) }
    }

    /// With ids of its own.
    fn agent(&self, seed: u64) -> AgentBuilder {
        let (write, read) = todo_tools(&self.todos);
        let agent = agent(script()).sources(virtual_sources(seed)).tool(write).tool(read).tool(same("look"));
        let agent = self.hooks.iter().fold(agent, |agent, hook| agent.hook(hook.clone()));
        register_tree_aware_hooks(agent, Some(self.todos.clone()))
    }
}

/// What hooks wrote into the history, in order, and the answer.
async fn run(agent: &Agent, reads: bool) -> (String, Vec<String>) {
    let session = agent.new_session();
    let mut turn = session.start("hi").unwrap();
    if reads {
        while turn.next().await.is_some() {}
    }
    let content = turn.result().await.unwrap().content;
    let messages = session.messages();
    let by = messages.iter().filter_map(|message| match &message.origin {
        Origin::Hook(name) => Some(name.clone()),
        _ => None,
    });
    (content, by.collect())
}

fn expected() -> (String, Vec<String>) {
    let written = ["current_time", "todo_continuation", "task_delegation_nudge"];
    ("done".into(), written.map(str::to_owned).to_vec())
}

#[tokio::test(start_paused = true)]
async fn in_one_turn_they_write_what_they_say_and_the_points_are_the_same_whether_it_is_read_or_not() {
    let mut points = Vec::new();
    for reads in [true, false] {
        let trace = HookTrace::new();
        let agent = All::new().agent(1).hook(hook!(TraceHook::new(0, &trace))).build().unwrap();
        assert_eq!(run(&agent, reads).await, expected());
        points.push(trace.points());
    }
    assert_eq!(points[0], points[1], "for streaming and plain callers");
    let names: Vec<_> = points[0].iter().map(|point| point.name()).collect();
    let round = "before_iteration before_llm after_llm_response before_tool_execution after_tool_execution after_iteration";
    let last = "before_iteration before_llm after_llm_response after_iteration after_turn";
    let golden = format!(
        "before_graph start_node_turn before_turn {round} {round} {last} before_turn {round} {last} finalize_content \
         end_node_turn after_graph finally_graph"
    );
    assert_eq!(names.join(" "), golden);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_sessions_at_once_share_them_and_nothing_of_one_is_seen_in_another() {
    let all = All::new();
    let agents: Vec<_> = (0..8).map(|seed| all.agent(seed).build().unwrap()).collect();
    let turns = agents.iter().map(|agent| run(agent, true));
    for ran in futures::future::join_all(turns).await {
        assert_eq!(ran, expected());
    }
}
