//! Typed answers: natively and by a tool, with tools, repaired, refused, cut, suspended and taken up again.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turnwright_core::{
    CallId, CancelCause, CancelToken, Decision, ErrorInfo, ErrorKind, Message, Origin, Outcome, Part, Role,
    StopReason, Timestamp, TurnContext,
};
use turnwright_hook::{
    HookError, TurnAnswer, hook,
    point::{AfterTurn, BeforeLlm, FinalizeContent},
};
use turnwright_interceptor::{
    builtin::{Cache, Fallback, Retry},
    interceptor,
};
use turnwright_llm_stream::{CacheHint, FinishReason, LlmRequest, OutputSchema, OutputWay, ToolChoice};
use turnwright_react_runtime::{
    Agent, Session, Typed, TypedError, TypedOptions, TypedTurn, gate::AskFor, generate, machine::Limits,
    store::MemoryStore, tool::tool,
};
use turnwright_testkit::{Reply, ScriptedModel, check::history};

use crate::support::{agent_of, read};

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct Weather {
    sky: Sky,
    degrees: Option<i8>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Sky {
    Clear,
    Clouds,
}

const SUNNY: &str = r#"{"sky":"clear","degrees":31}"#;

fn sunny() -> Weather {
    Weather { sky: Sky::Clear, degrees: Some(31) }
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).usage(10, 1).finish()
}

fn answers(json: &str) -> Reply {
    Reply::new().call("answer", "final_answer", json).usage(10, 1).finish()
}

fn native(replies: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    ScriptedModel::new(replies).output_way(OutputWay::Native)
}

fn look() -> impl turnwright_react_runtime::tool::Tool {
    tool("look", "Looks out of the window", async |_ctx, (): ()| Ok("the sun shines"))
}

/// Reads the turn to its end, and holds it to what holds for every turn.
async fn answer(session: &Session, mut turn: TypedTurn<Weather>) -> Result<Typed<Weather>, TypedError> {
    let out = turn.answer().await;
    let ran = read(session, turn.into_handle()).await;
    if let Ok(typed) = &out {
        assert_eq!(Some(&typed.result), ran.result.as_ref());
    }
    out
}

async fn ask(agent: &Agent) -> (Session, Result<Typed<Weather>, TypedError>) {
    let session = agent.new_session();
    let turn = session.start_typed("How is the weather?").unwrap();
    let out = answer(&session, turn).await;
    (session, out)
}

