//! Commands in the file: what becomes of them when the file, or whoever took them, is not there.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use turnwright_control::{
    CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate,
};
use turnwright_core::{Part, SessionId, Sources};
use turnwright_store::{SqliteChannel, SqliteOptions, SqliteStore};

const STEER: [CommandType; 1] = [CommandType::InjectSteer];

fn scope() -> ControlScope {
    ControlScope::session(SessionId::new("s").unwrap())
}

fn steer() -> ControlCommand {
    let body = CommandBody::InjectSteer { parts: vec![Part::text("left")] };
    ControlCommand::new(&Sources::default(), scope(), "ann", body)
}

fn hasty(path: &Path) -> SqliteStore {
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::default() };
    SqliteStore::open_with(path, options, Sources::default()).unwrap()
}

async fn taken(channel: &SqliteChannel) -> Delivery {
    let _listening = channel.wakeup(&scope().session);
    let mut taken = None;
    soon("something can be taken", async || {
        taken = channel.take(&scope(), &STEER).pop();
        taken.is_some()
    })
    .await;
    taken.unwrap()
}

async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(is_so().await, "{what}");
}

/// Another process hears of it however long the file was locked.
#[tokio::test]
async fn a_fate_that_cannot_be_stored_is_stored_later() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s.db");
    let (here, elsewhere) = (hasty(&path), hasty(&path));
    let (channel, sender) = (here.channel(), elsewhere.channel());
    let receipt = sender.send(steer()).await.unwrap();
    let delivery = taken(&channel).await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    delivery.settle(Fate::Applied);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(receipt.try_fate(), None);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), receipt.fate()).await.unwrap(), Fate::Applied);
}

#[tokio::test]
async fn what_a_channel_took_over_waits_for_the_next_one_and_a_fate_outlives_the_channel() {
    let directory = TempDir::new().unwrap();
    let store = hasty(&directory.path().join("s.db"));
    let channel = store.channel();
    let listening = channel.wakeup(&scope().session);
    let (first, second) = (steer(), steer());
    for command in [&first, &second] {
        channel.send(command.clone()).await.unwrap();
    }
    soon("both are claimed", async || channel.queued(&scope().session).len() == 2).await;
    let mut delivered = channel.take(&scope(), &STEER).into_iter();
    let delivery = delivered.next().unwrap();
    // The other one goes back: its delivery is dropped after the channel.
    drop((channel, listening));
    delivery.settle(Fate::Applied);
    drop(delivered);
    store.flush().await.unwrap();
    let rows = store.channel().audit(&scope().session, 10).await.unwrap();
    let fates: Vec<_> = rows.into_iter().map(|row| row.settled.unwrap().0).collect();
    assert!(matches!(&fates[..], [Fate::Applied, Fate::Returned { .. }]), "{fates:?}");
    // Claimed, and never taken.
    let channel = store.channel();
    let listening = channel.wakeup(&scope().session);
    channel.send(steer()).await.unwrap();
    soon("it is claimed", async || channel.queued(&scope().session).len() == 1).await;
    drop((channel, listening));
    let channel = store.channel();
    taken(&channel).await.settle(Fate::Applied);
    drop(channel);
    store.close().await.unwrap();
}

/// A sender that goes away leaves nothing behind.
#[tokio::test]
async fn a_send_that_is_dropped_leaves_no_receipt_open() {
    let directory = TempDir::new().unwrap();
    let store = hasty(&directory.path().join("s.db"));
    let channel: Arc<SqliteChannel> = store.channel();
    for _ in 0..50 {
        let send = channel.send(steer());
        let _ = tokio::time::timeout(Duration::ZERO, send).await;
    }
    drop(channel.send(steer()).await.unwrap());
    soon("nothing is open", async || format!("{channel:?}").contains("open: 0")).await;
}
