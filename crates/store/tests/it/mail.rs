//! Mail in a file: it outlives its process, and goes with its session.

use std::{sync::Arc, time::Duration};

use tempfile::TempDir;
use turnwright_core::{Message, SessionId, Sources};
use turnwright_react_runtime::{
    mailbox::{Mail, MailKind, Mailbox, Posted},
    store::{SessionCommit, SessionStore},
};
use turnwright_store::{Retention, SqliteOptions, SqliteStore};

const LONG: Duration = Duration::from_secs(600);

fn mail(to: &SessionId) -> Mail {
    let (id, from, text) = ("m".into(), "a".into(), "words".into());
    Mail { id, to: to.clone(), from, kind: MailKind::AgentMessage, text, answers: None }
}

async fn said(store: &SqliteStore, session: &SessionId) {
    let sources = Sources::default();
    let messages = vec![Arc::new(Message::user(sources.id(), "hi"))];
    let change = SessionCommit { messages, ..SessionCommit::new(session.clone(), sources.id(), 0) };
    store.commit(change).await.unwrap();
}

#[tokio::test]
async fn mail_and_what_was_acknowledged_outlive_the_process_and_its_claims_do_not() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    let to = SessionId::new("s").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    store.mailbox().post(mail(&to)).await.unwrap();
    let claimed = store.mailbox().claim(&to, &MailKind::FOLDED, 10, LONG).await.unwrap();
    assert_eq!(claimed.len(), 1);
    store.close().await.unwrap();

    let store = SqliteStore::open(&path).unwrap();
    let again = store.mailbox().claim(&to, &MailKind::FOLDED, 10, LONG).await.unwrap();
    assert_eq!((again.len(), again[0].times), (1, 2), "nobody who is gone keeps mail from others");
    assert_eq!(store.mailbox().acknowledge(&[again[0].claim.clone()]).await.unwrap(), 1);
    store.close().await.unwrap();

    let store = SqliteStore::open(&path).unwrap();
    assert!(store.mailbox().claim(&to, &MailKind::FOLDED, 10, LONG).await.unwrap().is_empty());
    assert_eq!(store.mailbox().post(mail(&to)).await.unwrap(), Posted::Duplicate);
}

#[tokio::test]
async fn mail_goes_with_its_session() {
    let directory = TempDir::new().unwrap();
    let retention = Retention { idle_sessions: Some(Duration::ZERO), ..Retention::default() };
    let options = SqliteOptions { retention, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(directory.path().join("s.db"), options, Sources::default()).unwrap();
    let (deleted, swept, new) = ("deleted", "swept", "new");
    let [deleted, swept, new] = [deleted, swept, new].map(|id| SessionId::new(id).unwrap());
    for session in [&deleted, &swept] {
        said(&store, session).await;
    }
    for session in [&deleted, &swept, &new] {
        store.mailbox().post(mail(session)).await.unwrap();
    }
    store.delete(&deleted).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(store.sweep().await.unwrap().sessions, 1);
    for session in [&deleted, &swept] {
        assert_eq!(store.mailbox().post(mail(session)).await.unwrap(), Posted::New, "{session}");
    }
    let first = store.mailbox().find(&new, "m").await.unwrap();
    assert_eq!(first, Some(mail(&new)), "mail of a session that is not stored yet stays");
}
