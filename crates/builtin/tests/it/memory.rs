//! What keeps a conversation short enough, and what outlives it.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use parking_lot::Mutex;
use serde_json::Value;
use turnwright_builtin::{
    MemoryTodos, Todo, TodoStatus, TodoStore,
    memory::{
        CleanUp, CleanupMetrics, Consolidation, ContextAssembly, ContextSource, CoreMemory,
        DynamicInstructions, TodoReorientation, instruction_files,
    },
};
use turnwright_core::{BoxFuture, BudgetLimits, ErrorInfo, ErrorKind, Origin, Outcome, TurnContext, history};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook, MemoryRunner};
use turnwright_react_runtime::{AgentBuilder, Session, machine::Limits};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, ask, calls, reminders};

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<MemoryEvent>>>);

impl MemoryHook for Seen {
    fn name(&self) -> &str {
        "seen"
    }
    fn on<'a>(&'a self, _: &'a TurnContext, event: &'a MemoryEvent) -> BoxFuture<'a, Result<(), HookError>> {
        self.0.lock().push(event.clone());
        Box::pin(async { Ok(()) })
    }
}

impl Seen {
    fn runner(&self) -> MemoryRunner {
        MemoryRunner::new([Arc::new(self.clone()) as Arc<dyn MemoryHook>])
    }
    fn points(&self) -> Vec<&'static str> {
        self.0.lock().iter().map(MemoryEvent::point).collect()
    }
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

fn long(word: &str) -> String {
    format!("{word} ").repeat(400)
}

/// A model of 1,000 tokens, and one that summarises.
fn short(
    script: Vec<Reply>,
    summaries: Vec<Reply>,
    seen: &Seen,
) -> (AgentBuilder, ScriptedModel, ScriptedModel) {
    let (model, by) = (ScriptedModel::new(script), ScriptedModel::new(summaries));
    let hook = CleanUp::for_window(1000).by(by.handle()).tell(seen.runner());
    let builder = turnwright_react_runtime::Agent::builder("agent", model.handle());
    (builder.sources(turnwright_testkit::virtual_sources(1)).hook(hook), model, by)
}

