//! All of them together.

use std::sync::{Arc, Weak};

use futures::StreamExt;
use turnwright_builtin::{
    Checkpoint, CheckpointStore, CurrentTime, EnvInjection, ExperienceFiles, ExperienceReview, InboxFlush,
    LengthGuard, Logging, LoopDetection, MemoryCheckpoints, MemoryTodos, RecordContext, TaskDelegationNudge,
    TodoContinuation, TodoPlanningNudge, TodoStore,
    memory::{CleanUp, Consolidation, ContextAssembly, CoreMemory},
    todo_tools,
};
use turnwright_core::{Message, Origin, SessionId};
use turnwright_hook::{HookPoint, HookSpec, hook};
use turnwright_llm_stream::FinishReason;
use turnwright_react_runtime::{
    Agent,
    mailbox::{Mail, MailKind, Mailbox, MemoryMailbox},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use crate::{
    noted::{Noted, Notes},
    support::{agent, calls, same},
};

/// A turn in which each of them has something to do.
fn script() -> Vec<Reply> {
    vec![
        calls("todo_write", r#"{"todos":[{"content":"look","status":"in_progress"}]}"#),
        calls("look", "{}"),
        calls("look", "{}"),
        calls("look", "{}"),
        Reply::new().text("half").finish_with(FinishReason::Length),
        calls("todo_write", r#"{"todos":[{"content":"look","status":"completed"}]}"#),
        Reply::new().text("done").finish(),
    ]
}

/// The hooks and tools of all agents here: clones share them.
struct All {
    hooks: Vec<HookSpec>,
    notes: Notes,
    todos: Arc<dyn TodoStore>,
    checkpoints: Arc<MemoryCheckpoints>,
    mailbox: Arc<MemoryMailbox>,
    /// Of the experiences and of the core memory; gone with this.
    _folder: tempfile::TempDir,
}

impl All {
    fn new() -> Self {
        let notes = Notes::default();
        let todos: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
        let checkpoints = Arc::new(MemoryCheckpoints::default());
        let mailbox = Arc::new(MemoryMailbox::new());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("core.md"), "They like tea.").unwrap();
        let core = CoreMemory::in_file(folder.path().join("core.md"));
        // Reviews take turns: how many there are is chance.
        let model = || ScriptedModel::new((0..8).map(|_| Reply::new().text("Nothing.").finish())).handle();
        let review = ExperienceReview::new(ExperienceFiles::below(folder.path()), model()).unwrap();
        let mut hooks = Vec::new();
        macro_rules! noted {
            ($($hook:expr, $name:literal, $priority:literal;)*) => {
                $(
                    let hook = $hook;
                    let (own, noted) = (HookSpec::from(hook.clone()), Noted { hook, name: $name, notes: notes.clone() });
                    let noted = hook!(noted).name($name).priority($priority);
                    assert_eq!((own.hook_name(), own.points()), (noted.hook_name(), noted.points()));
                    hooks.push(noted);
                )*
            };
        }
        noted! {
            CurrentTime::in_zone(jiff::tz::TimeZone::UTC), "current_time", 0;
            EnvInjection::default(), "env_injection", 0;
            RecordContext, "runtime_context", 0;
            Logging::default(), "logging", 0;
            LoopDetection::default().window(3), "loop_detection", 0;
            Checkpoint::new(checkpoints.clone()), "checkpoint", 0;
            TodoPlanningNudge, "todo_planning_nudge", 0;
            TaskDelegationNudge, "task_delegation_nudge", 0;
            InboxFlush::new(mailbox.clone()), "inbox_flush", 0;
            ContextAssembly::default().source(0, core.clone()), "context_assembly", 0;
            Consolidation::new(core, model()), "consolidation", 0;
            review.min_messages(4), "experience_review", 0;
            CleanUp::for_window(100_000), "clean_up", -100;
            LengthGuard::default(), "length_guard", 0;
            TodoContinuation::new(todos.clone()), "todo_continuation", -1000;
        }
        Self { hooks, notes, todos, checkpoints, mailbox, _folder: folder }
    }

    /// An agent with a model of its own, and with all the hooks.
    fn agent(&self, seed: u64) -> Agent {
        let (write, read) = todo_tools(&self.todos);
        let agent = agent(script()).sources(virtual_sources(seed)).tool(write).tool(read).tool(same("look"));
        self.hooks.iter().fold(agent, |agent, hook| agent.hook(hook.clone())).build().unwrap()
    }
}

/// What a turn came to.
#[derive(Debug, PartialEq)]
struct Ran {
    content: String,
    attempts: u32,
    /// Who wrote into the history, in order.
    written: Vec<String>,
    /// Who was called at which point.
    trace: String,
}

/// Runs one, and answers what it left behind that somebody may still hold.
async fn run(all: &All, agent: &Agent, reads: bool) -> (Ran, SessionId, Vec<Weak<Message>>) {
    let session = agent.new_session();
    let (kind, to) = (MailKind::AgentMessage, session.id().clone());
    let mail = Mail { id: "m".into(), to, from: "ann".into(), kind, text: "hello".into(), answers: None };
    all.mailbox.post(mail).await.unwrap();
    let mut turn = session.start("hi").unwrap();
    if reads {
        while turn.next().await.is_some() {}
    }
    let result = turn.result().await.unwrap();
    let messages = session.messages();
    let by = messages.iter().filter_map(|message| match &message.origin {
        Origin::Hook(name) => Some(name.clone()),
        _ => None,
    });
    let (content, attempts, written) = (result.content, result.attempts, by.collect());
    let ran = Ran { content, attempts, written, trace: all.notes.of(session.id()) };
    (ran, session.id().clone(), messages.iter().map(Arc::downgrade).collect())
}

fn golden() -> Ran {
    let written = [
        "current_time",
        "inbox_flush",
        "context_assembly",
        "task_delegation_nudge",
        "loop_detection",
        // At the same AFTER_TURN, by priority.
        "todo_continuation",
        "length_guard",
    ];
    let begin = "before_graph: env_injection
start_node_turn: current_time runtime_context todo_planning_nudge task_delegation_nudge inbox_flush context_assembly";
    let asked = "before_iteration: loop_detection todo_planning_nudge task_delegation_nudge inbox_flush
before_llm: clean_up inbox_flush
after_llm_response: clean_up logging length_guard";
    let tools = "before_tool_execution: runtime_context logging
after_tool_execution: runtime_context logging";
    let (after, end) = ("after_iteration: checkpoint", "after_turn: todo_continuation length_guard");
    let round = [asked, tools, after].join("\n");
    let last = [asked, after, end].join("\n");
    let over = "after_graph: consolidation experience_review
finally_graph: inbox_flush";
    let trace = [begin, &round, &round, &round, &round, &last, &round, &last, over].join("\n");
    Ran { content: "done".into(), attempts: 2, written: written.map(str::to_owned).to_vec(), trace }
}

/// The others of a leg's end are those of subagents, which have a test beside them.
#[test]
fn every_hook_of_a_legs_end_is_known() {
    let all = All::new();
    let hear = all.hooks.iter().filter(|hook| hook.points().contains(&HookPoint::FinallyGraph));
    assert_eq!(hear.map(HookSpec::hook_name).collect::<Vec<_>>(), ["inbox_flush"]);
}

#[tokio::test]
async fn one_turn_has_the_golden_trace_whether_it_is_read_or_not() {
    for reads in [true, false] {
        let all = All::new();
        let (ran, ..) = run(&all, &all.agent(1), reads).await;
        assert_eq!(ran, golden(), "read: {reads}\n{}", ran.trace);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_sessions_at_once_share_them_and_each_has_the_same_trace() {
    let all = All::new();
    let agents: Vec<_> = (0..8).map(|seed| all.agent(seed)).collect();
    let turns = agents.iter().map(|agent| run(&all, agent, true));
    for (ran, ..) in futures::future::join_all(turns).await {
        assert_eq!(ran, golden(), "{}", ran.trace);
    }
}

#[tokio::test]
async fn of_a_closed_session_they_keep_what_their_stores_are_asked_to_keep_and_nothing_else() {
    let all = All::new();
    let (_, session, left) = run(&all, &all.agent(1), true).await;
    let held = || left.iter().filter(|message| message.strong_count() > 0).count();
    // The store of checkpoints: it had the last one after the last iteration.
    assert_eq!(held(), left.len(), "the test can see what is held");
    assert_eq!(all.todos.load(&session).await.unwrap().len(), 1);
    assert!(all.mailbox.find(&session, "m").await.unwrap().is_none(), "read mail is not kept");
    all.checkpoints.forget(&session).await.unwrap();
    all.todos.save(&session, Vec::new()).await.unwrap();
    assert_eq!(held(), 0, "the hooks are still there: {}", all.hooks.len());
}
