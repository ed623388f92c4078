//! What another process does to a session meanwhile, and what one that went away leaves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use turnwright_control::{
    CommandBody, ControlChannel, ControlCommand, ControlScope, Fate, InMemoryControlChannel,
};
use turnwright_core::{
    BoxFuture, CallId, CancelCause, Decision, ErrorKind, Part, Remember, SessionId, Sources, Timestamp,
};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_react_runtime::{
    Session, StartError,
    gate::AskFor,
    store::{Committed, MemoryStore, SessionCommit, SessionStore, StoreError, StoredSession},
    tool::{Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent, agent_of, read, rest_of_store};

const MS: Duration = Duration::from_millis(1);
/// Longer than any lease here.
const LATER: Duration = Duration::from_secs(7000);

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// A process: it goes away with its runtime.
fn process() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A tool that counts its runs, and answers with a long text or never.
fn acts(name: &str, ran: &Arc<AtomicUsize>, hangs: bool) -> impl Tool + use<> {
    let ran = ran.clone();
    tool(name, "", move |_: ToolContext, _: Value| {
        let ran = ran.clone();
        async move {
            ran.fetch_add(1, SeqCst);
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok::<_, ToolError>("x".repeat(100_000))
        }
    })
}

fn writer(
    replies: Vec<Reply>,
    store: &Arc<MemoryStore>,
    ran: &Arc<AtomicUsize>,
) -> turnwright_react_runtime::AgentBuilder {
    agent_of(&ScriptedModel::new(replies))
        .store(store.clone())
        .lease(MS)
        .tool(acts("write", ran, false))
        .tool(acts("hang", ran, true))
        .gate(AskFor::tools(["write"]))
}

/// A process goes away in a batch: a rule lets `write` run, and its second call is done; `hang` is under way.
fn went_away(store: &Arc<MemoryStore>, ran: &Arc<AtomicUsize>) {
    let dying = process();
    dying.block_on(async {
        let replies = vec![
            Reply::new().call("w0", "write", "{}").finish(),
            Reply::new().call("w", "write", "{}").call("h", "hang", "{}").finish(),
        ];
        let session = writer(replies, store, ran).build().unwrap().open_session(id()).await.unwrap();
        let _ = read(&session, session.start("go").unwrap()).await;
        let allow =
            Decision::allow([CallId::from("w0")], "ann", Timestamp::UNIX_EPOCH).remember(Remember::Session);
        session.decide(&allow).await.unwrap();
        session.resume().unwrap().detach();
        while ran.load(SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_rule_that_is_revoked_beside_an_interrupted_turn_leaves_its_journal() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    went_away(&store, &ran);
    process().block_on(async {
        tokio::time::advance(LATER).await;
        let before = store.load(&id()).await.unwrap().unwrap();
        assert!(!before.journal.is_empty() && before.rules.len() == 1);
        let session = writer(vec![], &store, &ran).build().unwrap().open_session(id()).await.unwrap();
        session.revoke(|_| true).await.unwrap();
        let after = store.load(&id()).await.unwrap().unwrap();
        assert_eq!((after.journal, after.rules), (before.journal, vec![]));
        drop(session);
        let next = writer(vec![Reply::new().text("ok").finish()], &store, &ran).build().unwrap();
        let session = next.open_session(id()).await.unwrap();
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!((ran.load(SeqCst), last.result().content.as_str()), (3, "ok"), "nothing ran twice");
    });
}

/// Makes asterisks of what results say.
struct Redact;

impl Around<scope::ToolCall> for Redact {
    async fn around(
        &self,
        _: &turnwright_core::TurnContext,
        call: turnwright_core::ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<turnwright_core::ToolResult, Exit> {
        let result = next.run(call).await?;
        let redacted = result.content.replace('x', "*");
        Ok(result.with_content(redacted))
    }
}

#[test]
fn a_result_that_was_found_in_the_journal_passes_the_layers_and_the_limit() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    went_away(&store, &ran);
    process().block_on(async {
        tokio::time::advance(LATER).await;
        let replies = vec![Reply::new().text("ok").finish()];
        let agent = writer(replies, &store, &ran).interceptor(interceptor!(Redact)).build().unwrap();
        let session = agent.open_session(id()).await.unwrap();
        let last = read(&session, session.resume().unwrap()).await;
        let results: Vec<_> = last.messages.iter().flat_map(|m| m.tool_results()).collect();
        assert_eq!(results[1].call_id(), &CallId::from("w"));
        assert!(results[1].content.starts_with("***") && results[1].content.len() < 60_000);
        assert!(results[1].synthetic.is_none() && ran.load(SeqCst) == 3, "and the call did not run again");
        let told = last.kinds().filter(|kind| {
            matches!(kind, turnwright_react_runtime::TurnEventKind::ToolResult(r) if r.call_id() == results[1].call_id())
        });
        assert_eq!(told.count(), 1);
    });
}

#[test]
fn a_turn_that_is_cancelled_before_it_goes_on_keeps_the_results_of_its_journal() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    went_away(&store, &ran);
    process().block_on(async {
        tokio::time::advance(LATER).await;
        let session = writer(vec![], &store, &ran).build().unwrap().open_session(id()).await.unwrap();
        let last = read(&session, session.cancel_parked(CancelCause::requested("ann")).unwrap()).await;
        let results: Vec<_> = last.messages.iter().flat_map(|m| m.tool_results()).collect();
        assert!(
            results[1].synthetic.is_none() && results[1].content.len() < 60_000,
            "{:?}",
            results[1].synthetic
        );
        assert!(results[2].synthetic.is_some());
    });
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_runs_elsewhere_cannot_be_cancelled_as_one_at_rest_and_nothing_changes() {
    let store = Arc::new(MemoryStore::new());
    let slow = Reply::new().text("slow").wait(MS * 90_000).text("ly").finish();
    let mine = agent([slow]).store(store.clone()).build().unwrap();
    let theirs = agent([Reply::new().text("no").finish()]).store(store.clone()).build().unwrap();
    let mut running = mine.open_session(id()).await.unwrap().start("go").unwrap();
    tokio::time::sleep(MS * 40_000).await;
    let same = theirs.open_session(id()).await.unwrap();
    let before = (same.messages().len(), same.is_interrupted());
    let refused = read(&same, same.cancel_parked(CancelCause::requested("me")).unwrap()).await;
    assert_eq!(refused.result().error.as_ref().map(|e| e.kind), Some(ErrorKind::SessionHeld));
    assert_eq!((same.messages().len(), same.is_interrupted()), before);
    assert!(matches!(same.start("next").map(drop), Err(StartError::Parked)), "the turn is not lost");
    assert_eq!(running.result().await.unwrap().content, "slowly");
}

async fn refused(session: &Session) -> Option<ErrorKind> {
    session.resume().unwrap().result().await.unwrap().error.map(|e| e.kind)
}

/// Another process goes on after this one has read its session, and dies.
fn read_in_the_middle(again: bool) -> usize {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
    let build = |replies: Vec<Reply>| {
        let look = tool("look", "", |_: ToolContext, _: Value| async {
            tokio::time::sleep(MS * 1_000).await;
            Ok::<_, ToolError>("")
        });
        let model = ScriptedModel::new(replies);
        let agent = agent_of(&model).store(store.clone()).lease(MS * 30_000).tool(look);
        agent.tool(acts("pay", &ran, false)).tool(acts("wait", &Arc::default(), true)).build().unwrap()
    };
    let theirs = process();
    let calls = Reply::new().call("l", "look", "{}").call("p", "pay", "{}").call("w", "wait", "{}").finish();
    let (ours, other) = (build(vec![Reply::new().text("ok").finish()]), build(vec![calls]));
    theirs.block_on(async {
        other.open_session(id()).await.unwrap().start("go").unwrap().detach();
        tokio::time::sleep(MS * 500).await;
    });
    let session = process().block_on(async {
        let session = ours.open_session(id()).await.unwrap();
        assert_eq!(refused(&session).await, Some(ErrorKind::SessionHeld));
        session
    });
    theirs.block_on(async { tokio::time::sleep(MS * 2_000).await });
    assert_eq!(ran.load(SeqCst), 1);
    drop(theirs);
    process().block_on(async {
        tokio::time::advance(LATER).await;
        let session = match again {
            true => ours.open_session(id()).await.unwrap(),
            false => session,
        };
        if !again {
            assert_eq!(refused(&session).await, Some(ErrorKind::Conflict));
            session.refresh().await.unwrap();
        }
        let last = read(&session, session.resume().unwrap()).await;
        assert_eq!(last.result().content, "ok");
        ran.load(SeqCst)
    })
}

#[test]
fn a_journal_that_went_on_after_it_was_read_runs_nothing_twice() {
    assert_eq!(read_in_the_middle(false), 1, "paid once");
}

#[test]
fn a_journal_that_went_on_is_read_again_when_the_session_is_opened() {
    assert_eq!(read_in_the_middle(true), 1, "paid once");
}

/// Some commits fail, beginning with the second.
struct FullDisk(MemoryStore, AtomicUsize);

impl SessionStore for FullDisk {
    fn load<'a>(&'a self, s: &'a SessionId) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.0.load(s)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        match self.1.fetch_add(1, SeqCst) {
            1 | 2 => Box::pin(async { Err(StoreError::Backend("disk full".into())) }),
            _ => self.0.commit(change),
        }
    }
    rest_of_store!(self => self.0);
}

#[tokio::test(start_paused = true)]
async fn the_sender_of_a_message_whose_turn_could_not_be_stored_is_told_when_it_is() {
    let store = Arc::new(FullDisk(MemoryStore::new(), AtomicUsize::new(0)));
    let channel: Arc<dyn ControlChannel> = Arc::new(InMemoryControlChannel::new(&Sources::default()));
    let one = Reply::new().text("a").wait(MS * 100).text("b").finish();
    let replies = [one, Reply::new().text("second").finish(), Reply::new().text("third").finish()];
    let agent = agent(replies).store(store.clone()).channel(channel.clone()).build().unwrap();
    let session = agent.open_session(id()).await.unwrap();
    let turn = session.start("one").unwrap();
    tokio::time::sleep(MS * 50).await;
    let body = CommandBody::InjectUserMessage { parts: vec![Part::text("follow")] };
    let command = ControlCommand::new(&Sources::default(), ControlScope::session(id()), "ann", body);
    let receipt = channel.send(command).await.unwrap();
    let ran = read(&session, turn).await;
    assert_eq!(ran.result().error.as_ref().map(|e| e.kind), Some(ErrorKind::Store));
    assert_eq!(receipt.try_fate(), None, "it is history here, and not yet in the store");
    let _ = read(&session, session.start("next").unwrap()).await;
    assert_eq!(receipt.fate().await, Fate::Applied);
    let stored = store.load(&id()).await.unwrap().unwrap();
    assert_eq!(stored.messages.iter().filter(|m| m.text() == "follow").count(), 1);
}
