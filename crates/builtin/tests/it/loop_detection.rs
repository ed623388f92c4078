//! Turns that repeat themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use turnwright_builtin::{LengthGuard, LoopDetection, OverflowFiles};
use turnwright_core::{ImageRef, Outcome, StopReason, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, builtin::ToolTimeout, interceptor, scope};
use turnwright_llm_stream::FinishReason;
use turnwright_react_runtime::{
    machine::Limits,
    tool::{ToolContext, ToolOutput, tool},
};
use turnwright_testkit::Reply;

use crate::support::{agent, ask, calls, other, reminders, same};

/// Answers that called something.
fn asked(session: &turnwright_react_runtime::Session) -> usize {
    session.messages().iter().filter(|message| message.tool_calls().next().is_some()).count()
}

/// So many calls, then an answer.
async fn turn(
    hook: LoopDetection,
    script: impl IntoIterator<Item = Reply>,
) -> (turnwright_core::AgentResult, turnwright_react_runtime::Session) {
    let limits = Limits { iterations: 50, ..Limits::default() };
    let script: Vec<_> = script.into_iter().chain([Reply::new().text("done").finish()]).collect();
    let builder =
        agent(script).limits(limits).hook(hook).tool(same("look")).tool(same("list")).tool(same("walk"));
    let session = builder.tool(other("clock")).build().unwrap().new_session();
    (ask(&session).await, session)
}

