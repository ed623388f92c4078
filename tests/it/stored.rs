//! What is done with stored sessions: deciding without an agent, forking, exporting, importing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use turnwright_core::{
    CallId, Decision, Message, Part, Role, SessionId, Sources, Timestamp, ToolCall, history,
};
use turnwright_react_runtime::{
    Agent, DecideError, Session,
    gate::AskFor,
    store::{
        MemoryStore, SessionCommit, SessionStore,
        ops::{SessionOpError, decide, export, fork, import},
    },
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::Reply;

use crate::support::{agent, read};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn sources() -> Sources {
    Sources::default()
}

/// Asks about one call; keys of the calls that ran are collected.
fn asks(store: &Arc<MemoryStore>, keys: &Arc<parking_lot::Mutex<Vec<String>>>, replies: Vec<Reply>) -> Agent {
    let keys = keys.clone();
    let write = tool("write", "", move |ctx: ToolContext, args: serde_json::Value| {
        keys.lock().push(ctx.idempotency_key());
        async move { Ok::<_, ToolError>(args.to_string()) }
    });
    agent(replies)
        .sources(sources())
        .store(store.clone())
        .tool(write)
        .gate(AskFor::tools(["write"]))
        .build()
        .unwrap()
}

fn question() -> Reply {
    Reply::new().text("I ask ").call("a", "write", "{}").finish()
}

async fn suspended(store: &Arc<MemoryStore>) -> Session {
    let agent = asks(store, &Arc::default(), vec![question()]);
    let session = agent.open_session(id("s")).await.unwrap();
    let _ = read(&session, session.start("go").unwrap()).await;
    session
}

async fn finish(store: &Arc<MemoryStore>, name: &str, answer: &str) -> (Session, Vec<String>) {
    let keys = Arc::default();
    let agent = asks(store, &keys, vec![Reply::new().text(answer).finish()]);
    let session = agent.open_session(id(name)).await.unwrap();
    let ran = read(&session, session.resume().unwrap()).await;
    assert_eq!(ran.result().content, answer);
    let keys = keys.lock().clone();
    (session, keys)
}

fn allow() -> Decision {
    Decision::allow([CallId::from("a")], "bob", Timestamp::UNIX_EPOCH)
}

#[tokio::test(start_paused = true)]
async fn fault_r5_71_a_decision_of_another_process_is_taken_once() {
    let store = Arc::new(MemoryStore::new());
    let open = suspended(&store).await;
    assert_eq!(decide(&*store, &sources(), &id("s"), &allow()).await.unwrap(), []);
    let again = decide(&*store, &sources(), &id("s"), &allow()).await.unwrap_err();
    assert!(matches!(again, DecideError::Decision(_)), "{again}");
    let here = open.decide(&Decision::deny([CallId::from("a")], "ann", Timestamp::UNIX_EPOCH, None)).await;
    assert_eq!(here.unwrap_err().to_string(), "call a is decided already");
    open.refresh().await.unwrap();
    assert!(open.pending().is_empty());
    let unknown = decide(&*store, &sources(), &id("none"), &allow()).await.unwrap_err();
    assert_eq!(unknown, DecideError::NothingPending);
}

#[tokio::test(start_paused = true)]
async fn many_decisions_at_once_each_count_once() {
    let store = Arc::new(MemoryStore::new());
    let calls: Vec<_> = (0..20).map(|n| format!("c{n}")).collect();
    let reply = calls.iter().fold(Reply::new(), |reply, call| reply.call(call.as_str(), "write", "{}"));
    let agent = asks(&store, &Arc::default(), vec![reply.finish()]);
    let session = agent.open_session(id("s")).await.unwrap();
    let _ = read(&session, session.start("go").unwrap()).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let all = (0..40).map(|n| {
        let (store, taken, call) = (store.clone(), taken.clone(), CallId::from(calls[n % 20].as_str()));
        async move {
            let decision = Decision::allow([call], format!("actor {n}"), Timestamp::UNIX_EPOCH);
            tokio::task::yield_now().await;
            if decide(&*store, &sources(), &id("s"), &decision).await.is_ok() {
                taken.fetch_add(1, SeqCst);
            }
        }
    });
    futures::future::join_all(all).await;
    assert_eq!(taken.load(SeqCst), 20);
}

#[tokio::test(start_paused = true)]
async fn fault_c20_c23_a_fork_is_another_turn_with_answers_of_its_own() {
    let store = Arc::new(MemoryStore::new());
    suspended(&store).await;
    fork(&*store, &sources(), &id("s"), None, id("f")).await.unwrap();
    assert_eq!(
        fork(&*store, &sources(), &id("s"), None, id("f")).await,
        Err(SessionOpError::Exists(id("f")))
    );
    decide(&*store, &sources(), &id("s"), &allow()).await.unwrap();
    let deny = Decision::deny([CallId::from("a")], "bob", Timestamp::UNIX_EPOCH, Some("no".into()));
    decide(&*store, &sources(), &id("f"), &deny).await.unwrap();
    fork(&*store, &sources(), &id("f"), None, id("g")).await.unwrap();
    let (one, ran) = finish(&store, "s", "original").await;
    let (two, denied) = finish(&store, "f", "fork").await;
    assert_eq!((ran.len(), denied.len()), (1, 0));
    let (three, _) = finish(&store, "g", "fork of the fork").await;
    for session in [&one, &two, &three] {
        history::check(session.messages().iter().map(|m| &**m)).unwrap();
    }
    assert_ne!(one.messages().last().unwrap().text(), two.messages().last().unwrap().text());
    // The same call of two branches is two calls to whoever deduplicates.
    let store = Arc::new(MemoryStore::new());
    suspended(&store).await;
    fork(&*store, &sources(), &id("s"), None, id("f")).await.unwrap();
    decide(&*store, &sources(), &id("s"), &allow()).await.unwrap();
    decide(&*store, &sources(), &id("f"), &allow()).await.unwrap();
    let ((_, a), (_, b)) = (finish(&store, "s", "x").await, finish(&store, "f", "x").await);
    assert_ne!(a, b);
}

#[tokio::test(start_paused = true)]
async fn a_fork_at_a_message_goes_on_from_there_and_splits_no_call_from_its_result() {
    let store = Arc::new(MemoryStore::new());
    suspended(&store).await;
    decide(&*store, &sources(), &id("s"), &allow()).await.unwrap();
    let (session, _) = finish(&store, "s", "done").await;
    let messages = session.messages();
    assert_eq!(messages.len(), 4);
    let split = fork(&*store, &sources(), &id("s"), Some(messages[1].id), id("f")).await.unwrap_err();
    assert!(matches!(split, SessionOpError::Splits(..)), "{split}");
    fork(&*store, &sources(), &id("s"), Some(messages[2].id), id("f")).await.unwrap();
    let agent = asks(&store, &Arc::default(), vec![Reply::new().text("otherwise").finish()]);
    let forked = agent.open_session(id("f")).await.unwrap();
    assert_eq!(forked.messages().len(), 3);
    let _ = read(&forked, forked.start("and now?").unwrap()).await;
    assert_eq!(store.load(&id("s")).await.unwrap().unwrap().messages.len(), 4, "the original is as it was");
    let missing = fork(&*store, &sources(), &id("s"), Some(sources().id()), id("h")).await.unwrap_err();
    assert!(matches!(missing, SessionOpError::NoMessage(..)), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn fault_c20_k11_what_is_exported_comes_back_and_nothing_else_does() {
    let store = Arc::new(MemoryStore::new());
    suspended(&store).await;
    let document = export(&*store, &id("s")).await.unwrap();
    let there = import(&*store, &sources(), &document, None).await.unwrap_err();
    assert_eq!(there, SessionOpError::Exists(id("s")));
    let elsewhere = Arc::new(MemoryStore::new());
    assert_eq!(import(&*elsewhere, &sources(), &document, None).await.unwrap(), id("s"));
    assert_eq!(import(&*elsewhere, &sources(), &document, Some(id("t"))).await.unwrap(), id("t"));
    for name in ["s", "t"] {
        decide(&*elsewhere, &sources(), &id(name), &allow()).await.unwrap();
        let (_, keys) = finish(&elsewhere, name, "done").await;
        assert_eq!(keys.len(), 1, "{name}");
    }
    assert_eq!(
        store.load(&id("s")).await.unwrap().unwrap().status(),
        turnwright_react_runtime::store::SessionStatus::Suspended
    );
    let import =
        async |text: String| import(&*elsewhere, &sources(), &text, Some(id("x"))).await.unwrap_err();
    assert_eq!(import(document.replacen("I ask", "I tell", 1)).await, SessionOpError::Checksum);
    let newer = document.replacen(r#""turnwright_session":1"#, r#""turnwright_session":2"#, 1);
    assert_eq!(import(newer).await, SessionOpError::Newer { found: 2, known: 1 });
    let zero = document.replacen(r#""turnwright_session":1"#, r#""turnwright_session":0"#, 1);
    let broken = [
        (zero, "turnwright_session: there never was a version 0"),
        (document.replacen(r#""messages""#, r#""massages""#, 1), "the document: unknown field `massages`"),
        (document.replacen(r#""turn":"#, r#""tern":"#, 1), "the document: unknown field `tern`"),
        (document.replacen(r#""role":"assistant""#, r#""role":"nobody""#, 1), "messages[1]: unknown variant"),
        (document.replacen(r#""session":"s""#, r#""session":"a b""#, 1), "session: invalid session id"),
        (document[..document.len() / 2].to_owned(), "the document: EOF"),
        ("{}".into(), "the document: missing field `turnwright_session`"),
    ];
    for (text, words) in broken {
        let e = import(text).await;
        assert!(matches!(e, SessionOpError::Malformed { .. }) && e.to_string().contains(words), "{e}");
    }
    // How it is laid out does not matter.
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    turnwright_react_runtime::store::ops::import(&*elsewhere, &sources(), &pretty, Some(id("p")))
        .await
        .unwrap();
    assert!(elsewhere.load(&id("x")).await.unwrap().is_none());
    let unknown = export(&*store, &id("none")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no session none");
}

/// A store may hold what no turn of ours leaves; it does not spread.
#[tokio::test]
async fn a_history_with_an_open_call_and_no_turn_is_neither_forked_nor_imported() {
    let store = MemoryStore::new();
    let call = Part::ToolCall(ToolCall::new("a", "write", "{}"));
    let messages = vec![Arc::new(Message::new(sources().id(), Role::Assistant, vec![call]))];
    let commit = SessionCommit { messages, ..SessionCommit::new(id("s"), sources().id(), 0) };
    store.commit(commit).await.unwrap();
    let forked = fork(&store, &sources(), &id("s"), None, id("f")).await.unwrap_err();
    assert!(matches!(forked, SessionOpError::Illegal(_)), "{forked}");
    let document = export(&store, &id("s")).await.unwrap();
    let imported = import(&store, &sources(), &document, Some(id("f"))).await.unwrap_err();
    assert!(matches!(imported, SessionOpError::Illegal(_)), "{imported}");
    assert_eq!(store.len(), 1);
}
