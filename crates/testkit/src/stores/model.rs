//! Random operations on a store, and on the one in memory beside it: both must say the same.

use std::time::Duration;

use turnwright_core::{RandomSource, SessionId, clock::SeededRandom};
use turnwright_react_runtime::store::{
    Fence, JournalAppend, JournalRecord, LeaseChange, MemoryStore, SessionQuery, SessionStore, StoreError,
    StoredSession,
};

use super::{
    Broken, same,
    session::{Desk, acquire, session},
};

const LONG: Duration = Duration::from_secs(600);

/// What both must agree on: fences are compared by how many there were.
fn seen(stored: Option<StoredSession>) -> Option<(Vec<String>, usize, u64, bool)> {
    let stored = stored?;
    let texts = stored.messages.iter().map(|m| m.text()).collect();
    Some((texts, stored.journal.len(), stored.revision, stored.lease.is_some()))
}

fn kind<T>(done: &Result<T, StoreError>) -> String {
    match done {
        Ok(_) => "ok".into(),
        Err(e) => format!("{e:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
    }
}

pub(super) async fn random_operations(store: &dyn SessionStore, seed: u64) -> Result<(), Broken> {
    let (random, memory) = (SeededRandom::new(seed), MemoryStore::new());
    let pick = |n: u64| random.next_u64() % n;
    let desks = [Desk::new(store), Desk::new(&memory)];
    // The last fence each store gave for each session: the same moments, whatever the numbers.
    let mut fences = [[Fence(0); 2]; 3];
    for step in 0..200 {
        let which = pick(3);
        let id: SessionId = session(&format!("m{which}"));
        let (base, what, holder) = (pick(12), pick(10), ["a", "b"][usize::from(pick(2) == 0)]);
        let known = &mut fences[usize::try_from(which).unwrap_or_default()];
        let mut said = Vec::new();
        for (desk, fence) in desks.iter().zip(known.iter_mut()) {
            let found = desk.store.load(&id).await.ok().flatten().map_or(0, |s| s.revision);
            // Mostly the right revision, so that something happens.
            let base = if base < 10 { found } else { base };
            said.push(match what {
                0..=5 => {
                    let lease = match what {
                        0 => LeaseChange::None,
                        1 | 2 => acquire(holder, LONG),
                        _ => LeaseChange::Keep(*fence),
                    };
                    let done = desk.store.commit(desk.change(&id, base, &format!("{step}"), lease)).await;
                    if let Ok(done) = &done
                        && let Some(new) = done.fence
                    {
                        *fence = new;
                    }
                    kind(&done)
                }
                6 | 7 => {
                    let records = vec![JournalRecord::Shown {
                        answer: 1,
                        text: format!("{step}"),
                        reasoning: String::new(),
                    }];
                    let note = JournalAppend { session: id.clone(), base, fence: *fence, records };
                    kind(&desk.store.append(note).await)
                }
                8 => kind(&desk.store.release(&id, *fence, Vec::new()).await),
                _ => kind(&desk.store.delete(&id).await),
            });
        }
        same!(said[0], said[1], format!("seed {seed}, step {step}: it answers as the store in memory does"));
        let (found, wanted) = (store.load(&id).await, memory.load(&id).await);
        same!(
            seen(found.map_err(|e| e.to_string())?),
            seen(wanted.map_err(|e| e.to_string())?),
            format!("seed {seed}, step {step}: it holds what the store in memory holds")
        );
    }
    let count = |store: &dyn SessionStore| {
        let listed = store.list(SessionQuery::default());
        futures::FutureExt::now_or_never(listed).and_then(Result::ok).map(|all| all.len())
    };
    if let Some(found) = count(store) {
        same!(Some(found), count(&memory), "as many sessions are left");
    }
    Ok(())
}
