//! The core memory: edits, and its consolidation.

use std::{fs, sync::Arc, time::Duration};

use turnwright_builtin::memory::{Consolidation, ContextAssembly, CoreMemory};
use turnwright_control::ControlError;
use turnwright_core::{BoxFuture, Outcome, StopReason, TurnContext};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook, MemoryRunner};
use turnwright_react_runtime::Session;
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use super::{Seen, says};
use crate::support::{agent, ask, calls, reminders};

async fn edit(session: &Session) -> String {
    ask(session).await;
    let messages = session.messages();
    messages.iter().rev().flat_map(|m| m.tool_results()).next().unwrap().content.clone()
}

#[tokio::test]
async fn core_memory_is_edited_by_the_model_and_told_at_the_beginning_of_turns_when_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let memory = CoreMemory::telling(folder.path().join("deep").join("core.md"), seen.runner());
    let edits = [
        r#"{"mode":"append","text":"Ann likes tea."}"#,
        r#"{"mode":"append","text":"Ann likes tea."}"#,
        r#"{"mode":"replace","old":"tea","text":"coffee"}"#,
        r#"{"mode":"remove","old":"coffee and"}"#,
        r#"{"mode":"burn"}"#,
        r#"{"mode":"append","text":"LONG"}"#,
        r##"{"mode":"append","text":"Bob:\n\n## Likes\nMilk."}"##,
        r##"{"mode":"remove","old":"\nBob:\n\n## Likes\nMilk."}"##,
        r#"{"mode":"remove","old":"Ann likes coffee."}"#,
    ];
    let script: Vec<_> = edits
        .iter()
        .flat_map(|edit| [calls("core_memory", &edit.replace("LONG", &"x".repeat(16_001))), says("ok")])
        .chain([says("quiet"), says("quiet")])
        .collect();
    let assembly = ContextAssembly::default().source(0, memory.clone());
    let session = agent(script).tool(memory.tool()).hook(assembly).build().unwrap().new_session();
    let mut said = Vec::new();
    for _ in edits {
        said.push(edit(&session).await);
    }
    ask(&session).await;
    ask(&session).await;
    assert_eq!(said[0], "The core memory is now:\nAnn likes tea.");
    assert_eq!(said[1], said[0], "what is there is not added again");
    assert_eq!(said[2], "The core memory is now:\nAnn likes coffee.");
    assert!(said[3].contains("stand 0 times") && said[4].contains("unknown variant `burn`"), "{said:?}");
    assert!(said[5].contains("16000 are the most"), "{}", said[5]);
    assert_eq!(memory.read().await.unwrap().trim(), "");
    let told: Vec<_> = reminders(&session)
        .iter()
        .map(|text| text.lines().filter(|line| !line.starts_with('<')).collect::<Vec<_>>().join("|"))
        .collect();
    let wanted = [
        "## Core memory|Ann likes tea.",
        "## Core memory|Ann likes coffee.",
        "## Core memory|Ann likes coffee.|Bob:||## Likes|Milk.",
        // What is a beginning of what was said before is something else.
        "## Core memory|Ann likes coffee.",
        "## Core memory|(nothing any more)",
    ];
    assert_eq!(told, wanted, "once for each thing it said");
    let changed = seen
        .events()
        .iter()
        .map(|event| matches!(event, MemoryEvent::CoreMemoryUpdated { changed: true, .. }))
        .collect::<Vec<_>>();
    assert_eq!(changed, [true, false, true, true, true, true]);
    assert!(!format!("{:?}", seen.events()).contains("tea"), "never content");
}

#[tokio::test]
async fn a_core_memory_that_has_become_long_is_written_anew_if_that_is_shorter() {
    let folder = tempfile::tempdir().unwrap();
    for (answer, changed) in [("Ann: tea.", true), ("", false), (&*"longer ".repeat(2000), false)] {
        let path = folder.path().join(format!("{changed}{}.md", answer.len()));
        std::fs::write(&path, "Ann likes tea very much.\n".repeat(400)).unwrap();
        let seen = Seen::default();
        let memory = CoreMemory::telling(&path, seen.runner());
        let model = ScriptedModel::new([says(answer)]);
        let hook = Consolidation::new(memory.clone(), model.handle()).tell(seen.runner());
        let session = agent([says("a"), says("b")]).hook(hook).build().unwrap().new_session();
        ask(&session).await;
        let text = memory.read().await.unwrap();
        assert_eq!(text == "Ann: tea.\n", changed, "{}", answer.len());
        assert_eq!(seen.points().last(), Some(&"consolidation_finished"));
        if changed {
            assert_eq!(seen.points(), ["core_memory_updated", "consolidation_finished"]);
            ask(&session).await;
            assert_eq!(model.calls(), 1, "what is short is left alone");
        }
    }
}

