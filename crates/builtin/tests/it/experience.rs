//! What is learned of a conversation.

use std::{borrow::Cow, time::Duration};

use turnwright_builtin::{ExperienceFiles, ExperienceReview, memory::ContextAssembly};
use turnwright_interceptor::{builtin::Redact, interceptor};
use turnwright_react_runtime::Agent;
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, ask, calls, reminders};

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

const LEARNED: &str = r#"{"name":"tides","description":"When the tide turns","text":"Look at the moon."}"#;

async fn until(mut is: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is(), "it never came");
}

#[tokio::test]
async fn after_a_long_conversation_what_was_learned_is_kept_and_known_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = ExperienceFiles::below(folder.path().join("made"));
    let reviewer = ScriptedModel::new([calls("write_experience", LEARNED), says("Kept one.")]);
    let review = ExperienceReview::new(files.clone(), reviewer.handle()).unwrap().min_messages(4);
    let session = agent([says("one"), says("two")]).hook(review.clone()).build().unwrap().new_session();
    ask(&session).await;
    assert_eq!((review.is_busy(), reviewer.calls()), (false, 0), "two messages teach nothing");
    ask(&session).await;
    until(|| !review.is_busy() && reviewer.calls() == 2).await;
    assert!(reviewer.requests()[0].messages[0].text().contains("ASSISTANT: two"));
    let known = files.list().await.unwrap();
    assert_eq!((known[0].name.as_str(), known[0].description.as_str()), ("tides", "When the tide turns"));

    let (write, read) = files.tools();
    let script = [
        calls("read_experience", r#"{"name":"tides"}"#),
        calls("read_experience", r#"{"name":"../x"}"#),
        says("ok"),
    ];
    let next = agent(script).tool(write).tool(read).hook(ContextAssembly::default().source(0, files));
    let session = next.build().unwrap().new_session();
    ask(&session).await;
    assert!(reminders(&session)[0].contains("- tides: When the tide turns"));
    let messages = session.messages();
    let said: Vec<_> = messages.iter().flat_map(|m| m.tool_results()).map(|r| r.content.as_str()).collect();
    assert!(said[0].contains("Look at the moon.") && said[1].contains("is no name"), "{said:?}");
}

#[tokio::test]
async fn a_turn_that_wrote_one_itself_is_not_reviewed_and_the_next_ones_must_be_twice_as_long() {
    let folder = tempfile::tempdir().unwrap();
    let files = ExperienceFiles::below(folder.path());
    let reviewer = ScriptedModel::new((0..9).map(|_| says("Nothing.")));
    let review = ExperienceReview::new(files.clone(), reviewer.handle()).unwrap().min_messages(4);
    let (write, read) = files.tools();
    let script = [calls("write_experience", LEARNED), says("one"), says("two"), says("three")];
    let session = agent(script).tool(write).tool(read).hook(review.clone()).build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    assert_eq!((review.is_busy(), reviewer.calls()), (false, 0), "4 messages, then 6");
    ask(&session).await;
    until(|| reviewer.calls() == 1).await;
}

#[tokio::test]
async fn a_review_dies_with_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let reviewer = ScriptedModel::new([Reply::new().text("thinking").silence()]);
    let review = ExperienceReview::new(ExperienceFiles::below(folder.path()), reviewer.handle()).unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let agent = agent([says("one")]).hook(review.min_messages(1)).build().unwrap();
    ask(&agent.new_session()).await;
    until(|| reviewer.calls() == 1).await;
    assert!(tasks() > before);
    drop(agent);
    until(|| tasks() == before).await;
}

#[tokio::test]
async fn a_review_that_hangs_is_over_after_five_minutes_and_makes_way_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let reviewer = ScriptedModel::new([Reply::new().text("thinking").silence(), says("Nothing.")]);
    let review = ExperienceReview::new(ExperienceFiles::below(folder.path()), reviewer.handle()).unwrap();
    let review = review.min_messages(1);
    let session = agent([says("one"), says("two")]).hook(review.clone()).build().unwrap().new_session();
    ask(&session).await;
    until(|| reviewer.calls() == 1).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert!(review.is_busy());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!review.is_busy());
    tokio::time::resume();
    ask(&session).await;
    until(|| reviewer.calls() == 2).await;
}

#[tokio::test]
async fn fault_what_the_model_must_not_see_the_reviewer_does_not_see_either() {
    fn words(text: &str) -> Cow<'_, str> {
        match text.contains("hi") {
            true => Cow::Owned(text.replace("hi", "[gone]")),
            false => Cow::Borrowed(text),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let reviewer = ScriptedModel::new([says("Nothing.")]);
    let by = Agent::builder("reviewer", reviewer.handle())
        .interceptor(interceptor!(Redact::new(words as fn(&str) -> Cow<'_, str>)));
    let review =
        ExperienceReview::by_agent(ExperienceFiles::below(folder.path()), by).unwrap().min_messages(1);
    ask(&agent([says("one")]).hook(review.clone()).build().unwrap().new_session()).await;
    until(|| reviewer.calls() == 1).await;
    let read = reviewer.requests()[0].messages[0].text();
    assert!(read.contains("PERSON: [gone]"), "{read}");
}

#[tokio::test]
async fn unless_it_says_otherwise_it_looks_from_ten_messages_on() {
    let folder = tempfile::tempdir().unwrap();
    let reviewer = ScriptedModel::new([says("Nothing.")]);
    let review = ExperienceReview::new(ExperienceFiles::below(folder.path()), reviewer.handle()).unwrap();
    let session = agent((0..5).map(|_| says("yes"))).hook(review.clone()).build().unwrap().new_session();
    for _ in 0..4 {
        ask(&session).await;
    }
    assert_eq!((review.is_busy(), reviewer.calls()), (false, 0), "8 messages");
    ask(&session).await;
    until(|| reviewer.calls() == 1).await;
}

#[tokio::test]
async fn three_turns_after_one_was_written_it_looks_as_usual_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = ExperienceFiles::below(folder.path());
    let reviewer = ScriptedModel::new([says("Nothing.")]);
    let review = ExperienceReview::new(files.clone(), reviewer.handle()).unwrap().min_messages(11);
    let (write, read) = files.tools();
    let script = [calls("write_experience", LEARNED)].into_iter().chain((0..5).map(|_| says("yes")));
    let session = agent(script).tool(write).tool(read).hook(review.clone()).build().unwrap().new_session();
    // 4 messages, then 6, 8, 10.
    for _ in 0..4 {
        ask(&session).await;
    }
    assert_eq!((review.is_busy(), reviewer.calls()), (false, 0), "22 are wanted in the three turns after");
    ask(&session).await;
    until(|| reviewer.calls() == 1).await;
}
