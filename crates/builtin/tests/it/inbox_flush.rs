//! Mail that reaches turns: shown once, lost never.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use turnwright_builtin::InboxFlush;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, CallId, CancelCause, SessionId};
use turnwright_react_runtime::{
    Agent, Session,
    mailbox::{Mail, MailKind, Mailbox, MemoryMailbox},
    store::{
        Committed, Fence, JournalAppend, MemoryStore, RecordedEvent, SessionCommit, SessionQuery,
        SessionStore, SessionSummary, StoreError, StoredEvent, StoredSession,
    },
    tool::tool,
};
use turnwright_testkit::{Reply, virtual_sources};

use crate::support::{agent, reminders};

fn mailbox() -> Arc<MemoryMailbox> {
    Arc::new(MemoryMailbox::with_sources(virtual_sources(1)))
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

async fn post(mailbox: &dyn Mailbox, name: &str, kind: MailKind, answers: Option<CallId>) {
    let text = format!("words of {name}");
    let mail = Mail { id: name.into(), to: id(), from: "ann".into(), kind, text, answers };
    mailbox.post(mail).await.unwrap();
}

async fn message(mailbox: &dyn Mailbox, name: &str) {
    post(mailbox, name, MailKind::AgentMessage, None).await;
}

/// Whether nobody has it, and whether it waits at all.
async fn waits(mailbox: &dyn Mailbox, name: &str) -> (bool, bool) {
    let free = mailbox.claim(&id(), &[MailKind::AgentMessage], 1, Duration::ZERO).await.unwrap();
    (!free.is_empty(), mailbox.find(&id(), name).await.unwrap().is_some())
}

fn flushed(mailbox: &Arc<MemoryMailbox>, replies: impl IntoIterator<Item = Reply>) -> Agent {
    agent(replies)
        .tool(tool("look", "", async |_ctx, (): ()| Ok("seen: m")))
        .hook(InboxFlush::new(mailbox.clone()))
        .build()
        .unwrap()
}

fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

async fn turn(session: &Session) {
    session.start("hi").unwrap().result().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mail_is_shown_once_and_acknowledged() {
    let mailbox = mailbox();
    message(&*mailbox, "m").await;
    let session = flushed(&mailbox, [says("a"), says("b")]).open_session(id()).await.unwrap();
    turn(&session).await;
    turn(&session).await;
    let shown = reminders(&session);
    assert_eq!(shown.len(), 1);
    assert!(shown[0].contains("Mail of kind agent_message from ann:\n\nwords of m"), "{}", shown[0]);
    assert_eq!(waits(&*mailbox, "m").await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn a_flush_takes_ten_and_later_iterations_the_rest() {
    let mailbox = mailbox();
    for n in 0..25 {
        message(&*mailbox, &format!("{n}")).await;
    }
    let replies = [Reply::new().call("a", "look", "{}").finish(), says("b")];
    let session = flushed(&mailbox, replies).open_session(id()).await.unwrap();
    turn(&session).await;
    let messages = session.messages();
    let answered = messages.iter().position(|m| m.tool_calls().next().is_some()).unwrap();
    let before = messages[..answered].iter().filter(|m| turnwright_builtin::is_reminder(m)).count();
    assert_eq!((before, reminders(&session).len()), (20, 25), "ten at each of its two points");
}

#[tokio::test(start_paused = true)]
async fn what_wants_a_turn_of_its_own_is_left_alone() {
    let mailbox = mailbox();
    post(&*mailbox, "m", MailKind::ExternalInput, None).await;
    let session = flushed(&mailbox, [says("a")]).open_session(id()).await.unwrap();
    turn(&session).await;
    assert_eq!(reminders(&session).len(), 0);
    let left = mailbox.claim(&id(), &[MailKind::ExternalInput], 1, Duration::ZERO).await.unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn mail_that_comes_again_is_not_written_again() {
    let mailbox = mailbox();
    message(&*mailbox, "m").await;
    let session = flushed(&mailbox, [says("a"), says("b")]).open_session(id()).await.unwrap();
    turn(&session).await;
    // As after a crash between the store's commit and the acknowledgement.
    mailbox.forget(&id()).await.unwrap();
    message(&*mailbox, "m").await;
    turn(&session).await;
    assert_eq!((reminders(&session).len(), waits(&*mailbox, "m").await), (1, (false, false)));
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_the_result_of_a_call_is_not_written_again() {
    let mailbox = mailbox();
    let replies = [Reply::new().call("a", "look", "{}").finish(), says("b"), says("c")];
    let session = flushed(&mailbox, replies).open_session(id()).await.unwrap();
    turn(&session).await;
    post(&*mailbox, "m", MailKind::AgentResult, Some("a".into())).await;
    post(&*mailbox, "other", MailKind::AgentResult, Some("a".into())).await;
    turn(&session).await;
    let shown = reminders(&session);
    assert_eq!(shown.len(), 1, "the result of the call names m and not the other one");
    assert!(shown[0].contains("words of other"));
    assert_eq!(waits(&*mailbox, "m").await, (false, false));
}

/// A turn that is cut after so many polls, and the next one: whatever happened, the mail is shown once in the end.
#[tokio::test(start_paused = true)]
async fn a_cut_anywhere_neither_loses_mail_nor_shows_it_twice() {
    for (cut, interrupts) in (0..60).flat_map(|n| [(n, true), (n, false)]) {
        let mailbox = mailbox();
        message(&*mailbox, "m").await;
        let replies = [Reply::new().call("a", "look", "{}").finish(), says("b"), says("c"), says("d")];
        let agent = flushed(&mailbox, replies);
        let session = agent.open_session(id()).await.unwrap();
        let mut handle = session.start("hi").unwrap();
        for _ in 0..cut {
            tokio::task::yield_now().await;
        }
        let cause = CancelCause::requested("test");
        let _ = if interrupts { handle.interrupt(cause) } else { handle.cancel(cause) };
        handle.result().await.unwrap();
        tokio::time::advance(Duration::from_secs(61)).await;
        turn(&session).await;
        assert_eq!(
            (reminders(&session).len(), waits(&*mailbox, "m").await),
            (1, (false, false)),
            "cut {cut}, {interrupts}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn mail_that_could_not_be_stored_is_given_back() {
    for works in 1..3 {
        let mailbox = mailbox();
        message(&*mailbox, "m").await;
        let store = Arc::new(Failing { inner: MemoryStore::new(), works: AtomicUsize::new(works) });
        let agent =
            agent([says("a")]).hook(InboxFlush::new(mailbox.clone())).store(store.clone()).build().unwrap();
        let session = agent.open_session(id()).await.unwrap();
        let result = session.start("hi").unwrap().result().await.unwrap();
        assert!(result.error.is_some());
        // With the second commit the reminder is stored; then the end of the turn is not, which is no matter of mail.
        let expected = if works == 1 { (true, true) } else { (false, false) };
        assert_eq!(waits(&*mailbox, "m").await, expected, "{works} commits work");
    }
}

/// Takes so many commits, and then no more.
struct Failing {
    inner: MemoryStore,
    works: AtomicUsize,
}

impl SessionStore for Failing {
    fn load<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<StoredSession>, StoreError>> {
        self.inner.load(session)
    }
    fn commit(&self, change: SessionCommit) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let took = self.works.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match took {
            Ok(_) => self.inner.commit(change),
            Err(_) => Box::pin(async { Err(StoreError::Backend("full".into())) }),
        }
    }
    fn append(&self, records: JournalAppend) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.append(records)
    }
    fn renew<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.renew(session, fence, ttl)
    }
    fn release<'a>(
        &'a self,
        session: &'a SessionId,
        fence: Fence,
        events: Vec<RecordedEvent>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(session, fence, events)
    }
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(session)
    }
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.inner.list(query)
    }
    fn events<'a>(
        &'a self,
        session: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.inner.events(session, after, limit)
    }
    fn watch(&self, session: &SessionId) -> Wakeup {
        self.inner.watch(session)
    }
}