/// Ends the turn whenever it is told.
struct Stops;

impl MemoryHook for Stops {
    fn name(&self) -> &str {
        "stops"
    }
    fn on<'a>(&'a self, _: &'a TurnContext, _: &'a MemoryEvent) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async { Err(ControlError::policy_violation("nobody writes here").into()) })
    }
}

#[tokio::test]
async fn a_control_error_of_a_memory_hook_ends_the_turn_whose_tool_told_it() {
    let folder = tempfile::tempdir().unwrap();
    let stops = || MemoryRunner::new([Arc::new(Stops) as Arc<dyn MemoryHook>]);
    let memory = CoreMemory::telling(folder.path().join("core.md"), stops());
    let script = [calls("core_memory", r#"{"mode":"append","text":"a"}"#), says("ok")];
    let session = agent(script).tool(memory.tool()).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!(result.stop_reason, StopReason::PolicyViolation);
    assert!(result.error.unwrap().to_string().contains("nobody writes here"));
    assert_eq!(memory.read().await.unwrap(), "a\n", "the change is made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fault_k3_no_line_of_several_writers_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core.md");
    // Each is what another process would have.
    let writers = (0..4).map(|writer| {
        let memory = CoreMemory::in_file(&path);
        tokio::spawn(async move {
            let edits = (0..5).map(|n| format!(r#"{{"mode":"append","text":"{writer}.{n}"}}"#));
            let script: Vec<_> = edits.flat_map(|edit| [calls("core_memory", &edit), says("ok")]).collect();
            let session = agent(script).tool(memory.tool()).build().unwrap().new_session();
            for _ in 0..5 {
                ask(&session).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 20);
}

#[tokio::test]
async fn a_writer_that_does_not_get_its_turn_says_so_after_five_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let lock = fs::File::create(folder.path().join("core.md.lock")).unwrap();
    lock.lock().unwrap();
    tokio::time::pause();
    let memory = CoreMemory::in_file(folder.path().join("core.md"));
    let script = [calls("core_memory", r#"{"mode":"append","text":"a"}"#), says("ok")];
    let session = agent(script).tool(memory.tool()).build().unwrap().new_session();
    let clock = virtual_sources(1).clock;
    let began = clock.instant();
    let said = edit(&session).await;
    assert!(said.contains("somebody else has been writing"), "{said}");
    assert_eq!((clock.instant() - began).as_secs(), 5);
    assert_eq!(memory.read().await.unwrap(), "");
}

const TOO_LONG: &str = "Ann likes tea very much.\n";

#[tokio::test]
async fn what_was_written_while_it_was_consolidated_counts_and_a_writer_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    for (reply, why) in [
        (Reply::new().wait(Duration::from_secs(5)).text("Ann: tea.").finish(), "changed meanwhile"),
        (Reply::new().text("Ann").silence(), "within 120s"),
    ] {
        let path = folder.path().join(format!("{}.md", why.len()));
        fs::write(&path, TOO_LONG.repeat(400)).unwrap();
        let seen = Seen::default();
        let memory = CoreMemory::telling(&path, seen.runner());
        let model = ScriptedModel::new([reply]);
        let hook = Consolidation::new(memory.clone(), model.handle()).tell(seen.runner());
        let session = agent([says("a")]).hook(hook).build().unwrap().new_session();
        tokio::time::pause();
        let mut turn = session.start("hi").unwrap();
        while model.calls() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // As long as what there was, so that only the words tell.
        fs::write(&path, TOO_LONG.replace("tea", "oil").repeat(400)).unwrap();
        assert_eq!(turn.result().await.unwrap().outcome(), Outcome::Completed);
        tokio::time::resume();
        let last = format!("{:?}", seen.events().last());
        assert!(last.contains(why) && last.contains("changed: false"), "{last}");
        assert!(fs::read_to_string(&path).unwrap().starts_with("Ann likes oil"));
    }
}
