//! However a subagent's turn ends, its parent is told what it was.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use turnwright_builtin::Subagents;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, CancelCause, ErrorInfo, ErrorKind, Outcome, SessionId};
use turnwright_react_runtime::{
    Session, TurnEventKind,
    machine::Limits,
    mailbox::{Delivered, Mail, MailClaim, MailError, MailKind, Mailbox, MemoryMailbox, Posted},
};
use turnwright_testkit::{Reply, ScriptedModel, check};

use super::{World, boss, head, open, reader, reader_of, results, says, task};

fn looks(id: &str) -> Reply {
    Reply::new().call(id, "look", "{}").finish()
}

#[tokio::test(start_paused = true)]
async fn every_end_is_reported_as_what_it_is() {
    let silent = Reply::new().text("so far").silence();
    let failing = || Reply::new().fail(ErrorInfo::new(ErrorKind::Refusal, "will not"));
    for (replies, status, issue) in [
        (vec![says("yes")], "completed", ""),
        (vec![says("<think>hm</think>")], "empty", "it ended without an answer"),
        (vec![failing(), failing(), failing()], "failed", "will not"),
        (vec![silent], "timed_out", "the turn's deadline passed"),
        (vec![looks("a"), looks("b")], "limit_reached", ""),
    ] {
        let world = World::new();
        let child = reader(replies)
            .limits(Limits { iterations: 2, ..Limits::default() })
            .deadline(Duration::from_secs(60));
        let (agent, _) = world.pair([task("a", ""), says("done")], child);
        let session = open(&agent).await;
        session.start("go").unwrap().result().await.unwrap();
        let result = results(&session).remove(0);
        assert_eq!(head(&result.content, "status"), status, "{}", result.content);
        assert!(head(&result.content, "issue").contains(issue), "{}", result.content);
        assert_eq!(result.is_error(), status != "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_out_of_time_drops_its_subagent_which_is_told_as_cancelled() {
    let world = World::new();
    let parent = world.parent([task("a", ""), says("done")]).tool_timeout(Duration::from_secs(30));
    let crew = world.crew().agent("", reader([Reply::new().text("so far").silence()]));
    let (agent, subagents) = crew.build(parent).unwrap();
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    assert_eq!(results(&session)[0].error.as_ref().unwrap().kind, ErrorKind::ToolTimeout);
    assert_eq!(subagents.agent("reader").unwrap().open_sessions(), 0, "it is over before the turn is");
    let texts = crate::support::reminders(&session).join("") + &world.mail().await.remove(0).text;
    assert!(texts.contains("status: cancelled\n") && texts.contains("so far"), "{texts}");
}

/// Reads a turn to its end; says whether the subagent was at work when it told its end.
async fn cut(session: &Session, subagents: &turnwright_builtin::Subagents, polls: usize) -> Outcome {
    let mut handle = session.start("go").unwrap();
    for _ in 0..polls {
        tokio::task::yield_now().await;
    }
    handle.cancel(CancelCause::requested("ann"));
    let mut last = None;
    while let Some(event) = handle.next().await {
        if matches!(event.kind, TurnEventKind::TurnFinished { .. }) {
            last = Some(subagents.agent("reader").unwrap().open_sessions());
        }
    }
    assert_eq!(last, Some(0), "no subagent is at work when its parent's turn tells its end ({polls})");
    handle.result().await.unwrap().outcome()
}

#[tokio::test(start_paused = true)]
async fn fault_m2_m3_a_cut_anywhere_ends_the_subagent_before_its_parent_and_is_told() {
    let mut told = 0;
    for (polls, text) in (0..120).flat_map(|n| [(n, "answer"), (n, "<think>nothing</think>")]) {
        let world = World::new();
        let child = reader([looks("x"), Reply::new().text(text).finish()]);
        let (agent, subagents) = world.pair([task("a", ""), says("done")], child);
        let session = open(&agent).await;
        let outcome = cut(&session, &subagents, polls).await;
        let calls = results(&session);
        for id in world.sessions().await {
            let child = subagents.agent("reader").unwrap().open_session(id).await.unwrap();
            check::history(&child.messages()).unwrap();
            assert!(!child.is_parked() && !child.is_busy(), "{polls}");
            // It has begun: so its end is told, as the result of the call or as mail.
            let mail = world.mail().await;
            let reports = calls.iter().map(|r| &r.content).chain(mail.iter().map(|m| &m.text));
            let statuses: Vec<_> = reports.map(|r| head(r, "status")).filter(|s| !s.is_empty()).collect();
            let is_told = ["completed", "empty", "cancelled"].iter().any(|s| statuses.contains(s));
            assert!(is_told, "cut {polls}: {outcome:?} {statuses:?}");
            told += usize::from(statuses.contains(&"cancelled"));
        }
    }
    assert!(told > 5, "cancelled in the middle of its work {told} times");
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_written_is_an_issue_and_no_loss() {
    let world = World::new();
    // A file stands where the directory is to be.
    let outputs = world.outputs.path().join("file");
    std::fs::write(&outputs, "").unwrap();
    let crew = turnwright_builtin::Subagents::builder(world.store.clone(), world.mailbox.clone(), outputs);
    let crew = crew.agent("", reader([says("the answer")]));
    let (agent, _) = crew.build(world.parent([task("a", ""), says("done")])).unwrap();
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    let report = &results(&session)[0].content;
    assert!(head(report, "issue").starts_with("the output could not be written"), "{report}");
    assert_eq!((head(report, "status"), head(report, "output")), ("completed", ""));
    assert!(report.contains("the answer"));
}

#[tokio::test(start_paused = true)]
async fn subagents_are_shut_down_with_their_turns_saved() {
    let world = World::new();
    let (agent, subagents) =
        world.pair([task("a", r#","detach":true"#), says("b")], reader([Reply::new().silence()]));
    let session = open(&agent).await;
    session.start("go").unwrap().result().await.unwrap();
    let report = subagents.shutdown(Duration::from_secs(1)).await;
    assert_eq!(report["reader"].interrupted, 1);
    let report = world.mail().await.remove(0);
    assert_eq!((report.to, head(&report.text, "status")), (boss(), "cancelled"));
    let _: Vec<SessionId> = world.sessions().await;
}

/// Takes no mail, and never says so: the process goes away first.
struct Slow(Arc<MemoryMailbox>);

impl Mailbox for Slow {
    fn post(&self, _: Mail) -> BoxFuture<'_, Result<Posted, MailError>> {
        Box::pin(std::future::pending())
    }
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        kinds: &'a [MailKind],
        limit: usize,
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Delivered>, MailError>> {
        self.0.claim(session, kinds, limit, lease)
    }
    fn acknowledge<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<usize, MailError>> {
        self.0.acknowledge(claims)
    }
    fn release<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<(), MailError>> {
        self.0.release(claims)
    }
    fn find<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Mail>, MailError>> {
        self.0.find(session, id)
    }
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), MailError>> {
        self.0.forget(session)
    }
    fn watch(&self, session: &SessionId) -> Wakeup {
        self.0.watch(session)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[test]
fn fault_an_end_that_was_stored_and_not_reported_is_told_as_what_it_was() {
    let failing = || Reply::new().fail(ErrorInfo::new(ErrorKind::Refusal, "will not"));
    for (replies, status, said) in [
        (vec![says("yes")], "completed", "yes"),
        (vec![says("<think>hm</think>")], "empty", "it ended without an answer"),
        (vec![failing()], "failed", "will not"),
        (vec![looks("a"), looks("b")], "limit_reached", "2 iterations"),
    ] {
        let world = World::new();
        let calls = ScriptedModel::new([task("a", ""), says("done"), says("more")]);
        // What was asked and answered before is no answer to this.
        let child = ScriptedModel::new([says("first")].into_iter().chain(replies));
        let limits = Limits { iterations: 2, ..Limits::default() };
        let invocation = runtime().block_on(async {
            let (agent, _) = world
                .crew()
                .agent("", reader_of(&child).limits(limits))
                .build(world.process(&calls))
                .unwrap();
            let session = open(&agent).await;
            session.start("go").unwrap().result().await.unwrap();
            head(&results(&session)[0].content, "invocation").to_owned()
        });
        let calls =
            ScriptedModel::new([task("b", &format!(r#","invocation":"{invocation}""#)), says("done")]);
        let dying = runtime();
        let slow = Arc::new(Slow(world.mailbox.clone()));
        dying.block_on(async {
            let (agent, _) = Subagents::builder(world.store.clone(), slow, world.outputs.path())
                .agent("", reader_of(&child).limits(limits))
                .build(world.process(&calls))
                .unwrap();
            open(&agent).await.start("go on").unwrap().detach();
            tokio::time::sleep(Duration::from_secs(5)).await;
        });
        drop(dying);
        runtime().block_on(async {
            tokio::time::sleep(Duration::from_secs(61)).await;
            let (agent, _) = world
                .crew()
                .agent("", reader_of(&child).limits(limits))
                .build(world.process(&calls))
                .unwrap();
            let session = open(&agent).await;
            session.resume().unwrap().result().await.unwrap();
            let report = results(&session).pop().unwrap().content;
            assert_eq!(head(&report, "status"), status, "{report}");
            assert!(report.contains(said) && !report.contains("first"), "{report}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn fault_a_report_of_the_longest_words_is_mail_all_the_same() {
    let world = World::new();
    let wide = "\u{1F333}".repeat(20_000);
    let fails = Reply::new().text(&wide).fail(ErrorInfo::new(ErrorKind::Refusal, wide.clone()));
    let crew = world.crew().agent("Reads", reader([fails])).report_chars(10_000);
    let (agent, _) = crew.build(world.parent([task("a", r#","detach":true"#), says("b")])).unwrap();
    open(&agent).await.start("go").unwrap().result().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let texts = crate::support::reminders(&open(&agent).await).join("");
    let mail = world.mail().await;
    let text = mail.first().map_or(texts, |mail| mail.text.clone());
    assert_eq!(head(text.trim_start_matches("<system-reminder>\n"), "status"), "failed", "{}", text.len());
}
