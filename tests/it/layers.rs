//! Built-in layers in whole turns: what does not fit, what fails too often, what must not be seen.

use std::{borrow::Cow, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use turnwright_core::{
    AgentResult, ContextSize, ErrorInfo, ErrorKind, LegOutcome, Message, Part, Role, StopReason, ToolCall,
    ToolResult, TurnContext, history,
};
use turnwright_interceptor::{
    Around, Exit, Next,
    builtin::{ContextRetry, ErrorBudget, Redact, Retry},
    interceptor, scope,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse, OutputSchema};
use turnwright_react_runtime::{
    Agent, TurnEventKind,
    machine::Limits,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read, run};

fn overflow(limit: Option<u64>, needed: Option<u64>) -> Reply {
    let mut error = ErrorInfo::new(ErrorKind::ContextOverflow, "too long");
    error.context = Some(Box::new(ContextSize { needed, limit, excess: None }));
    Reply::new().fail(error)
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

fn texts(request: &LlmRequest) -> Vec<String> {
    request.messages.iter().map(|message| message.text()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_is_made_once_more_without_the_oldest_turns() {
    let long = "word ".repeat(400);
    let replies = [says(&long), says("two"), overflow(Some(300), None), says("three"), says("four")];
    let model = ScriptedModel::new(replies);
    let retry = || interceptor!(ContextRetry::default());
    let agent =
        agent_of(&model).interceptor(interceptor!(Retry::default())).interceptor(retry()).build().unwrap();
    let session = agent.new_session();
    for words in ["first", "second"] {
        let _ = read(&session, session.start(words).unwrap()).await;
    }
    let third = read(&session, session.start("third").unwrap()).await;
    assert_eq!(third.result().content, "three");
    assert_eq!(
        third.kinds().filter(|kind| matches!(kind, TurnEventKind::Retry { .. })).count(),
        1,
        "it is told"
    );
    let requests = model.requests();
    assert_eq!((requests[2].attempt, requests[3].attempt), (1, 2));
    assert_eq!(texts(&requests[2]).len(), 5);
    let note = "[2 earlier messages of this conversation are left out: they did not fit]";
    assert_eq!(texts(&requests[3]), [note, "second", "two", "third"]);
    history::check(requests[3].messages.iter().map(|m| &**m)).unwrap();
    assert_eq!(session.messages().len(), 6, "the history is whole");
    // The next turn begins as usual.
    let _ = read(&session, session.start("fourth").unwrap()).await;
    assert_eq!(texts(&model.requests()[4]).len(), 7);
}

#[tokio::test(start_paused = true)]
async fn within_a_turn_calls_go_with_their_results_and_later_requests_are_small_at_once() {
    let look = tool("look", "", async |_: ToolContext, _: Value| Ok("x".repeat(1000)));
    let calls = |id: &str| Reply::new().call(id, "look", "{}").finish();
    let replies =
        [calls("a"), calls("b"), calls("c"), overflow(Some(700), Some(900)), calls("d"), says("done")];
    let model = ScriptedModel::new(replies);
    let agent =
        agent_of(&model).tool(look).interceptor(interceptor!(ContextRetry::default())).build().unwrap();
    let ran = run(&agent, "go").await;
    assert_eq!(ran.result().content, "done");
    let requests = model.requests();
    for request in &requests[4..] {
        history::check(request.messages.iter().map(|m| &**m)).unwrap();
        assert!(request.messages.iter().any(|m: &Arc<Message>| m.text() == "go"), "the user's word stays");
        assert!(texts(request)[0].contains("left out"), "{:?}", texts(request));
    }
    let results = |n: usize| requests[n].messages.iter().filter(|m| m.role == Role::Tool).count();
    assert!(results(4) < 3 && results(5) < 4, "the refused size is remembered: no second refusal");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_as_small_as_it_can_be_is_not_sent_twice_but_with_less_room_for_the_answer() {
    let look = || tool("look", "", async |_: ToolContext, _: Value| Ok("x".repeat(1000)));
    let calls = |id: &str| Reply::new().call(id, "look", "{}").finish();
    let small = || overflow(Some(100), Some(900));
    for room in [None, Some(8_000)] {
        let model = ScriptedModel::new([calls("a"), calls("b"), small(), calls("c"), small(), says("done")]);
        let mut agent = agent_of(&model).tool(look()).interceptor(interceptor!(ContextRetry::default()));
        if let Some(room) = room {
            agent = agent.max_output_tokens(room);
        }
        let limits = Limits { attempts: 1, ..Limits::default() };
        let ran = run(&agent.limits(limits).build().unwrap(), "go").await;
        let requests = model.requests();
        let left_out = |n: usize| texts(&requests[n])[0].starts_with("[4 earlier messages");
        assert!(left_out(4), "{:?}", texts(&requests[4]));
        match room {
            None => {
                assert_eq!(ran.result().error.as_ref().map(|e| e.kind), Some(ErrorKind::ContextOverflow));
                assert_eq!(requests.len(), 5);
            }
            Some(_) => {
                assert_eq!(ran.result().content, "done");
                assert!(left_out(5));
                assert_eq!(requests[5].max_output_tokens, Some(4_000));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_smaller_is_the_providers_error_and_a_second_refusal_is_final() {
    let agent_with = |replies: Vec<Reply>| {
        agent(replies)
            .interceptor(interceptor!(ContextRetry::default().window(1000)))
            .limits(Limits { attempts: 1, ..Limits::default() })
    };
    let one = agent_with((0..9).map(|_| overflow(None, None)).collect()).build().unwrap();
    let ran = run(&one, "only this").await;
    assert_eq!(ran.result().error.as_ref().map(|e| e.kind), Some(ErrorKind::ContextOverflow));
    assert!(
        !ran.kinds().any(|kind| matches!(kind, TurnEventKind::Retry { .. })),
        "nothing could be left out"
    );

    let mut replies = vec![says(&"word ".repeat(2000))];
    replies.extend((0..9).map(|_| overflow(None, None)));
    let twice = agent_with(replies).build().unwrap().new_session();
    let _ = read(&twice, twice.start("first").unwrap()).await;
    let ran = read(&twice, twice.start("second").unwrap()).await;
    assert_eq!(ran.result().error.as_ref().map(|e| e.kind), Some(ErrorKind::ContextOverflow));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_calls_keep_failing_ends_and_one_that_works_between_begins_anew() {
    let fails = || tool("fails", "", async |_: ToolContext, _: Value| Err::<(), _>(ToolError::model("no")));
    let works = || tool("works", "", async |_: ToolContext, _: Value| Ok("yes"));
    let limits = Limits { iterations: 50, ..Limits::default() };
    let script = |names: &[&str]| -> Vec<Reply> {
        let calls = names.iter().map(|name| Reply::new().call("c", name, "{}").finish());
        calls.chain([says("done")]).collect()
    };
    let with = |replies: Vec<Reply>| -> Agent {
        let budget = interceptor!(ErrorBudget::new(3));
        agent(replies).tool(fails()).tool(works()).interceptor(budget).limits(limits).build().unwrap()
    };
    let ran = run(&with(script(&["fails"; 9])), "go").await;
    assert_eq!(ran.result().stop_reason, StopReason::PolicyViolation);
    assert!(ran.result().content.contains("my tools kept failing"), "{}", ran.result().content);
    let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).map(|r| &*r.content).collect();
    assert_eq!(results, ["no"; 3], "and each call has its own result, the last one too");
    let batch = (0..4).fold(Reply::new(), |reply, n| reply.call(&format!("c{n}"), "fails", "{}")).finish();
    let ran = run(&with(vec![batch]), "go").await;
    let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert_eq!(ran.result().stop_reason, StopReason::PolicyViolation);
    assert_eq!(results.iter().filter(|r| r.content == "no").count(), 3);
    assert_eq!(results[3].error.as_ref().map(|e| e.kind), Some(ErrorKind::NotRun), "no further one is begun");
    let mixed = ["fails", "fails", "works", "fails", "fails", "works", "fails"];
    assert_eq!(run(&with(script(&mixed)), "go").await.result().content, "done");
    let unknown = ["nothing"; 4];
    assert_eq!(
        run(&with(script(&unknown)), "go").await.result().content,
        "done",
        "what never ran is no failure of a tool"
    );
}

fn without_secret(text: &str) -> Cow<'_, str> {
    match text.contains("sk-secret") {
        true => Cow::Owned(text.replace("sk-secret", "[secret]")),
        false => Cow::Borrowed(text),
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_reaches_neither_the_model_nor_the_history_of_results() {
    let dump = tool("dump", "", async |_: ToolContext, _: Value| Ok("key=sk-secret"));
    let fails = tool("fails", "", async |_: ToolContext, _: Value| {
        Err::<(), _>(ToolError::model("401 for sk-secret"))
    });
    let model = ScriptedModel::new([
        Reply::new().call("a", "dump", "{}").call("b", "fails", "{}").finish(),
        says("done"),
    ]);
    let agent = agent_of(&model).instructions("never say sk-secret").tool(dump).tool(fails);
    let agent = agent.interceptor(interceptor!(Redact::new(without_secret)).inherited()).build().unwrap();
    let ran = run(&agent, "mine is sk-secret").await;
    let sent = format!("{:?}", model.requests());
    assert!(
        !sent.contains("sk-secret")
            && sent.contains("mine is [secret]")
            && sent.contains("never say [secret]")
    );
    let results: Vec<_> = ran.messages.iter().flat_map(|m| m.tool_results()).collect();
    assert_eq!(results[0].content, "key=[secret]");
    assert!(!format!("{results:?} {:?}", ran.events).replace("mine is sk-secret", "").contains("sk-secret"));
    assert_eq!(ran.messages[0].text(), "mine is sk-secret", "the user's own words are the user's");
    assert!(agent.plan().interceptors.iter().any(|layer| layer.name == "Redact" && !layer.gating));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_the_secret_again_in_its_error_tells_it_to_nobody() {
    let error = || ErrorInfo::new(ErrorKind::Authentication, "wrong key sk-secret");
    let agent = agent([Reply::new().fail(error())]).interceptor(interceptor!(Redact::new(without_secret)));
    let ran = run(&agent.build().unwrap(), "go").await;
    let said = &ran.result().error.as_ref().unwrap().message;
    assert!(said.contains("wrong key [secret]"), "{said}");
    assert!(!format!("{:?} {:?} {:?}", ran.events, ran.messages, ran.result()).contains("sk-secret"));
}

/// Writes down what it wraps, and of which session.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    async fn note<T, F: Future<Output = Result<T, Exit>>>(
        &self,
        ctx: &TurnContext,
        what: &str,
        next: F,
    ) -> Result<T, Exit> {
        self.0.lock().push(format!("{what} of {}>", ctx.session()));
        let out = next.await;
        self.0.lock().push(format!("<{what}"));
        out
    }
}

impl Around<scope::AgentRun> for Notes {
    async fn around(
        &self,
        ctx: &TurnContext,
        input: Vec<Part>,
        next: Next<'_, scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        let out = self.note(ctx, &format!("run {input:?}"), next.run(input)).await?;
        if let LegOutcome::Finished(result) = &out {
            self.0.lock().push(format!("it is {}", result.content));
        }
        Ok(out)
    }
}

impl Around<scope::LlmCall> for Notes {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let what = if request.output.is_some() { "model, for a form," } else { "model" };
        self.note(ctx, what, next.run(request)).await
    }
}

impl Around<scope::ToolCall> for Notes {
    async fn around(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        self.note(ctx, &call.name.clone(), next.run(call)).await
    }
}

/// middleware-hooks §7.2 rows 1, 4, 5 and 8.
#[tokio::test(start_paused = true)]
async fn layers_of_a_turn_nest_know_their_session_and_its_form_and_are_gone_when_removed() {
    let answers = || [Reply::new().call("a", "look", "{}").finish(), says(r#"{"n":1}"#)];
    let look = tool("look", "", async |_: ToolContext, _: Value| Ok("seen"));
    let schema = OutputSchema::new("answer", json!({ "type": "object" }));
    let agent = agent(answers().into_iter().chain(answers())).tool(look).output(schema).build().unwrap();
    let notes = Notes::default();
    let registration = agent.interceptors().register(interceptor!(notes.clone()));
    let session = agent.new_session();
    let first = read(&session, session.start("hi").unwrap()).await;
    let of = format!("of {}>", session.id());
    let run = format!("run {:?}", [Part::text("hi")]);
    let expected = [
        format!("{run} {of}"),
        format!("model, for a form, {of}"),
        "<model, for a form,".into(),
        format!("look {of}"),
        "<look".into(),
        format!("model, for a form, {of}"),
        "<model, for a form,".into(),
        format!("<{run}"),
        r#"it is {"n":1}"#.into(),
    ];
    assert_eq!(std::mem::take(&mut *notes.0.lock()), expected);
    registration.remove();
    let second = read(&session, session.start("hi").unwrap()).await;
    assert!(notes.0.lock().is_empty());
    assert_eq!(first.result().content, second.result().content);
}

/// Answers for the agent, with nothing.
struct Nothing;

impl Around<scope::AgentRun> for Nothing {
    async fn around(
        &self,
        _: &TurnContext,
        _: Vec<Part>,
        _: Next<'_, scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        Ok(LegOutcome::Finished(Box::new(AgentResult::new("", StopReason::Completed))))
    }
}

/// middleware-hooks §7.2 rows 6, 8 and 9: what a layer answers is typed, so that nothing can be forgotten, and an empty answer is
/// one.
#[tokio::test(start_paused = true)]
async fn a_layer_that_answers_for_the_agent_asks_no_model_and_an_empty_answer_is_one() {
    let model = ScriptedModel::new([]);
    let ran = run(&agent_of(&model).interceptor(interceptor!(Nothing)).build().unwrap(), "hi").await;
    assert_eq!((ran.result().content.as_str(), model.calls()), ("", 0));
    assert_eq!((ran.result().stop_reason, &ran.result().error), (StopReason::Completed, &None));
}
