//! The rules of observers, without a turn.

use std::{num::NonZeroUsize, sync::Arc};

use parking_lot::Mutex;

use super::*;

#[derive(Debug, PartialEq)]
struct Event(char, u32);
impl Observed for Event {
    type Name = char;
    fn name(&self) -> char {
        self.0
    }
}

fn event(name: char, n: u32) -> Arc<Event> {
    Arc::new(Event(name, n))
}

/// Observers, and what they wrote down.
#[derive(Default, Clone)]
struct Diary {
    observers: Observers<Event>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Diary {
    fn writes(&self, who: &'static str) -> impl Fn(&Arc<Event>) + Send + Sync + use<> {
        let lines = self.lines.clone();
        move |event| lines.lock().push(format!("{who}:{}{}", event.0, event.1))
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }
}

#[test]
fn those_of_the_kind_are_told_first_then_those_of_all_each_in_the_order_they_were_added() {
    let diary = Diary::default();
    diary.observers.on_all(diary.writes("all 1"));
    diary.observers.on('a', diary.writes("a 1"));
    diary.observers.on('b', diary.writes("b"));
    diary.observers.on('a', diary.writes("a 2"));
    diary.observers.on_all(diary.writes("all 2"));
    diary.observers.tell(&event('a', 7));
    assert_eq!(diary.take(), ["a 1:a7", "a 2:a7", "all 1:a7", "all 2:a7"]);
}

/// middleware-hooks §7.3 row 1.
#[test]
fn one_that_fails_or_panics_harms_nobody_and_is_counted() {
    let diary = Diary::default();
    let fails = diary.observers.on('a', |_: &Arc<Event>| Err::<(), _>("no"));
    let panics = diary.observers.on('a', |_: &Arc<Event>| -> () { panic!("boom") });
    let well = diary.observers.on('a', diary.writes("well"));
    for n in 0..2 {
        diary.observers.tell(&event('a', n));
    }
    assert_eq!(diary.take(), ["well:a0", "well:a1"]);
    for (which, failed) in [(fails, 2), (panics, 2), (well, 0)] {
        assert_eq!(which.stats(), ObserverStats { told: 2, failed });
    }
}

/// middleware-hooks §7.3 row 1.
#[test]
fn removing_twice_removes_one_of_two_that_are_equal() {
    let diary = Diary::default();
    let same = |event: &Arc<Event>| drop(event.clone());
    let (first, second) = (diary.observers.on_all(same), diary.observers.on_all(same));
    first.remove();
    first.remove();
    diary.observers.tell(&event('a', 0));
    assert_eq!((first.stats().told, second.stats().told), (0, 1));
}

/// middleware-hooks §7.3 row 1.
#[test]
fn one_that_removes_itself_hears_the_event_out_and_the_others_too() {
    let diary = Diary::default();
    let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let (slot, writes) = (own.clone(), diary.writes("once"));
    *own.lock() = Some(diary.observers.on('a', move |event: &Arc<Event>| {
        slot.lock().take().unwrap().remove();
        writes(event);
    }));
    diary.observers.on('a', diary.writes("stays"));
    for n in 0..2 {
        diary.observers.tell(&event('a', n));
    }
    assert_eq!(diary.take(), ["once:a0", "stays:a0", "stays:a1"]);
}

#[test]
fn one_that_was_removed_by_another_is_not_called_for_the_event_that_is_being_told() {
    let diary = Diary::default();
    let later: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let victim = later.clone();
    diary.observers.on('a', move |_: &Arc<Event>| victim.lock().as_ref().unwrap().remove());
    *later.lock() = Some(diary.observers.on('a', diary.writes("victim")));
    diary.observers.tell(&event('a', 0));
    assert!(diary.take().is_empty());
}

/// middleware-hooks §7.3 row 1.
#[test]
fn one_that_is_added_while_an_event_is_told_hears_the_next_one() {
    let diary = Diary::default();
    let (inner, has_added) = (diary.clone(), AtomicBool::new(false));
    diary.observers.on('a', move |_: &Arc<Event>| {
        if !has_added.swap(true, SeqCst) {
            inner.observers.on_all(inner.writes("late"));
        }
    });
    for n in 0..2 {
        diary.observers.tell(&event('a', n));
    }
    assert_eq!(diary.take(), ["late:a1"]);
}

#[test]
fn a_guard_removes_also_on_panic_and_removed_ones_are_dropped() {
    let diary = Diary::default();
    let held = Arc::new(());
    let inside = held.clone();
    let guard = diary.observers.on_all(move |_: &Arc<Event>| drop(inside.clone())).into_guard();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard;
        panic!("boom");
    }));
    assert!(panicked.is_err() && !diary.observers.is_heard());
    assert_eq!(Arc::strong_count(&held), 1, "nothing is kept of it");
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_flush_waits_for_what_was_queued() {
    let diary = Diary::default();
    let lines = diary.lines.clone();
    let (queued, worker) = diary.observers.queued(None, TWO, move |event| {
        let lines = lines.clone();
        async move {
            tokio::task::yield_now().await;
            assert_ne!(event.1, 1, "boom");
            lines.lock().push(event.1.to_string());
        }
    });
    for n in 0..4 {
        diary.observers.tell(&event('a', n));
    }
    assert_eq!(queued.stats(), QueueStats { queued: 2, handled: 0, failed: 0, dropped: 2 });
    let worker = tokio::spawn(worker);
    queued.flush().await.unwrap();
    assert_eq!(diary.take(), ["0"], "one that panics is no end of the worker");
    diary.observers.tell(&event('a', 4));
    queued.remove();
    worker.await.unwrap();
    assert_eq!(diary.take(), ["4"], "what waits is handled before the worker ends");
    assert_eq!(queued.stats(), QueueStats { queued: 3, handled: 3, failed: 1, dropped: 2 });
}

#[tokio::test]
async fn a_worker_that_is_dropped_is_known_to_flush_and_drops_are_counted_from_then_on() {
    let diary = Diary::default();
    let (queued, worker) = diary.observers.queued(Some('a'), TWO, |_| std::future::pending::<()>());
    diary.observers.tell(&event('b', 0));
    diary.observers.tell(&event('a', 0));
    let worker = tokio::spawn(worker);
    tokio::task::yield_now().await;
    worker.abort();
    assert_eq!(queued.flush().await, Err(QueueGone { left: 1 }));
    diary.observers.tell(&event('a', 1));
    assert_eq!(queued.stats(), QueueStats { queued: 1, handled: 0, failed: 0, dropped: 1 });
}

#[tokio::test]
async fn a_worker_ends_with_the_observers() {
    let diary = Diary::default();
    let (_queued, worker) = diary.observers.queued(None, TWO, |_| async {});
    drop(diary);
    worker.await;
}