fn texts(messages: &[Arc<Message>], role: Role) -> Vec<String> {
    messages.iter().filter(|m| m.role == role).map(|m| m.text()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_format_that_knows_forms_is_told_the_form_and_calls_tools_as_ever() {
    let model = native([Reply::new().call("c", "look", "{}").usage(10, 1).finish(), says(SUNNY)]);
    let (_, out) = ask(&agent_of(&model).tool(look()).build().unwrap()).await;
    let typed = out.unwrap();
    assert_eq!((typed.value, typed.result.content.as_str(), typed.result.iterations), (sunny(), SUNNY, 2));
    for request in model.requests() {
        let output = request.output.unwrap();
        assert!(output.strict && output.name == "Weather", "{output:?}");
        assert_eq!(request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["look"]);
    }
}

#[tokio::test(start_paused = true)]
async fn elsewhere_a_tool_is_the_answer_and_nobody_sees_it_but_the_model() {
    let both =
        || Reply::new().call("c", "look", "{}").call("answer", "final_answer", "{}").usage(10, 1).finish();
    for (way, choice) in
        [(OutputWay::OfferedTool, ToolChoice::Auto), (OutputWay::DemandedTool, ToolChoice::Required)]
    {
        let model = ScriptedModel::new([both(), answers(SUNNY)]).output_way(way);
        let agent = agent_of(&model).tool(look()).build().unwrap();
        let session = agent.new_session();
        let mut turn = session.start_typed::<Weather>("How is the weather?").unwrap();
        let typed = turn.answer().await.unwrap();
        assert_eq!((typed.value, typed.result.iterations, typed.result.attempts), (sunny(), 2, 1));
        let ran = read(&session, turn.into_handle()).await;
        let shown = serde_json::to_string(&ran.events).unwrap();
        assert!(shown.contains("look") && !shown.contains("final_answer"), "{shown}");
        let kept = serde_json::to_string(&ran.messages).unwrap();
        assert!(!kept.contains("final_answer"), "{kept}");
        assert_eq!(
            texts(&ran.messages, Role::Assistant),
            ["{}", SUNNY],
            "an answer beside a call is kept as words"
        );
        for request in model.requests() {
            let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!(
                (names, request.tool_choice, request.output),
                (vec!["look", "final_answer"], choice.clone(), None)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_told_to_the_model_in_the_same_history_and_counts() {
    for by_tool in [false, true] {
        let give = |json: &str| if by_tool { answers(json) } else { says(json) };
        let model = ScriptedModel::new([give(r#"{"sky":"green"}"#), give("{}"), give(SUNNY)]).output_way(
            match by_tool {
                true => OutputWay::DemandedTool,
                false => OutputWay::Native,
            },
        );
        let (session, out) = ask(&agent_of(&model).build().unwrap()).await;
        let Typed { value, result } = out.unwrap();
        assert_eq!((value, result.attempts, result.iterations), (sunny(), 3, 3));
        assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (Some(30), Some(3)));
        let messages = session.messages();
        let told: Vec<_> = messages
            .iter()
            .filter(|m| m.origin == Origin::Hook("typed_answer".into()))
            .map(|m| m.text())
            .collect();
        assert!(
            told[0].contains("unknown variant `green`") && told[1].contains("missing field `sky`"),
            "{told:#?}"
        );
        assert!(told.iter().all(|told| told.contains(r#""enum":["clear","clouds"]"#)), "{told:#?}");
        assert_eq!(model.requests()[2].messages.len(), 5, "all of it was shown");
    }
}

#[tokio::test(start_paused = true)]
async fn repairs_end_and_the_outcome_stays_what_it_is() {
    let wrong = || (1..9).map(|n| says(&format!("no {n}")));
    let limits = |attempts: u32| Limits { attempts, ..Limits::default() };
    for (repairs, attempts, calls) in
        [(None, 3, 3), (Some(0), 3, 1), (Some(1), 3, 2), (Some(5), 3, 3), (Some(5), 9, 6)]
    {
        let model = native(wrong());
        let agent = agent_of(&model).limits(limits(attempts)).build().unwrap();
        let mut options = TypedOptions::default();
        if let Some(repairs) = repairs {
            options = options.repairs(repairs);
        }
        let session = agent.new_session();
        let out = answer(&session, session.start_typed_with("hi", &options).unwrap()).await;
        let Err(TypedError::Invalid { fault, result }) = out else { panic!("{out:?}") };
        assert_eq!(
            (model.calls(), result.content),
            (calls, format!("no {calls}")),
            "{repairs:?} of {attempts}"
        );
        assert_eq!((result.stop_reason, result.error), (StopReason::Completed, None), "{fault}");
        assert!(fault.starts_with("expected"), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn iterations_of_repairs_are_bounded_as_any_other() {
    let call = || Reply::new().call("c", "look", "{}").finish();
    let model = native([says("no"), call(), call(), call()]);
    let limits = Limits { iterations: 2, ..Limits::default() };
    let (_, out) = ask(&agent_of(&model).tool(look()).limits(limits).build().unwrap()).await;
    let Err(TypedError::NotCompleted { result }) = out else { panic!("{out:?}") };
    assert_eq!((result.stop_reason, model.calls()), (StopReason::MaxIterations, 3));
}

#[tokio::test(start_paused = true)]
async fn cut_refused_filtered_empty_and_failed_answers_are_told_apart() {
    let cut = || Reply::new().text(r#"{"sky":"#).finish_with(FinishReason::Length);
    let ended = |reason| Reply::new().text("I cannot").finish_with(reason);
    let failed = Reply::new().fail(ErrorInfo::new(ErrorKind::Server, "no key"));
    let kinds: [(Vec<Reply>, usize, &str, &str); 5] = [
        (vec![cut(), cut(), cut()], 3, "Truncated", r#"{"sky":"#),
        (vec![ended(FinishReason::Refusal)], 1, "Refused", "I cannot"),
        (vec![ended(FinishReason::ContentFilter)], 1, "Refused", "I cannot"),
        (vec![Reply::new().finish(), Reply::new().finish()], 2, "Empty", ""),
        (vec![failed], 1, "NotCompleted", ""),
    ];
    for (replies, calls, kind, text) in kinds {
        let model = native(replies);
        let (_, out) = ask(&agent_of(&model).build().unwrap()).await;
        let error = out.unwrap_err();
        assert!(format!("{error:?}").starts_with(kind), "{error:?}");
        assert_eq!((model.calls(), error.result().unwrap().content.as_str()), (calls, text), "{error:?}");
    }
    let model = native([cut(), says(SUNNY)]);
    let (session, out) = ask(&agent_of(&model).build().unwrap()).await;
    assert_eq!(out.unwrap().value, sunny(), "it was told to be brief");
    assert!(texts(&session.messages(), Role::User)[1].contains("too long"));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_typed_turn_goes_on_in_another_process_and_its_repairs_are_counted_on() {
    let ask_first = || Reply::new().call("c", "look", "{}").finish();
    let model = native([says("no 1"), ask_first(), says("no 2"), says("no 3")]);
    let store: Arc<MemoryStore> = Arc::default();
    let agent = || {
        let limits = Limits { attempts: 9, ..Limits::default() };
        agent_of(&model)
            .tool(look())
            .gate(AskFor::tools(["look"]))
            .limits(limits)
            .store(store.clone())
            .build()
            .unwrap()
    };
    let first = agent();
    let session = first.new_session();
    let id = session.id().clone();
    let mut turn = session.start_typed::<Weather>("How is the weather?").unwrap();
    let out = turn.answer().await;
    let Err(TypedError::Suspended { pending }) = out else { panic!("{out:?}") };
    assert_eq!(pending.len(), 1);
    drop((turn, session, first));

    let second = agent();
    let session = second.open_session(id).await.unwrap();
    let decision = Decision::allow([CallId::from("c")], "ann", Timestamp::UNIX_EPOCH);
    session.decide(&decision).await.unwrap();
    let out = answer(&session, session.resume_typed().unwrap()).await;
    let Err(TypedError::Invalid { result, .. }) = out else { panic!("{out:?}") };
    assert_eq!((result.content.as_str(), result.attempts), ("no 3", 3), "two repairs in all");
    history(&session.messages()).unwrap();
    assert!(model.requests().iter().all(|request| request.output.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_typed_turn_is_drained_resumed_cancelled_and_interrupted_as_any_other() {
    let model = native([Reply::new().call("c", "look", "{}").finish(), says(SUNNY)]);
    let agent = agent_of(&model).tool(look()).build().unwrap();
    let session = agent.new_session();
    let mut turn = session.start_typed::<Weather>("hi").unwrap();
    assert!(turn.drain());
    assert_eq!(turn.answer().await.unwrap_err(), TypedError::Drained);
    drop(turn);
    let out = answer(&session, session.resume_typed().unwrap()).await;
    assert_eq!(out.unwrap().value, sunny());

    for by_parent in [false, true] {
        let model = native([says("no"), Reply::new().silence()]);
        let agent = agent_of(&model).build().unwrap();
        let (session, parent) = (agent.new_session(), CancelToken::new());
        let options = TypedOptions::default().under(parent.clone());
        let mut turn = session.start_typed_with::<Weather>("hi", &options).unwrap();
        while model.calls() < 2 {
            tokio::task::yield_now().await;
        }
        let cause = CancelCause::requested("ann");
        if by_parent {
            parent.cancel(cause)
        } else {
            turn.cancel(cause)
        };
        let error = turn.answer().await.unwrap_err();
        let TypedError::NotCompleted { result } = &error else { panic!("{error:?}") };
        assert_eq!((result.outcome(), model.calls()), (Outcome::Cancelled, 2), "a repair is cancelled");
        assert!(error.to_string().contains("ann"), "{error}");
        history(&session.messages()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_question_is_one_call() {
    let model = native([says("```json\n{\"answer\":[1,2,3]}\n```")]);
    let typed = generate::<Vec<u8>>(&model.handle(), "Count to three.").await.unwrap();
    assert_eq!((typed.value, model.calls()), (vec![1, 2, 3], 1));
    let requests = model.requests();
    let schema = &requests[0].output.as_ref().unwrap().schema;
    assert_eq!(schema["properties"]["answer"]["type"], "array");
    let out = generate::<Vec<u8>>(&model.handle(), Vec::new()).await;
    assert!(matches!(out, Err(TypedError::NotStarted(_))), "{out:?}");
}

/// Goes on once, and changes what the user gets.
struct Busy;
impl AfterTurn for Busy {
    async fn after_turn(
        &self,
        ctx: &TurnContext,
        _: &mut turnwright_core::AgentResult,
    ) -> Result<TurnAnswer, HookError> {
        Ok(if ctx.attempt() == 1 { TurnAnswer::Continue } else { TurnAnswer::Done })
    }
}
impl FinalizeContent for Busy {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        Ok(content.replace("31", "30"))
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_have_their_say_and_the_value_is_what_they_leave() {
    let model = native([says("no"), says(SUNNY)]);
    let (session, out) = ask(&agent_of(&model).hook(hook!(Busy)).build().unwrap()).await;
    let typed = out.unwrap();
    assert_eq!((typed.value.degrees, typed.result.attempts), (Some(30), 2));
    assert_eq!(texts(&session.messages(), Role::User).len(), 1, "the hook went on anyway: nobody complained");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_a_layer_names_is_asked_in_its_own_way() {
    let first = native([Reply::new().fail(ErrorInfo::new(ErrorKind::Server, "down"))]);
    let second = ScriptedModel::new([answers(SUNNY)]).output_way(OutputWay::DemandedTool);
    let layer = interceptor!(Fallback::new([second.handle()]));
    let (_, out) = ask(&agent_of(&first).interceptor(layer).build().unwrap()).await;
    assert_eq!(out.unwrap().value, sunny());
    assert!(first.requests()[0].output.is_some());
    let asked = &second.requests()[0];
    assert_eq!((&asked.output, &asked.tool_choice), (&None, &ToolChoice::Tool("final_answer".into())));
}

#[tokio::test(start_paused = true)]
async fn layers_repeat_and_remember_the_answer_of_a_tool_as_any_text() {
    let busy = || ErrorInfo::new(ErrorKind::Overloaded, "busy");
    let by_tool = |replies: Vec<Reply>| ScriptedModel::new(replies).output_way(OutputWay::DemandedTool);
    let model = by_tool(vec![Reply::new().fail(busy()), answers("{}"), answers(SUNNY)]);
    let agent = agent_of(&model)
        .interceptor(interceptor!(Cache::default()))
        .interceptor(interceptor!(Retry::default()))
        .build()
        .unwrap();
    for calls in [3, 3] {
        let (_, out) = ask(&agent).await;
        assert_eq!((out.unwrap().value, model.calls()), (sunny(), calls), "a hit is repaired by a hit");
    }
    // The answer was shown: nobody asks again, and nothing of it is lost.
    let shown = Reply::new().call("answer", "final_answer", SUNNY).fail(busy());
    let model = by_tool(vec![shown, answers(SUNNY)]);
    let (session, out) =
        ask(&agent_of(&model).interceptor(interceptor!(Retry::default())).build().unwrap()).await;
    let Err(TypedError::NotCompleted { result }) = out else { panic!("{out:?}") };
    assert_eq!((result.content.as_str(), model.calls()), (SUNNY, 1));
    assert!(session.messages()[1].interrupted.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_copies_a_format_is_asked_by_a_tool_if_told_so() {
    let model = native([answers(SUNNY)]);
    let agent = agent_of(&model).build().unwrap();
    let session = agent.new_session();
    let turn = session.start_typed_with("hi", &TypedOptions::default().by_tool()).unwrap();
    assert_eq!(answer(&session, turn).await.unwrap().value, sunny());
    assert_eq!(model.requests()[0].tools[0].name, "final_answer");
}

/// Sees every request as the model does.
struct Sees(Arc<parking_lot::Mutex<Vec<LlmRequest>>>);
impl BeforeLlm for Sees {
    async fn before_llm(&self, _: &TurnContext, request: &LlmRequest) -> Result<(), HookError> {
        self.0.lock().push(request.clone());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_asks_for_is_in_every_request_and_hooks_see_it() {
    let seen = Arc::default();
    let model = native([says("{}")]);
    let output = OutputSchema::new("o", json!({ "type": "object" }));
    let agent = agent_of(&model)
        .output(output.clone())
        .parallel_tool_calls(false)
        .top_p(0.5)
        .stop(["END"])
        .cache(CacheHint::Hour)
        .hook(hook!(Sees(Arc::clone(&seen))))
        .build()
        .unwrap();
    crate::support::run(&agent, "hi").await;
    for request in [&model.requests()[0], &seen.lock()[0]] {
        assert_eq!(request.output.as_deref(), Some(&output));
        assert_eq!((request.parallel_tool_calls, request.top_p), (Some(false), Some(0.5)));
        assert_eq!(
            (request.stop.as_slice(), request.cache),
            (["END".to_owned()].as_slice(), CacheHint::Hour)
        );
        assert_eq!(request.messages[0].parts, [Part::text("hi")]);
    }
}
