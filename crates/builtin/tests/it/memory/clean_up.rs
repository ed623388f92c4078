//! `clean_up`: what is summarised, what stays, and what happens when that fails.

use std::{borrow::Cow, io::Write, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use turnwright_builtin::{
    MemoryTodos, Todo, TodoStatus, TodoStore,
    memory::{CleanUp, CleanupMetrics, TodoReorientation},
};
use turnwright_core::{
    BoxFuture, BudgetLimits, CancelCause, ErrorInfo, ErrorKind, Message, Origin, Outcome, TurnContext,
    history,
};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook, MemoryRunner};
use turnwright_interceptor::{builtin::Redact, interceptor};
use turnwright_react_runtime::{
    Agent, AgentBuilder, Record, RecordKind, RecordName, Session, TurnEventKind,
    machine::Limits,
    store::MemoryStore,
    tool::{Tool, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use super::{Seen, long, says};
use crate::support::{agent, ask, calls, reminders};

/// A model of 1,000 tokens, and one that summarises.
fn short(
    script: Vec<Reply>,
    summaries: Vec<Reply>,
    seen: &Seen,
) -> (AgentBuilder, ScriptedModel, ScriptedModel) {
    let (model, by) = (ScriptedModel::new(script), ScriptedModel::new(summaries));
    let hook = CleanUp::for_window(1000).by(by.handle()).tell(seen.runner());
    let builder = Agent::builder("agent", model.handle());
    (builder.sources(turnwright_testkit::virtual_sources(1)).hook(hook), model, by)
}

/// A tool with a long result.
fn dump() -> impl Tool {
    tool("dump", "", async |_, _: Value| Ok("x".repeat(900)))
}

fn summaries(session: &Session) -> Vec<String> {
    let messages = session.messages();
    let summaries = messages.iter().filter(|m| matches!(m.origin, Origin::Summary { .. }));
    summaries.map(|m| Message::text(m)).collect()
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
        seen.events()[1].clone()
    else {
        panic!()
    };
    assert!(pruned >= 3 && tokens_after < tokens_before / 2 && error.is_none(), "{:?}", seen.events());
    let sent: Vec<_> = model.requests()[2].messages.iter().map(|m| m.text()).collect();
    assert!(sent[0].starts_with("[Summary of what came before]\nThey said one and two."), "{sent:?}");
    assert!(!sent.join("").contains("one one") && sent.last().unwrap() == "hi");
    // The next turn begins with the same bytes.
    let next: Vec<_> = model.requests()[3].messages.iter().map(|m| m.text()).collect();
    assert_eq!(sent[..], next[..sent.len()]);
    let read = by.requests()[0].messages[0].text();
    assert!(
        read.contains("<conversation>\n[what came before is left out]")
            && read.contains("ASSISTANT: two two"),
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
    let (builder, model, _) = short(script, (0..9).map(|n| says(&format!("Notes {n}."))).collect(), &seen);
    let limits = Limits { iterations: 20, ..Limits::default() };
    let session = builder.tool(dump()).limits(limits).build().unwrap().new_session();
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
        let last = format!("{:?}", seen.events().last());
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

    let script = || vec![says(&long("one")), says(&long("two")), says("three")];
    let costs = || vec![Reply::new().text("Notes.").usage(5000, 10).finish()];
    let (builder, ..) = short(script(), costs(), &Seen::default());
    let (agent, purposes) = (builder.build().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let told = purposes.clone();
    agent.observers().on(RecordName::Usage, move |record: &Arc<Record>| {
        if let RecordKind::Event(TurnEventKind::Usage { usage, purpose }) = &record.kind {
            told.lock().push((usage.input_tokens, purpose.clone()));
        }
    });
    let session = agent.new_session();
    ask(&session).await;
    assert_eq!(ask(&session).await.usage.input_tokens, None);
    assert_eq!(ask(&session).await.usage.input_tokens, Some(5000), "fault F7: it is in the turn's total");
    assert_eq!(*purposes.lock(), [(Some(5000), Some("clean_up".into()))], "fault F7: and says what for");

    let (builder, ..) = short(script(), costs(), &Seen::default());
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

/// Waits for the summarising model to be asked.
async fn asked(by: &ScriptedModel) {
    while by.calls() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn fault_k16_a_summary_that_is_cut_changes_nothing_and_dies_with_its_turn() {
    let seen = Seen::default();
    let slow = Reply::new().text("They").wait(Duration::from_secs(60)).text(" know.").finish();
    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let (builder, model, by) = short(script, vec![slow], &seen);
    let session = builder.build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let turn = session.start("hi").unwrap();
    asked(&by).await;
    turn.interrupt(CancelCause::requested("ann"));
    let mut turn = turn;
    assert_eq!(turn.result().await.unwrap().outcome(), Outcome::Cancelled);
    drop(turn);
    assert_eq!((summaries(&session).len(), model.calls()), (0, 2));
    history::check(session.messages().iter().map(|m| &**m)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks, "no task is left");
    // The next turn does it.
    assert_eq!(ask(&session).await.content, "three");
    assert!(summaries(&session)[0].ends_with("They know."));
    assert_eq!(seen.points(), ["cleanup_triggered", "cleanup_triggered", "cleanup_finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_history_that_changed_meanwhile_is_not_overwritten() {
    let seen = Seen::default();
    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let slow = Reply::new().wait(Duration::from_secs(5)).text("Late notes.").finish();
    let (builder, _, by) = short(script, vec![slow], &seen);
    let session = builder.build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    let mut turn = session.start("hi").unwrap();
    asked(&by).await;
    session.summarise(session.messages()[3].id, "Somebody else's.").unwrap();
    assert_eq!(turn.result().await.unwrap().content, "three");
    assert_eq!(summaries(&session), ["Somebody else's."]);
    let last = format!("{:?}", seen.events().last());
    assert!(last.contains("changed meanwhile") && last.contains("pruned: 0"), "{last}");
}

/// Says something whenever a clean-up begins.
struct Remarks;

impl MemoryHook for Remarks {
    fn name(&self) -> &str {
        "remarks"
    }
    fn on<'a>(
        &'a self,
        ctx: &'a TurnContext,
        event: &'a MemoryEvent,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            match event {
                MemoryEvent::CleanupTriggered { .. } => {
                    Ok(turnwright_builtin::remind(ctx, "remarks", "Wait.")?)
                }
                _ => Ok(()),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_says_when_a_clean_up_begins_does_not_stop_it() {
    let hook = CleanUp::for_window(1000).tell(MemoryRunner::new([Arc::new(Remarks) as Arc<dyn MemoryHook>]));
    let script = [says(&long("one")), says(&long("two")), says("three")];
    let session = agent(script).hook(hook).build().unwrap().new_session();
    for _ in 0..3 {
        ask(&session).await;
    }
    assert_eq!((summaries(&session).len(), reminders(&session).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn instructions_count_and_so_does_what_the_provider_counted() {
    let script = || vec![says(&"word ".repeat(120)), says(&"word ".repeat(120)), says("three")];
    let points = async |instructions: &str, script: Vec<Reply>| {
        let seen = Seen::default();
        let (builder, ..) = short(script, vec![says("Notes.")], &seen);
        let session = builder.instructions(instructions).build().unwrap().new_session();
        for _ in 0..3 {
            ask(&session).await;
        }
        seen.points().len()
    };
    assert_eq!(points("Be kind.", script()).await, 0);
    assert_eq!(points(&"Be kind. ".repeat(200), script()).await, 2);

    // Within a turn, from the first answer on.
    let within = async |read: u64| {
        let seen = Seen::default();
        let mut script: Vec<_> =
            (0..2).map(|_| Reply::new().call("c", "dump", "{}").usage(read, 1).finish()).collect();
        script.push(says("done"));
        let (builder, ..) = short(script, vec![says("Notes.")], &seen);
        let session = builder.tool(dump()).build().unwrap().new_session();
        ask(&session).await;
        seen.points().len()
    };
    assert_eq!((within(1).await, within(900).await), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_clean_ups_fail_three_times_in_a_row_is_left_as_it_is() {
    let seen = Seen::default();
    let mut script: Vec<_> = (0..9).map(|_| calls("dump", "{}")).collect();
    script.push(says("done"));
    let notes = (0..9).map(|_| says(&"longer than all of it ".repeat(1000))).collect();
    let (builder, _, by) = short(script, notes, &seen);
    let session = builder.tool(dump()).build().unwrap().new_session();
    assert_eq!(ask(&session).await.content, "done");
    assert_eq!((by.calls(), summaries(&session).len()), (3, 0));
    let last = format!("{:?}", seen.events().last());
    assert!(last.contains("not shorter") && last.contains("output_tokens"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn very_long_last_words_are_in_the_summary_by_their_beginning() {
    let script: Vec<_> = (0..3).map(|_| calls("dump", "{}")).chain([says("done")]).collect();
    let (builder, ..) = short(script, vec![says("Notes."), says("More.")], &Seen::default());
    let session = builder.tool(dump()).build().unwrap().new_session();
    let mut turn = session.start(format!("Find the needle. {}", "ä".repeat(2000))).unwrap();
    turn.result().await.unwrap();
    let summary = summaries(&session).remove(0);
    assert!(summary.contains("[The user's last words]\nFind the needle. ää"), "{summary}");
    assert!(summary.len() < 1000, "{}", summary.len());
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_hangs_is_given_up_and_one_that_holds_does_for_whoever_opens_the_session_later() {
    let store = Arc::new(MemoryStore::new());
    let seen = Seen::default();
    let script = vec![says(&long("one")), says(&long("two")), says("three")];
    let (builder, ..) = short(script, vec![Reply::new().silence()], &seen);
    let session = builder.store(store.clone()).build().unwrap().new_session();
    let id = session.id().clone();
    for _ in 0..3 {
        assert_eq!(ask(&session).await.outcome(), Outcome::Completed);
    }
    assert!(format!("{:?}", seen.events()[1]).contains("within 120s"), "{:?}", seen.events());
    drop(session);
    let (builder, model, _) = short(vec![says("four")], vec![says("Notes.")], &seen);
    let session = builder.store(store.clone()).build().unwrap().open_session(id.clone()).await.unwrap();
    ask(&session).await;
    drop(session);
    let later = ScriptedModel::new([says("five")]);
    let agent = Agent::builder("agent", later.handle()).store(store).build().unwrap();
    ask(&agent.open_session(id).await.unwrap()).await;
    for (model, messages) in [(&model, 4), (&later, 6)] {
        let sent: Vec<_> = model.requests()[0].messages.iter().map(|m| m.text()).collect();
        assert!(sent[0].starts_with("[Summary of what came before]\nNotes."), "{sent:?}");
        assert_eq!((sent.len(), sent.join("").contains("one one")), (messages, false), "{sent:?}");
    }
}

fn without_one(text: &str) -> Cow<'_, str> {
    if text.contains("one") { text.replace("one", "…").into() } else { text.into() }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_summarises_has_layers_of_its_own() {
    let by = ScriptedModel::new([says("Notes.")]);
    let redact = interceptor!(Redact::new(without_one));
    let writer = Agent::builder("writer", by.handle()).interceptor(redact).build().unwrap();
    let script = [says(&long("one")), says(&long("two")), says("three")];
    let hook = CleanUp::for_window(1000).by_agent(writer);
    let session = agent(script).hook(hook).build().unwrap().new_session();
    for _ in 0..3 {
        ask(&session).await;
    }
    let read = by.requests()[0].messages[0].text();
    assert!(read.contains("two two") && !read.contains("one one"), "{read}");
}
