//! A conversation that is summarised between its turns.

use std::{sync::Arc, time::Duration};

use turnwright_builtin::{Summarizer, SummarizerStats};
use turnwright_core::{AgentResult, ErrorInfo, ErrorKind, SessionId};
use turnwright_llm_stream::FinishReason;
use turnwright_react_runtime::{Agent, Session, store::MemoryStore};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

/// An answer to a request of so many tokens.
fn answer(text: &str, read: u64) -> Reply {
    Reply::new().text(text).usage(read, 1).finish()
}

fn agent(name: &str, replies: impl IntoIterator<Item = Reply>) -> (Agent, ScriptedModel) {
    let model = ScriptedModel::new(replies);
    let agent = Agent::builder(name, model.handle()).sources(virtual_sources(1)).build().unwrap();
    (agent, model)
}

async fn say(session: &Session, words: &str) -> AgentResult {
    let result = session.start(words).unwrap().result().await.unwrap();
    // What was begun at its end is done, if it can be, before anything else happens.
    tokio::time::sleep(Duration::from_millis(1)).await;
    result
}

/// What the model read in its nth call, a line a message.
fn read(model: &ScriptedModel, nth: usize) -> Vec<String> {
    model.requests()[nth].messages.iter().map(|m| m.text()).collect()
}

fn stats(begun: u64, collapsed: u64, failed: u64) -> SummarizerStats {
    SummarizerStats { begun, collapsed, failed }
}

const SUMMARY: &str = "<summary>\nThe conversation so far, summarised:\nin short\n</summary>";

#[tokio::test(start_paused = true)]
async fn fault_m6_after_a_large_turn_the_next_one_reads_a_summary_and_its_usage_is_counted_once() {
    let (main, model) = agent("main", [answer("a", 10), answer("b", 100), answer("c", 20), answer("d", 20)]);
    let (by, summarised) = agent("by", [Reply::new().text("in short").usage(7, 3).finish()]);
    let summarizing = Summarizer::new(by).budget(100).keep(1).attach(&main);
    let session = main.new_session();
    say(&session, "1").await;
    assert_eq!(summarizing.stats(), stats(0, 0, 0), "a small turn begins nothing");
    say(&session, "2").await;
    assert_eq!(summarizing.stats(), stats(1, 0, 0), "nothing changes between turns");
    let third = say(&session, "3").await;
    assert_eq!(read(&model, 2), [SUMMARY, "b", "3"]);
    assert_eq!((third.usage.input_tokens, third.usage.output_tokens), (Some(27), Some(4)));
    assert!(
        read(&summarised, 0)[0].ends_with("<conversation>\nuser: 1\nassistant: a\nuser: 2\n</conversation>")
    );
    let fourth = say(&session, "4").await;
    assert_eq!(read(&model, 3), [SUMMARY, "b", "3", "c", "4"]);
    assert_eq!(fourth.usage.input_tokens, Some(20));
    assert_eq!(session.messages().len(), 9, "all that was said is still there, and the summary");
    assert_eq!(summarizing.stats(), stats(1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_stored_and_another_process_reads_it() {
    let store = Arc::new(MemoryStore::new());
    let stored = |replies: Vec<Reply>| {
        let model = ScriptedModel::new(replies);
        let agent = Agent::builder("main", model.handle()).sources(virtual_sources(3)).store(store.clone());
        (agent.build().unwrap(), model)
    };
    let id = SessionId::new("s").unwrap();
    {
        let (main, model) = stored(vec![answer("a", 100), answer("b", 1)]);
        let (by, _) = agent("by", [answer("in short", 1)]);
        let _summarizing = Summarizer::new(by).budget(100).keep(0).attach(&main);
        let session = main.open_session(id.clone()).await.unwrap();
        say(&session, "1").await;
        say(&session, "2").await;
        assert_eq!(read(&model, 1), [SUMMARY, "2"]);
    }
    let (main, model) = stored(vec![answer("c", 1)]);
    say(&main.open_session(id).await.unwrap(), "3").await;
    assert_eq!(read(&model, 0), [SUMMARY, "2", "b", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_or_is_cut_changes_nothing_is_counted_and_is_tried_again() {
    let cut = Reply::new().text("in sh").usage(5, 0).finish_with(FinishReason::Length);
    let failing = Reply::new().usage(5, 0).fail(ErrorInfo::new(ErrorKind::Server, "down"));
    for useless in [cut, failing] {
        let (main, model) = agent("main", (0..3).map(|_| answer("a", 100)));
        let (by, _) = agent("by", [useless]);
        let summarizing = Summarizer::new(by).budget(100).keep(0).attach(&main);
        let session = main.new_session();
        say(&session, "1").await;
        let second = say(&session, "2").await;
        assert_eq!(read(&model, 1), ["1", "a", "2"]);
        assert_eq!(second.usage.input_tokens, Some(105), "it used something all the same");
        assert_eq!(summarizing.stats(), stats(2, 0, 1));
        say(&session, "3").await;
        assert_eq!(summarizing.stats(), stats(3, 0, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_has_one_task_which_ends_with_the_session_and_with_the_summarizer() {
    for ends_with_session in [true, false] {
        let (main, _) = agent("main", (0..2).map(|_| answer("a", 100)));
        let (by, _) = agent("by", (0..2).map(|_| Reply::new().text("so").silence()));
        let summarizing = Summarizer::new(by.clone()).budget(100).keep(0).attach(&main);
        let session = main.new_session();
        say(&session, "1").await;
        say(&session, "2").await;
        assert_eq!((summarizing.stats(), by.open_sessions()), (stats(1, 0, 0), 1), "one, and it runs");
        match ends_with_session {
            true => drop(session),
            false => drop(summarizing),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(by.open_sessions(), 0, "its turn is over");
        if ends_with_session {
            assert_eq!(main.open_sessions(), 0, "and nothing holds the session");
        } else {
            assert!(!main.observers().is_heard());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_summarizer_had_ready_when_it_ended_is_not_handed_over_by_the_next_one() {
    let (main, model) = agent("main", (0..3).map(|_| answer("a", 100)));
    let (by, _) = agent("by", (0..2).map(|_| answer("in short", 1)));
    let first = Summarizer::new(by.clone()).budget(100).keep(0).attach(&main);
    let session = main.new_session();
    say(&session, "1").await;
    assert_eq!(first.stats(), stats(1, 0, 0));
    drop(first);
    let second = Summarizer::new(by).budget(100).keep(0).attach(&main);
    say(&session, "2").await;
    assert_eq!(read(&model, 1), ["1", "a", "2"]);
    say(&session, "3").await;
    assert_eq!(read(&model, 2), [SUMMARY, "3"], "its own it hands over");
    assert_eq!(second.stats().collapsed, 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_beside_each_other_are_summarised_each_on_its_own() {
    let replies = (0..16).map(|_| answer("a", 100));
    let (main, model) = agent("main", replies);
    let (by, _) = agent("by", (0..16).map(|_| answer("in short", 1)));
    let summarizing = Summarizer::new(by).budget(100).keep(0).attach(&main);
    let sessions: Vec<_> = (0..8).map(|_| main.new_session()).collect();
    for words in ["1", "2"] {
        futures::future::join_all(sessions.iter().map(|session| say(session, words))).await;
    }
    for nth in 8..16 {
        assert_eq!(read(&model, nth), [SUMMARY, "2"]);
    }
    assert_eq!(summarizing.stats().collapsed, 8);
}