#[tokio::test(start_paused = true)]
async fn a_history_that_is_too_long_is_summarised_in_what_the_model_is_sent_and_kept_whole() {
    let seen = Seen::default();
    let script = vec![says(&long("one")), says(&long("two")), says("three"), says("four")];
    let (builder, model, by) = short(script, vec![says("They said one and two.")], &seen);
    let session = builder.build().unwrap().new_session();
    for _ in 0..4 {
        ask(&session).await;
    }
    assert_eq!(seen.points(), ["cleanup_triggered", "cleanup_finished"]);
    let MemoryEvent::CleanupFinished { pruned, tokens_before, tokens_after, error, .. } =
        seen.0.lock()[1].clone()
    else {
        panic!()
    };
    assert!(pruned >= 3 && tokens_after < tokens_before / 2 && error.is_none(), "{:?}", seen.0.lock());
    let sent: Vec<_> = model.requests()[2].messages.iter().map(|m| m.text()).collect();
    assert!(sent[0].starts_with("[Summary of what came before]\nThey said one and two."), "{sent:?}");
    assert!(!sent.join("").contains("one one") && sent.last().unwrap() == "hi");
    // The next turn begins with the same bytes.
    let next: Vec<_> = model.requests()[3].messages.iter().map(|m| m.text()).collect();
    assert_eq!(sent[..], next[..sent.len()]);
    let read = by.requests()[0].messages[0].text();
    assert!(
        read.starts_with("[what came before is left out]") && read.contains("ASSISTANT: two two"),
        "{read}"
    );
    let messages = session.messages();
    assert!(messages.iter().any(|m| m.text().contains("one one")), "nothing is removed");
    history::check(messages.iter().map(|m| &**m)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn within_a_turn_calls_stay_with_their_results_and_the_users_words_are_not_lost() {
    let seen = Seen::default();
    let mut script: Vec<_> = (0..6).map(|n| calls("dump", &format!("{{\"n\":{n}}}"))).collect();
    script.push(says("done"));
    let dump = turnwright_react_runtime::tool::tool("dump", "", async |_, _: Value| Ok("x".repeat(900)));
    let (builder, model, _) = short(script, (0..9).map(|n| says(&format!("Notes {n}."))).collect(), &seen);
    let limits = Limits { iterations: 20, ..Limits::default() };
    let session = builder.tool(dump).limits(limits).build().unwrap().new_session();
    let mut turn = session.start("Find the needle.").unwrap();
    assert_eq!(turn.result().await.unwrap().content, "done");
    assert!(seen.points().len() >= 4, "more than once: {:?}", seen.points());
    for request in model.requests() {
        history::check(request.messages.iter().map(|m| &**m)).unwrap();
        let text: String = request.messages.iter().map(|m| m.text()).collect();
        assert!(text.contains("Find the needle."), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_leaves_the_history_as_it_is_and_the_turn_goes_on() {
    let fails = || Reply::new().fail(ErrorInfo::new(ErrorKind::Authentication, "wrong key"));
    for (summary, why) in [
        (vec![fails(), fails(), fails()], "wrong key"),
        (vec![says(" "), says(" ")], "neither text nor tool calls"),
    ] {
        let seen = Seen::default();
        let script = vec![says(&long("one")), says(&long("two")), says("three")];
        let (builder, model, _) = short(script, summary, &seen);
        let session = builder.build().unwrap().new_session();
        for _ in 0..3 {
            assert_eq!(ask(&session).await.outcome(), Outcome::Completed);
        }
        assert_eq!(model.requests()[2].messages.len(), 5);
        let last = format!("{:?}", seen.0.lock().last());
        assert!(last.contains(why) && last.contains("pruned: 0"), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_model_it_is_said_how_much_is_missing_and_what_a_summary_costs_is_the_turns() {
    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let session = agent(script).hook(CleanUp::for_window(1000)).build().unwrap().new_session();
    for _ in 0..3 {
        ask(&session).await;
    }
    let summary =
        session.messages().iter().find(|m| matches!(m.origin, Origin::Summary { .. })).unwrap().text();
    assert!(summary.contains("earlier messages of this conversation are left out"), "{summary}");

    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let (builder, ..) =
        short(script, vec![Reply::new().text("Notes.").usage(5000, 10).finish()], &Seen::default());
    let budget = BudgetLimits { tokens: Some(4000), ..BudgetLimits::default() };
    let session = builder.budget(budget).build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    assert_eq!(ask(&session).await.outcome(), Outcome::LimitReached, "the budget is the turn's");
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_up_the_model_is_told_what_it_was_about_and_a_line_is_written() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (lines, todos) = (Lines::default(), Arc::new(MemoryTodos::default()));
    let hooks: [Arc<dyn MemoryHook>; 2] =
        [Arc::new(TodoReorientation::new(todos.clone())), Arc::new(CleanupMetrics::to(lines.clone()))];
    let hook = CleanUp::for_window(1000).tell(MemoryRunner::new(hooks));
    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let session = agent(script).hook(hook).build().unwrap().new_session();
    let todo = |content: &str, status| Todo { content: content.into(), status };
    let list = vec![todo("old", TodoStatus::Completed), todo("next", TodoStatus::Pending)];
    todos.save(session.id(), list).await.unwrap();
    for _ in 0..3 {
        ask(&session).await;
    }
    let told = reminders(&session);
    assert!(
        told[0].contains("The conversation became too long") && told[0].contains("1. [pending] next"),
        "{told:?}"
    );
    assert!(!told[0].contains("] old"));
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let line: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(line["event"]["point"], "cleanup_finished");
    assert!(line["event"]["pruned"].as_u64() >= Some(3) && !text.contains("one one"), "{text}");
}

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
    ];
    let script: Vec<_> = edits
        .iter()
        .flat_map(|edit| [calls("core_memory", &edit.replace("LONG", &"x".repeat(16_001))), says("ok")])
        .chain([says("quiet")])
        .collect();
    let assembly = ContextAssembly::default().source(0, memory.clone());
    let session = agent(script).tool(memory.tool()).hook(assembly).build().unwrap().new_session();
    let mut said = Vec::new();
    for _ in edits {
        said.push(edit(&session).await);
    }
    ask(&session).await;
    assert_eq!(said[0], "The core memory is now:\nAnn likes tea.");
    assert_eq!(said[1], said[0], "what is there is not added again");
    assert_eq!(said[2], "The core memory is now:\nAnn likes coffee.");
    assert!(said[3].contains("stand 0 times") && said[4].contains("unknown variant `burn`"), "{said:?}");
    assert!(said[5].contains("16000 are the most"), "{}", said[5]);
    assert_eq!(memory.read().await.unwrap(), "Ann likes coffee.\n");
    let told = reminders(&session);
    assert_eq!(told.len(), 2, "once for each thing it said: {told:?}");
    assert!(told[0].contains("## Core memory\nAnn likes tea.") && told[1].contains("Ann likes coffee."));
    let changed = seen
        .0
        .lock()
        .iter()
        .map(|event| matches!(event, MemoryEvent::CoreMemoryUpdated { changed: true, .. }))
        .collect::<Vec<_>>();
    assert_eq!(changed, [true, false, true]);
    assert!(!format!("{:?}", seen.0.lock()).contains("tea"), "never content");
}

struct Says(&'static str, String);

impl ContextSource for Says {
    fn name(&self) -> &str {
        self.0
    }
    fn retrieve<'a>(&'a self, _: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move {
            match self.1.as_str() {
                "fails" => Err(HookError::msg("no")),
                text => Ok(text.to_owned()),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_does_not_fit_the_lowest_priority_is_cut_and_a_source_that_fails_is_left_out() {
    let seen = Seen::default();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let assembly = ContextAssembly::default()
        .budget(100)
        .source(1, Says("low", "l".repeat(240)))
        .source(9, Says("broken", "fails".into()))
        .source(5, Says("high", "h".repeat(240)))
        .source(
            9,
            DynamicInstructions::new("turn", move |_| format!("turn {}", counted.fetch_add(1, SeqCst))),
        )
        .tell(seen.runner());
    let session = agent([says("a"), says("b")]).hook(assembly).build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    let told = reminders(&session);
    assert_eq!(told.len(), 2);
    assert!(
        told[0].contains(&"h".repeat(240))
            && !told[0].contains(&"l".repeat(240))
            && told[0].contains("turn 0")
    );
    assert!(
        told[1].contains("turn 1") && !told[1].contains("hhh"),
        "what was said is not said again: {}",
        told[1]
    );
    let MemoryEvent::ContextAssembled { sections, .. } = seen.0.lock()[0].clone() else { panic!() };
    let rows: Vec<_> =
        sections.iter().map(|s| (s.source.as_str(), s.retrieved, s.injected, s.pruned)).collect();
    assert_eq!(rows[0], ("low", 60, 38, 22));
    assert_eq!(rows[1..], [("broken", 0, 0, 0), ("high", 60, 60, 0), ("turn", 2, 2, 0)]);
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

#[test]
fn instruction_files_are_read_outermost_first_up_to_the_repository_and_none_is_left_out_in_silence() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("repository").join("a").join("b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(root.path().join("repository").join(".git")).unwrap();
    for (folder, text) in [("", "outside"), ("repository", "all of it"), ("repository/a/b", "here")] {
        std::fs::write(root.path().join(folder).join("AGENTS.md"), text).unwrap();
    }
    let text = instruction_files(&deep, &["CLAUDE.md", "AGENTS.md"]).unwrap();
    let (first, second) = (text.find("all of it").unwrap(), text.find("here").unwrap());
    assert!(first < second && !text.contains("outside"), "{text}");
    std::fs::write(deep.join("CLAUDE.md"), "\u{feff}first name").unwrap();
    assert!(instruction_files(&deep, &["CLAUDE.md", "AGENTS.md"]).unwrap().contains("first name"));
    std::fs::write(deep.join("CLAUDE.md"), [0xff, 0xfe]).unwrap();
    let error = instruction_files(&deep, &["CLAUDE.md"]).unwrap_err();
    assert!(error.path.ends_with("CLAUDE.md"), "{error}");
    std::fs::write(deep.join("CLAUDE.md"), "x".repeat(70_000)).unwrap();
    assert!(instruction_files(&deep, &["CLAUDE.md"]).unwrap_err().to_string().contains("65536 bytes"));
}
