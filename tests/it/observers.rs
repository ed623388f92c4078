//! What observers of an agent are told, and when.

mod stored;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use turnwright_control::ControlError;
use turnwright_core::{
    CancelCause, ErrorInfo, ErrorKind, HistoryError, Message, Origin, Outcome, Part, Role, TokenUsage,
    TurnContext,
};
use turnwright_hook::on;
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_react_runtime::{
    Agent, Record, RecordKind, RecordName, Spawner, SummaryError, TurnEventKind,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, run};

/// A record in a few words.
fn words(record: &Record) -> String {
    match &record.kind {
        RecordKind::Message(message) => format!("{:?} says {:?}", message.role, message.text()),
        RecordKind::ModelCallStarted { model } => format!("asks {model}"),
        RecordKind::ModelCallFinished { usage, error } => {
            let error = error.as_ref().map(|error| error.kind.as_str());
            format!("asked: {:?} {error:?}", usage.input_tokens)
        }
        RecordKind::Event(TurnEventKind::TurnFinished(end)) => format!("{:?}", end.outcome),
        kind => match kind {
            RecordKind::Event(event) => {
                let json = serde_json::to_value(event).unwrap();
                json["type"].as_str().unwrap_or_default().to_owned()
            }
            _ => format!("{kind:?}"),
        },
    }
}

/// Writes down all records of an agent.
fn diary(agent: &Agent) -> Arc<Mutex<Vec<Arc<Record>>>> {
    let records: Arc<Mutex<Vec<Arc<Record>>>> = Arc::default();
    let to = records.clone();
    agent.observers().on_all(move |record: &Arc<Record>| to.lock().push(record.clone()));
    records
}

fn all(diary: &Mutex<Vec<Arc<Record>>>) -> Vec<String> {
    diary.lock().iter().map(|record| words(record)).collect()
}

fn with_tool() -> [Reply; 2] {
    let calls = Reply::new().text("so").call("c", "echo", "{}").usage(5, 1).finish();
    [calls, Reply::new().text("done").usage(7, 1).finish()]
}

fn echo() -> impl turnwright_react_runtime::tool::Tool {
    tool("echo", "", |_: ToolContext, (): ()| async { Ok::<_, ToolError>("echoed".to_owned()) })
}

