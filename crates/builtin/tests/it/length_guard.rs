//! Answers that are cut, or empty.

use turnwright_builtin::LengthGuard;
use turnwright_core::{ErrorKind, Outcome, StopReason};
use turnwright_llm_stream::FinishReason;
use turnwright_testkit::Reply;

use crate::support::{agent, ask, reminders};

fn cut(text: &str) -> Reply {
    Reply::new().text(text).finish_with(FinishReason::Length)
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_is_asked_for_again_and_the_turn_completes() {
    let session = agent([cut("first "), Reply::new().text("second").finish()]).hook(LengthGuard::default());
    let session = session.build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Completed, "second"));
    assert_eq!(session.messages()[1].text(), "first ", "what was said is kept");
    assert!(reminders(&session)[0].contains("cut by the output limit"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_for_ever_ends_after_ten_nudges_with_an_error_that_says_so() {
    let session =
        agent((0..40).map(|_| cut("more "))).hook(LengthGuard::default()).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!(result.stop_reason, StopReason::Error);
    let error = result.error.unwrap();
    assert_eq!(error.kind, ErrorKind::LengthLimit);
    assert!(error.message.contains("11 times in a row"), "{}", error.message);
    assert_eq!((result.iterations, reminders(&session).len()), (11, 10));
}

#[tokio::test(start_paused = true)]
async fn whatever_it_asks_for_a_turn_has_three_attempts_and_ten_renewals() {
    let hook = LengthGuard::default().nudges(u32::MAX);
    let session = agent((0..40).map(|_| cut("more "))).hook(hook).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!((result.attempts, result.outcome()), (13, Outcome::LimitReached));
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_asked_for_again() {
    let empty = || Reply::new().finish();
    let script = [empty(), empty(), Reply::new().text("here").finish()];
    let session = agent(script).hook(LengthGuard::default()).build().unwrap().new_session();
    let result = ask(&session).await;
    assert_eq!(result.content, "here", "{result:?}");
    assert!(reminders(&session).iter().any(|text| text.contains("Your answer was empty")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_empty_for_ever_ends_after_ten_nudges_with_an_error_that_says_so() {
    let session = agent((0..60).map(|_| Reply::new().finish()))
        .hook(LengthGuard::default())
        .build()
        .unwrap()
        .new_session();
    let result = ask(&session).await;
    let error = result.error.unwrap();
    assert_eq!((result.stop_reason, error.kind), (StopReason::Error, ErrorKind::EmptyResponse));
    assert!(error.message.contains("11 times in a row"), "{}", error.message);
    assert_eq!((result.attempts, reminders(&session).len()), (11, 10));
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_calls_are_cut_for_ever_ends_too() {
    let cut = || Reply::new().call("c", "look", "{}").finish_with(FinishReason::Length);
    let builder = agent((0..100).map(|_| cut())).tool(crate::support::same("look"));
    let session = builder.hook(LengthGuard::default()).build().unwrap().new_session();
    let result = ask(&session).await;
    let error = result.error.unwrap();
    assert_eq!((result.stop_reason, error.kind), (StopReason::Error, ErrorKind::LengthLimit), "{error:?}");
    assert_eq!(reminders(&session).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_complete_answer_begins_the_count_anew_and_a_good_turn_is_left_alone() {
    let hook = LengthGuard::default().nudges(1);
    let script = [cut("a "), Reply::new().text("b").finish(), cut("c "), Reply::new().text("d").finish()];
    let session = agent(script).hook(hook).build().unwrap().new_session();
    for answer in ["b", "d"] {
        assert_eq!(ask(&session).await.content, answer);
    }
    assert_eq!(reminders(&session).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_failed_for_another_reason_is_left_alone() {
    let error = turnwright_core::ErrorInfo::new(ErrorKind::Authentication, "no");
    let session =
        agent([Reply::new().fail(error)]).hook(LengthGuard::default()).build().unwrap().new_session();
    assert_eq!(ask(&session).await.stop_reason, StopReason::Error);
    assert!(reminders(&session).is_empty());
}
