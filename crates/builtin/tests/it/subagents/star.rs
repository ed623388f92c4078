//! A subagent speaks to its parent alone, and only by its report.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright_builtin::{SubagentError, Subagents};
use turnwright_hook::HookPoint;
use turnwright_react_runtime::{
    BuildError,
    mailbox::MemoryMailbox,
    store::MemoryStore,
    tool::{ToolContext, tool},
};
use turnwright_testkit::Reply;

use super::{World, head, open, reader, results, says, scripted, task};

#[test]
fn who_has_a_messaging_tool_is_no_subagent() {
    let world = World::new();
    let named = |name: &'static str| tool(name, "", async |_ctx, (): ()| Ok("sent"));
    for name in ["task", "send_to_agent", "send_to_peer"] {
        let built = world.crew().agent("", reader([]).tool(named(name))).build(world.parent([]));
        let expected = SubagentError::Messaging { agent: "reader".into(), tool: name.into() };
        assert_eq!(built.map(drop).unwrap_err(), expected);
    }
    let other = named("mail").source("subagent");
    let built = world.crew().agent("", reader([]).tool(other)).build(world.parent([]));
    assert!(matches!(built, Err(SubagentError::Messaging { tool, .. }) if tool == "mail"));
}

#[test]
fn what_cannot_be_built_says_why() {
    let world = World::new();
    let of = |built: Result<_, SubagentError>| built.map(|_: (_, Subagents)| ()).unwrap_err();
    assert_eq!(of(world.crew().build(world.parent([]))), SubagentError::Nobody);
    for bad in ["", "Reader", "a/b", "..", &"x".repeat(33)] {
        let built = world.crew().agent("", scripted(bad, 1, [])).build(world.parent([]));
        assert_eq!(of(built), SubagentError::Name(bad.into()));
    }
    let twice = world.crew().agent("", reader([])).agent("", reader([])).build(world.parent([]));
    assert_eq!(of(twice), SubagentError::Duplicate("reader".into()));
    let chars = world.crew().agent("", reader([])).report_chars(99).build(world.parent([]));
    assert_eq!(of(chars), SubagentError::ReportChars(99));
    let tool = || tool("task", "", async |_ctx, (): ()| Ok(""));
    let built = world.crew().agent("", reader([])).build(world.parent([]).tool(tool()));
    let why = BuildError::DuplicateTool("task".into());
    assert_eq!(of(built), SubagentError::Build { agent: "boss".into(), why });
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_a_subagent_runs_all_the_same_is_refused_when_it_sends() {
    let world = World::new();
    let (second, _) = world.pair([task("x", ""), says("so be it")], reader([says("deep")]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let smuggled = {
        let seen = seen.clone();
        tool("helper", "", move |ctx: ToolContext, (): ()| {
            let (seen, session) = (seen.clone(), second.new_session());
            async move {
                session.start_under(ctx.as_parent(), "go deeper")?.result().await;
                seen.lock().extend(results(&session).into_iter().map(|r| r.content));
                Ok("helped")
            }
        })
    };
    let asks = Reply::new().call("h", "helper", "{}").finish();
    let (agent, _) = world.pair([task("a", ""), says("done")], reader([asks, says("alone")]).tool(smuggled));
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    assert_eq!(*seen.lock(), ["a subagent starts no subagents: do it yourself"]);
    assert_eq!(head(&results(&session)[0].content, "status"), "completed");
    let names: Vec<_> =
        world.sessions().await.into_iter().filter(|id| id.as_str().ends_with(".reader")).collect();
    assert_eq!(names.len(), 1, "nobody else was started");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_no_call_began_has_nobody_to_report_to() {
    let world = World::new();
    let (_, subagents) = world.pair([], reader([says("hello")]));
    let session = subagents.agent("reader").unwrap().open_session("x.reader".parse().unwrap()).await.unwrap();
    let mut handle = session.start("hi, it is me").unwrap();
    let mut failed = Vec::new();
    while let Some(event) = futures::StreamExt::next(&mut handle).await {
        failed.extend(serde_json::to_value(&event.kind).ok().filter(|e| e["type"] == "hook_failed"));
    }
    let said = serde_json::to_string(&failed).unwrap();
    assert!(said.contains("no call of a parent began this turn"), "{said}");
    assert!(
        world.mail().await.is_empty() && std::fs::read_dir(world.outputs.path()).unwrap().next().is_none()
    );
}

#[test]
fn the_parent_and_its_subagents_have_the_hooks_and_a_declared_flush_wins() {
    let world = World::new();
    let names = |agent: &turnwright_react_runtime::Agent| {
        agent.plan().hooks.iter().map(|hook| hook.name.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let (agent, subagents) = world.pair([], reader([]));
    assert!(names(&agent).is_superset(&["inbox_flush".into(), "subagent_end".into()].into()));
    let child = names(subagents.agent("reader").unwrap());
    assert!(
        child.is_superset(&["subagent_auto_send".into(), "subagent_waits".into()].into())
            && !child.contains("inbox_flush")
    );
    let declared = world.parent([]).hook(turnwright_builtin::InboxFlush::new(Arc::new(MemoryMailbox::new())));
    let (agent, _) = world.crew().agent("", reader([])).build(declared).unwrap();
    let flushes = agent.plan().hooks.iter().filter(|h| h.name == "inbox_flush").count();
    assert_eq!(flushes, 1);
}

/// Whoever hears of a leg's end must know a suspension from an end: one that is new here is looked at first.
#[test]
fn every_hook_of_a_legs_end_is_known() {
    let world = World::new();
    let (agent, subagents) = world.pair([], reader([]));
    let hear = |agent: &turnwright_react_runtime::Agent| -> Vec<String> {
        let hooks = agent.plan().hooks.into_iter();
        hooks.filter(|hook| hook.points.contains(&HookPoint::FinallyGraph)).map(|hook| hook.name).collect()
    };
    assert_eq!(hear(&agent), ["inbox_flush", "subagent_end"]);
    assert_eq!(hear(subagents.agent("reader").unwrap()), ["subagent_auto_send", "subagent_waits"]);
}

#[tokio::test(start_paused = true)]
async fn fault_m7_two_parents_know_nothing_of_each_others_subagents() {
    let world = World::new();
    let (one, _) = world.pair([task("a", ""), says("done")], reader([says("one")]));
    let other = Subagents::builder(Arc::new(MemoryStore::new()), Arc::new(MemoryMailbox::new()), "nowhere")
        .agent("Writes", scripted("writer", 4, []))
        .build(scripted("boss", 5, []))
        .unwrap();
    assert!(other.1.agent("reader").is_none());
    let session = open(&one).await;
    session.start("go").unwrap().result().await.unwrap();
    assert_eq!(other.1.agent("writer").unwrap().open_sessions(), 0);
    assert_eq!(head(&results(&session)[0].content, "status"), "completed");
}