/// middleware-hooks §7.3 row 4: first and last iteration.
#[tokio::test]
async fn every_kind_of_record_of_a_plain_turn_in_order() {
    let agent = agent(with_tool()).tool(echo()).build().unwrap();
    let diary = diary(&agent);
    run(&agent, "hi").await;
    let expected = [
        "turn_started",
        "User says \"hi\"",
        "iteration_started",
        "asks scripted/scripted",
        "usage",
        "Assistant says \"so\"",
        "tool_call",
        "asked: Some(5) None",
        "tool_result",
        "Tool says \"\"",
        "iteration_finished",
        "iteration_started",
        "asks scripted/scripted",
        "usage",
        "Assistant says \"done\"",
        "asked: Some(12) None",
        "iteration_finished",
        "Completed",
    ];
    assert_eq!(all(&diary), expected);
    assert!(diary.lock().iter().all(|record| !record.stored && record.leg == 1), "there is no store");
    let seqs: Vec<_> = diary.lock().iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (1..=expected.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_name_selects_its_records_and_no_others() {
    let agent = agent(with_tool()).tool(echo()).build().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    for name in [RecordName::ToolResult, RecordName::ModelCallFinished, RecordName::TurnFinished] {
        let told = told.clone();
        agent.observers().on(name, move |record: &Arc<Record>| told.lock().push((name, words(record))));
    }
    run(&agent, "hi").await;
    let told: Vec<_> = told.lock().iter().map(|(name, words)| format!("{name:?} {words}")).collect();
    assert_eq!(
        told,
        [
            "ModelCallFinished asked: Some(5) None",
            "ToolResult tool_result",
            "ModelCallFinished asked: Some(12) None",
            "TurnFinished Completed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn observers_that_fail_change_nothing_and_the_next_event_finds_them_again() {
    let without = run(&agent(with_tool()).tool(echo()).build().unwrap(), "hi").await;
    let agent = agent(with_tool()).tool(echo()).build().unwrap();
    let panics = agent.observers().on_all(|_: &Arc<Record>| -> () { panic!("boom") });
    let fails = agent.observers().on_all(|_: &Arc<Record>| Err::<(), _>("no"));
    let diary = diary(&agent);
    let with = run(&agent, "hi").await;
    let kinds = |ran: &crate::support::Ran| ran.kinds().map(|k| format!("{k:?}")).collect::<Vec<_>>();
    assert_eq!(kinds(&with), kinds(&without));
    for stats in [panics.stats(), fails.stats()] {
        assert_eq!((stats.told, stats.failed), (18, 18));
    }
    assert_eq!(all(&diary).len(), 18);
}

#[tokio::test]
async fn what_an_observer_says_into_the_history_is_recorded_after_what_it_was_told() {
    let agent = agent(with_tool()).tool(echo()).build().unwrap();
    let diary = diary(&agent);
    let inner = agent.clone();
    let session = agent.new_session();
    let open = session.clone();
    let context: Arc<Mutex<Option<TurnContext>>> = Arc::default();
    let slot = context.clone();
    agent.observers().on(RecordName::ToolResult, move |_: &Arc<Record>| {
        // No lock of the runtime is held.
        assert!(open.is_busy() && inner.find_session(open.id()).is_some());
        let ctx = slot.lock().clone().unwrap();
        let message = Message::user(ctx.sources().id(), "noted").origin(Origin::Hook("observer".into()));
        ctx.history().append(message).unwrap();
    });
    let mut turn = session.start("hi").unwrap();
    *context.lock() = Some(turn.context().clone());
    turn.result().await.unwrap();
    let told = all(&diary);
    let at = |words: &str| told.iter().position(|told| told == words).unwrap();
    assert!(at("tool_result") < at("User says \"noted\""), "{told:?}");
}

#[tokio::test]
async fn the_end_is_told_before_the_next_turn_can_start() {
    let agent = agent([Reply::new().text("a").finish()]).build().unwrap();
    let session = agent.new_session();
    let (open, busy) = (session.clone(), Arc::new(AtomicBool::new(false)));
    let was_busy = busy.clone();
    agent
        .observers()
        .on(RecordName::TurnFinished, move |_: &Arc<Record>| was_busy.store(open.is_busy(), SeqCst));
    session.start("hi").unwrap().result().await.unwrap();
    assert!(busy.load(SeqCst) && !session.is_busy());
}

/// Makes another message of the input.
struct Redacts;
impl Around<scope::AgentRun> for Redacts {
    async fn around(
        &self,
        _: &TurnContext,
        _: Vec<Part>,
        next: Next<'_, scope::AgentRun>,
    ) -> Result<turnwright_core::LegOutcome, Exit> {
        next.run(vec![Part::text("***")]).await
    }
}

#[tokio::test]
async fn the_first_message_is_told_as_the_layers_made_it() {
    let agent = agent([Reply::new().text("a").finish()]).interceptor(interceptor!(Redacts)).build().unwrap();
    let diary = diary(&agent);
    run(&agent, "secret").await;
    let told = all(&diary);
    assert!(
        told.contains(&"User says \"***\"".into()) && !told.iter().any(|t| t.contains("secret")),
        "{told:?}"
    );
}

/// middleware-hooks §7.3 row 4: failure, symmetric.
#[tokio::test(start_paused = true)]
async fn a_model_call_that_fails_or_is_cancelled_is_told_with_why() {
    let fails = Reply::new().text("so").fail(ErrorInfo::new(ErrorKind::Server, "down"));
    let hangs = Reply::new().text("so").silence();
    for (reply, kind, outcome) in
        [(fails, "server", Outcome::Failed), (hangs, "cancelled", Outcome::Cancelled)]
    {
        let agent = agent([reply]).build().unwrap();
        let diary = diary(&agent);
        let mut turn = agent.run("hi").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        turn.cancel(CancelCause::requested("ann"));
        assert_eq!(turn.outcome().await.outcome(), outcome);
        let told = all(&diary);
        assert!(told.contains(&format!("asked: None Some({kind:?})")), "{told:?}");
        assert_eq!(told.last(), Some(&format!("{outcome:?}")));
    }
}

#[test]
fn a_runtime_that_goes_away_is_told_as_the_end() {
    let agent = agent([Reply::new().text("so").silence()]).build().unwrap();
    let diary = diary(&agent);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let turn = runtime.block_on(async {
        let turn = agent.run("hi").unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        turn
    });
    drop(runtime);
    assert_eq!(all(&diary).last().map(String::as_str), Some("Failed"));
    drop(turn);
}

#[tokio::test]
async fn of_a_leg_that_was_not_spawned_nothing_is_told() {
    let refuses = Spawner::new(|_| Err(turnwright_react_runtime::StartError::Spawn("no".into())));
    let agent = agent([Reply::new().text("a").finish()]).spawner(refuses).build().unwrap();
    let diary = diary(&agent);
    assert!(agent.run("hi").is_err());
    assert!(diary.lock().is_empty());
}

#[tokio::test]
async fn fault_r4_65_r4_67_observers_hear_of_a_turn_that_a_hook_left_and_why() {
    let leaves = on::before_turn(|_| {
        Box::pin(async { Err(ControlError::policy_violation("not on a Sunday").into()) })
    });
    let agent = agent([]).hook(leaves).build().unwrap();
    let diary = diary(&agent);
    run(&agent, "hi").await;
    assert_eq!(all(&diary), ["turn_started", "User says \"hi\"", "Failed"]);
    let told = diary.lock();
    let RecordKind::Event(TurnEventKind::TurnFinished(end)) = &told[2].kind else { panic!("{told:?}") };
    assert!(end.error.as_ref().unwrap().message.contains("not on a Sunday"), "{end:?}");
}

#[tokio::test]
async fn one_that_is_added_in_mid_turn_hears_the_rest() {
    let agent = agent(with_tool()).build().unwrap();
    let late: Arc<Mutex<Vec<Arc<Record>>>> = Arc::default();
    let (inner, to) = (agent.clone(), late.clone());
    let first = agent.observers().on(RecordName::ToolResult, move |_: &Arc<Record>| {
        let to = to.clone();
        inner.observers().on_all(move |record: &Arc<Record>| to.lock().push(record.clone()));
    });
    run(&agent, "hi").await;
    assert_eq!(all(&late).first().map(String::as_str), Some("Tool says \"\""));
    assert_eq!(all(&late).last().map(String::as_str), Some("Completed"));
    first.remove();
}

/// middleware-hooks §7.3 row 3.
#[tokio::test]
async fn a_summary_from_beside_the_turns_needs_a_running_one_and_takes_nothing_back() {
    let [calls, done] = with_tool();
    let model = ScriptedModel::new([calls, done, Reply::new().text("b").finish()]);
    let agent = agent_of(&model).tool(echo()).build().unwrap();
    let session = agent.new_session();
    session.start("1").unwrap().result().await.unwrap();
    let messages = session.messages();
    let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert_eq!(session.summarise(messages[2].id, "s"), Err(SummaryError::NotRunning));
    assert!(!session.count_usage(TokenUsage::UNKNOWN, "summary"));
    let (open, before, answers) = (session.clone(), messages.clone(), Arc::new(Mutex::new(Vec::new())));
    let to = answers.clone();
    agent.observers().on(RecordName::TurnStarted, move |_: &Arc<Record>| {
        for through in [1, 2, 0, 2] {
            to.lock().push(open.summarise(before[through].id, "in short"));
        }
        open.count_usage(TokenUsage { input_tokens: Some(100), ..TokenUsage::UNKNOWN }, "summary");
    });
    let second = session.start("2").unwrap().result().await.unwrap();
    {
        let answers = answers.lock();
        let covered = |at: usize| Err(SummaryError::Covered(messages[at].id));
        assert!(matches!(answers[0], Err(SummaryError::Refused(HistoryError::Splits { .. }))), "{answers:?}");
        assert_eq!(answers[1..], [Ok(()), covered(0), covered(2)]);
    }
    let texts = |messages: &[Arc<Message>]| messages.iter().map(|m| m.text()).collect::<Vec<_>>();
    assert_eq!(texts(&model.requests()[2].messages), ["in short", "done", "2"]);
    assert_eq!(texts(&session.view()), ["in short", "done", "2", "b"]);
    assert_eq!((second.usage.input_tokens, session.messages().len()), (Some(100), 7));
}
