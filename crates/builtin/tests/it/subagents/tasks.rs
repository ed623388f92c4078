//! The tool: new and continued invocations, work in the background, deliverables.

use std::{sync::Arc, time::Duration};

use turnwright_builtin::{EnvInjection, MemoryTodos, Todo, TodoStatus, TodoStore, register_tree_aware_hooks};
use turnwright_core::{CancelCause, CancelToken, ErrorKind, Outcome, SessionId};
use turnwright_react_runtime::{
    mailbox::{MailKind, Mailbox},
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use super::{World, arguments, boss, head, open, reader, reader_of, results, says, task, texts};
use crate::support::reminders;

#[tokio::test(start_paused = true)]
async fn the_report_is_the_calls_result_and_comes_once() {
    let world = World::new();
    let long = "x".repeat(1_000);
    let (boss_agent, subagents) =
        world.pair([task("a", ""), says("done"), says("more")], reader([says(&long)]));
    let session = open(&boss_agent).await;
    session.start("go").unwrap().result().await.unwrap();
    session.start("go on").unwrap().result().await.unwrap();
    let [result] = &results(&session)[..] else { panic!("one call") };
    assert!(!result.is_error(), "{}", result.content);
    assert_eq!(
        (head(&result.content, "status"), head(&result.content, "stop_reason")),
        ("completed", "completed")
    );
    let written = std::fs::read_to_string(head(&result.content, "output")).unwrap();
    assert_eq!(written, long, "all of it is in the file");
    assert!(result.content.contains("[cut: 1000 characters in all]") && result.content.len() < 700);
    assert_eq!(reminders(&session).len(), 0, "the same report is no mail besides");
    assert!(world.mail().await.is_empty(), "and is acknowledged");
    let child = SessionId::new(format!("{}.reader", head(&result.content, "invocation"))).unwrap();
    assert_eq!(world.sessions().await, [child]);
    assert_eq!(subagents.agent("reader").unwrap().open_sessions(), 0, "nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn an_invocation_is_gone_on_with_and_numbers_its_outputs() {
    let world = World::new();
    let model = ScriptedModel::new([says("one"), says("two")]);
    let (first, _) = world.pair([task("a", ""), says("done")], reader_of(&model));
    let session = open(&first).await;
    session.start("go").unwrap().result().await.unwrap();
    let invocation = head(&results(&session)[0].content, "invocation").to_owned();
    drop(session);
    // Another process goes on.
    let more = format!(r#","invocation":"{invocation}""#);
    let (second, subagents) = world.pair([task("b", &more), says("done")], reader_of(&model));
    let session = open(&second).await;
    session.start("go on").unwrap().result().await.unwrap();
    let result = results(&session).pop().unwrap();
    assert_eq!(
        (head(&result.content, "invocation"), head(&result.content, "status")),
        (&*invocation, "completed")
    );
    assert!(head(&result.content, "output").ends_with("/OUTPUT_2.md"), "{}", result.content);
    let child = SessionId::new(format!("{invocation}.reader")).unwrap();
    let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
    assert_eq!(texts(&child), ["read", "one", "read", "two"]);
}

#[tokio::test(start_paused = true)]
async fn several_work_at_once_each_in_a_session_of_its_own() {
    let world = World::new();
    let mut reply = Reply::new();
    for n in 0..5 {
        reply = reply.call(&format!("c{n}"), "task", &arguments(""));
    }
    let slow = Reply::new().wait(Duration::from_secs(10)).text("read").finish();
    let (agent, _) = world.pair([reply.finish(), says("done")], reader([slow]));
    let session = open(&agent).await;
    let clock = virtual_sources(1).clock;
    let began = clock.instant();
    session.start("go").unwrap().result().await.unwrap();
    let took = clock.instant() - began;
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(results(&session).iter().all(|r| head(&r.content, "status") == "completed"));
    assert_eq!((results(&session).len(), world.sessions().await.len()), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn work_in_the_background_outlives_the_turn_and_reports_by_mail() {
    let world = World::new();
    let slow = Reply::new().wait(Duration::from_secs(100)).text("read it").finish();
    let (agent, _) = world.pair([task("a", r#","detach":true"#), says("b"), says("c")], reader([slow]));
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    assert!(results(&session)[0].content.starts_with("reader works in the background"));
    assert!(world.mail().await.is_empty());
    let mut mail = world.mailbox.watch(&boss());
    mail.arrived().await;
    session.start("and?").unwrap().result().await.unwrap();
    let [report] = &reminders(&session)[..] else { panic!("one report") };
    assert!(report.contains("status: completed\n") && report.contains("read it"), "{report}");
    assert!(world.mail().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_todos_left_is_not_gone_on_with_while_a_subagent_works_on_them() {
    for (wait, asked) in [(100, 2), (0, 4)] {
        let world = World::new();
        let todos: Arc<dyn TodoStore> = Arc::new(MemoryTodos::default());
        let list = vec![Todo { content: "read".into(), status: TodoStatus::Pending }];
        todos.save(&boss(), list).await.unwrap();
        let reads = Reply::new().wait(Duration::from_secs(wait)).text("read it").finish();
        let look = Reply::new().wait(Duration::from_secs(1)).call("l", "look", "{}").finish();
        let started = task("a", r#","detach":true"#);
        let script =
            if wait == 0 { vec![started, look, says("b"), says("c")] } else { vec![started, says("b")] };
        let model = ScriptedModel::new(script);
        let parent = register_tree_aware_hooks(world.process(&model), Some(todos));
        let parent = parent.tool(tool("look", "", async |_ctx, (): ()| Ok("seen")));
        let (agent, _) = world.crew().agent("", reader([reads])).build(parent).unwrap();
        let session = open(&agent).await;
        let result = session.start("go").unwrap().result().await.unwrap();
        assert_eq!((result.outcome(), model.calls()), (Outcome::Completed, asked), "{result:?}");
        let told = reminders(&session);
        let is_told = |word: &str| told.iter().any(|text| text.contains(word));
        // Once the report is there, what is left is the turn's own.
        assert_eq!((is_told("read it"), is_told("todo list has something left")), (wait == 0, wait == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn work_in_the_background_ends_with_the_run() {
    let world = World::new();
    let silent = Reply::new().text("so far").silence();
    let (agent, _) = world.pair([task("a", r#","detach":true"#), says("b")], reader([silent]));
    let session = open(&agent).await;
    let caller = CancelToken::new();
    session.start_under(&caller, "go").unwrap().result().await.unwrap();
    let mut mail = world.mailbox.watch(&boss());
    caller.cancel(CancelCause::requested("ann"));
    mail.arrived().await;
    let report = world.mail().await.remove(0);
    assert_eq!((report.kind, head(&report.text, "status")), (MailKind::AgentResult, "cancelled"));
    assert_eq!(head(&report.text, "issue"), "cancelled by ann");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_works_in_the_background_it_is_not_offered_and_refused() {
    let world = World::new();
    let model = ScriptedModel::new([task("a", r#","detach":true"#), says("b")]);
    let crew = world.crew().agent("", reader([says("x")])).without_detach();
    let (agent, _) = crew.build(world.process(&model)).unwrap();
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    let offered = &model.requests()[0].tools[0].parameters["properties"];
    assert!(offered.get("detach").is_none() && offered.get("invocation").is_some(), "{offered}");
    assert_eq!(results(&session)[0].error.as_ref().unwrap().kind, ErrorKind::InvalidArguments);
    assert!(world.sessions().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_fits_no_subagent_and_no_invocation_of_ours_is_an_error_for_the_model() {
    let world = World::new();
    let (first, _) = world.pair([task("a", ""), says("done")], reader([says("one"), says("two")]));
    let session = open(&first).await;
    session.start("go").unwrap().result().await.unwrap();
    let invocation = head(&results(&session)[0].content, "invocation").to_owned();
    let batch = Reply::new()
        .call("a", "task", r#"{"agent":"writer","prompt":"x"}"#)
        .call("b", "task", &arguments(r#","invocation":"nobody""#))
        .call("c", "task", &arguments(r#","invocation":"no/thing""#))
        // It is there, and another session's.
        .call("d", "task", &arguments(&format!(r#","invocation":"{invocation}""#)))
        .call("e", "task", r#"{"agent":"reader","prompt":"x","detached":true}"#)
        .call("f", "task", r#"{"agent":"reader","prompt":""}"#)
        .finish();
    let (other, _) = world.pair([batch, says("done")], reader([says("one"), says("two")]));
    let session = other.new_session();
    session.start("go").unwrap().result().await.unwrap();
    let results = results(&session);
    let kinds: Vec<_> = results.iter().map(|r| r.error.as_ref().map(|e| e.kind)).collect();
    assert_eq!(kinds[..5], [Some(ErrorKind::InvalidArguments); 5], "{results:#?}");
    assert!(kinds[5].is_some(), "nothing to do is nothing to do");
    assert_eq!(
        world.sessions().await.len(),
        2,
        "nobody was started, and the one from before and this one are there"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_go_on_with_one_invocation_at_once_wait_for_each_other() {
    let world = World::new();
    let slow = |text: &str| Reply::new().wait(Duration::from_secs(10)).text(text).finish();
    let child = ScriptedModel::new([says("zero"), slow("one"), slow("two"), slow("three")]);
    let (first, _) = world.pair([task("a", ""), says("done")], reader_of(&child));
    let session = open(&first).await;
    session.start("go").unwrap().result().await.unwrap();
    let invocation = head(&results(&session)[0].content, "invocation").to_owned();
    drop((session, first));
    let more = arguments(&format!(r#","invocation":"{invocation}""#));
    let batch = ["x", "y", "z"].iter().fold(Reply::new(), |reply, id| reply.call(id, "task", &more));
    let (agent, subagents) = world.pair([batch.finish(), says("done")], reader_of(&child));
    let session = open(&agent).await;
    session.start("go on").unwrap().result().await.unwrap();
    let reports: Vec<_> = results(&session).drain(1..).map(|result| result.content).collect();
    assert!(reports.iter().all(|report| head(report, "status") == "completed"), "{reports:#?}");
    for text in ["one", "two", "three"] {
        assert_eq!(
            reports.iter().filter(|report| report.contains(&format!("\n{text}\n"))).count(),
            1,
            "{reports:#?}"
        );
    }
    assert_eq!(subagents.agent("reader").unwrap().open_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn child_processes_of_a_subagent_are_told_whose_it_is() {
    let world = World::new();
    let env = tool("env", "", async |ctx: ToolContext, (): ()| {
        let env = turnwright_core::child_env(ctx.turn())?;
        Ok::<_, ToolError>(format!("{:?}", env.get("TURNWRIGHT_CTX_PARENT")))
    });
    let asks = Reply::new().call("e", "env", "{}").finish();
    let child = reader([asks, says("so")]).tool(env).hook(EnvInjection::default());
    let (agent, subagents) = world.pair([task("a", ""), says("done")], child);
    open(&agent).await.start("go").unwrap().result().await.unwrap();
    let child = world.sessions().await.remove(0);
    let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
    assert_eq!(results(&child)[0].content, r#"Some("boss-1")"#);
}
