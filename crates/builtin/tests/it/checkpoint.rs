//! What a turn had come to after each iteration.

use std::sync::Arc;

use turnwright_builtin::{Checkpoint, CheckpointStore, IterationCheckpoint, MemoryCheckpoints};
use turnwright_core::{BoxFuture, SessionId, TurnId, history};
use turnwright_testkit::Reply;

use crate::support::{agent, ask, calls, same};

fn script() -> Vec<Reply> {
    vec![calls("look", "{}"), calls("look", "{}"), Reply::new().text("done").finish()]
}

#[tokio::test(start_paused = true)]
async fn each_iteration_leaves_one_with_a_legal_history_and_the_oldest_go_first() {
    let store = Arc::new(MemoryCheckpoints::new(4));
    let builder = agent(script().into_iter().chain(script())).tool(same("look"));
    let session = builder.hook(Checkpoint::new(store.clone())).build().unwrap().new_session();
    let mut turns = Vec::new();
    for _ in 0..2 {
        let mut handle = session.start("hi").unwrap();
        turns.push(handle.turn());
        handle.result().await.unwrap();
    }
    let of = async |turn| store.list(session.id(), turn).await.unwrap();
    let last = of(turns[1]).await;
    assert_eq!(last.iter().map(|one| one.iteration).collect::<Vec<_>>(), [1, 2, 3]);
    for one in &last {
        history::check(one.messages.iter().map(|m| &**m)).unwrap();
    }
    assert!(last[0].messages.len() < last[2].messages.len());
    assert_eq!(of(turns[0]).await.len(), 1, "four are kept");
    let forget = async |id: &SessionId| store.forget(id).await.unwrap();
    forget(&SessionId::new("other").unwrap()).await;
    assert_eq!(of(turns[1]).await.len(), 3, "those of others stay");
    forget(session.id()).await;
    assert_eq!((of(turns[0]).await.len(), of(turns[1]).await.len()), (0, 0));
}

struct Broken;

impl CheckpointStore for Broken {
    fn keep(&self, _: IterationCheckpoint) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Err("disk full".into())))
    }
    fn list<'a>(
        &'a self,
        _: &'a SessionId,
        _: TurnId,
    ) -> BoxFuture<'a, Result<Vec<IterationCheckpoint>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    fn forget<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_no_turn() {
    let builder = agent(script()).tool(same("look")).hook(Checkpoint::new(Arc::new(Broken)));
    assert_eq!(ask(&builder.build().unwrap().new_session()).await.content, "done");
}