#[tokio::test(start_paused = true)]
async fn a_reminder_comes_after_ten_rounds_and_the_end_in_place_of_the_thirteenth() {
    let (result, session) = turn(LoopDetection::default(), (0..30).map(|_| calls("look", "{}"))).await;
    assert_eq!((result.stop_reason, result.outcome()), (StopReason::LoopDetected, Outcome::LoopDetected));
    assert_eq!(asked(&session), 12);
    assert!(result.content.contains("repeating the same calls"), "the user is told: {}", result.content);
    let told = reminders(&session);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("The last 10 rounds made the same calls and got the same results: look({})"),
        "{}",
        told[0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_listens_to_the_reminder_goes_on() {
    let script = (0..11).map(|_| calls("look", "{}")).chain([calls("list", "{}"), calls("walk", "{}")]);
    let (result, session) = turn(LoopDetection::default(), script).await;
    assert_eq!((result.content.as_str(), reminders(&session).len()), ("done", 1));
}

#[tokio::test(start_paused = true)]
async fn fault_j4_a_pattern_of_two_and_of_three_is_a_loop_too() {
    let tools = ["look", "list", "walk"];
    for period in [2, 3] {
        let script = (0..40).map(|n| calls(tools[n % period], "{}"));
        let (result, session) = turn(LoopDetection::default(), script).await;
        assert_eq!((result.stop_reason, asked(&session)), (StopReason::LoopDetected, 12), "{period}");
        assert!(reminders(&session)[0].contains(&format!("(a pattern of {period})")));
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a_changed_result_is_progress() {
    let (result, session) = turn(LoopDetection::default(), (0..30).map(|_| calls("clock", "{}"))).await;
    assert_eq!((result.content.as_str(), reminders(&session).len()), ("done", 0));
}

#[tokio::test(start_paused = true)]
async fn arguments_are_compared_as_values_and_calls_in_whatever_order() {
    let forms = [r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{ "b": {"d":3,"c":2}, "a":1 }"#];
    let script = (0..20).map(|n| {
        let (first, second) = if n % 2 == 0 { ("look", "list") } else { ("list", "look") };
        let reply = Reply::new().call("x", first, forms[n % 2]).call("y", second, forms[(n + 1) % 2]);
        reply.finish()
    });
    let (result, session) = turn(LoopDetection::default(), script).await;
    assert_eq!((result.stop_reason, asked(&session)), (StopReason::LoopDetected, 12));
    let script = (0..20).map(|n| calls("look", &format!(r#"{{"n":{n}}}"#)));
    assert_eq!(turn(LoopDetection::default(), script).await.0.content, "done");
}

#[tokio::test(start_paused = true)]
async fn the_window_and_the_observation_can_be_chosen_and_have_floors() {
    let looks = || (0..30).map(|_| calls("look", "{}"));
    for (window, observation, rounds) in [(3, 1, 4), (3, 0, 4), (0, 5, 7), (20, 2, 22)] {
        let hook = LoopDetection::default().window(window).observation(observation);
        let (result, session) = turn(hook, looks()).await;
        assert_eq!((result.stop_reason, asked(&session)), (StopReason::LoopDetected, rounds), "{window}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_word_of_the_user_begins_anew() {
    let limits = Limits { iterations: 50, ..Limits::default() };
    let script =
        (0..16).map(|n| if n == 8 { Reply::new().text("one").finish() } else { calls("look", "{}") });
    let script: Vec<_> = script.chain([Reply::new().text("two").finish()]).collect();
    let session =
        agent(script).limits(limits).hook(LoopDetection::default()).tool(same("look")).build().unwrap();
    let session = session.new_session();
    for answer in ["one", "two"] {
        assert_eq!(ask(&session).await.content, answer);
    }
    assert!(reminders(&session).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_call_is_cut_in_the_reminder_and_compared_whole() {
    let long = |n: usize| format!(r#"{{"text":"{}{}"}}"#, "x".repeat(2000), n);
    let (result, _) = turn(LoopDetection::default(), (0..30).map(|n| calls("look", &long(n % 20)))).await;
    assert_eq!(result.content, "done", "they differ behind the part that is shown");
    let (_, session) = turn(LoopDetection::default(), (0..30).map(|_| calls("look", &long(0)))).await;
    assert!(reminders(&session)[0].chars().count() < 900);
}

/// Ten times `look`, and as many answers that the output limit cut.
fn looks_and_words() -> Vec<Reply> {
    let cut = || Reply::new().text("nothing is there").finish_with(FinishReason::Length);
    (0..10).map(|_| calls("look", "{}")).chain((0..5).map(|_| cut())).collect()
}

#[tokio::test(start_paused = true)]
async fn fault_who_stops_calling_is_no_loop_however_often_the_turn_is_gone_on_with() {
    let limits = Limits { iterations: 50, ..Limits::default() };
    for observation in [0, 1, 2] {
        let script: Vec<_> =
            looks_and_words().into_iter().chain([Reply::new().text("done").finish()]).collect();
        let hook = LoopDetection::default().observation(observation);
        let builder = agent(script).limits(limits).tool(same("look")).hook(hook).hook(LengthGuard::default());
        let session = builder.build().unwrap().new_session();
        assert_eq!(ask(&session).await.content, "done", "{observation}");
        let told = reminders(&session);
        assert_eq!(told.iter().filter(|text| text.contains("The last 10 rounds")).count(), 1, "{told:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a_changed_image_is_progress() {
    for is_changed in [true, false] {
        let n = AtomicU32::new(0);
        let screen = tool("screen", "", move |_: ToolContext, _: Value| {
            let n = if is_changed { n.fetch_add(1, SeqCst) } else { 0 };
            let image = ImageRef { uri: format!("shots/{n}.png"), media_type: None };
            async move { Ok(ToolOutput { content: "taken".into(), images: vec![image] }) }
        });
        let script = (0..30).map(|_| calls("screen", "{}")).chain([Reply::new().text("done").finish()]);
        let limits = Limits { iterations: 50, ..Limits::default() };
        let session =
            agent(script).limits(limits).tool(screen).hook(LoopDetection::default()).build().unwrap();
        let result = ask(&session.new_session()).await;
        let expected = if is_changed { StopReason::Completed } else { StopReason::LoopDetected };
        assert_eq!(result.stop_reason, expected);
    }
}

#[tokio::test]
async fn fault_a_result_that_is_kept_in_a_file_each_time_is_no_progress() {
    let folder = tempfile::tempdir().unwrap();
    let dump = tool("dump", "", async |_: ToolContext, _: Value| Ok("x".repeat(60_000)));
    let limits = Limits { iterations: 50, ..Limits::default() };
    let builder = agent((0..30).map(|_| calls("dump", "{}"))).limits(limits).tool(dump);
    let builder = builder.tool_result_overflow(Arc::new(OverflowFiles::below(folder.path())));
    let session = builder.hook(LoopDetection::default()).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.stop_reason, asked(&session)), (StopReason::LoopDetected, 12));
}

/// Stops each call, a little later than the one before.
struct Late(AtomicU32);

impl Around<scope::ToolCall> for Late {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        _: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let late = Duration::from_millis(10) * self.0.fetch_add(1, SeqCst);
        let limit = Duration::from_secs(30);
        Ok(ToolTimeout::idle_result(&call, limit, limit + late))
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a_tool_that_is_stopped_each_time_a_little_later_is_no_progress() {
    let limits = Limits { iterations: 50, ..Limits::default() };
    let builder = agent((0..30).map(|_| calls("look", "{}"))).limits(limits).tool(same("look"));
    let builder = builder.interceptor(interceptor!(Late(AtomicU32::new(0)))).hook(LoopDetection::default());
    let session = builder.build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.stop_reason, asked(&session)), (StopReason::LoopDetected, 12));
}
