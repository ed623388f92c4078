//! The event queue between a turn and its reader.
//!
//! It never stalls the turn: an unread delta grows in place under its one sequence number, and a reader that falls
//! further behind than the bounds is cut off. Nothing is kept when nobody reads.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll},
};

use turnwright_core::{SessionId, Timestamp, TurnId, panic::panic_text};

use crate::{
    event::{TurnEvent, TurnEventKind},
    sync::{AtomicWaker, Mutex},
};

/// Unread events a reader may leave behind.
pub const MAX_UNREAD_EVENTS: usize = 8_192;
/// Unread bytes of text a reader may leave behind.
pub const MAX_UNREAD_BYTES: usize = 16 << 20;

pub(crate) struct EventQueue {
    session: SessionId,
    turn: TurnId,
    inner: Mutex<Inner>,
    reader: AtomicWaker,
}

#[derive(Default)]
struct Inner {
    events: VecDeque<TurnEvent>,
    bytes: usize,
    seq: u64,
    dropped: u64,
    cut_off: bool,
    unread: bool,
    over: bool,
}

impl EventQueue {
    pub(crate) fn new(session: SessionId, turn: TurnId) -> Self {
        Self { session, turn, inner: Mutex::default(), reader: AtomicWaker::new() }
    }

    /// Adds an event. After the last one nothing is added. The reader is woken by [`EventQueue::wake`], outside of
    /// whatever lock the caller holds.
    pub(crate) fn push(&self, at: Timestamp, kind: TurnEventKind) {
        let last = matches!(kind, TurnEventKind::TurnFinished(_));
        let mut inner = self.inner.lock();
        if inner.over {
            return;
        }
        inner.over = last;
        inner.bytes += weight(&kind);
        if inner.unread && !last {
            return;
        }
        if inner.cut_off && !last {
            inner.dropped += 1;
            if let Some(TurnEvent { kind: TurnEventKind::Lagged { dropped }, .. }) = inner.events.back_mut() {
                *dropped += 1;
            }
            return;
        }
        let kind = match inner.events.back_mut() {
            Some(unread) => match grow(&mut unread.kind, kind) {
                Some(kind) => kind,
                None => return inner.bound(self, at),
            },
            None => kind,
        };
        inner.add(self, at, kind);
        if !last {
            inner.bound(self, at);
        }
    }

    /// A reader's waker that panics stops nobody but its reader.
    pub(crate) fn wake(&self) {
        let woken = catch_unwind(AssertUnwindSafe(|| self.reader.wake()));
        if let Err(panic) = woken {
            tracing::warn!("the waker of a turn's reader panicked: {}", panic_text(&*panic));
        }
    }

    /// The reader went away: nothing more is kept for it.
    pub(crate) fn detach(&self) {
        let mut inner = self.inner.lock();
        inner.unread = true;
        inner.events = VecDeque::new();
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        self.reader.register(cx.waker());
        let mut inner = self.inner.lock();
        match inner.events.pop_front() {
            Some(event) => {
                inner.bytes = inner.bytes.saturating_sub(weight(&event.kind));
                Poll::Ready(Some(event))
            }
            None if inner.over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Inner {
    fn add(&mut self, queue: &EventQueue, at: Timestamp, kind: TurnEventKind) {
        self.seq += 1;
        let (seq, session, turn) = (self.seq, queue.session.clone(), queue.turn);
        self.events.push_back(TurnEvent { seq, session, turn, at, kind });
    }

    fn bound(&mut self, queue: &EventQueue, at: Timestamp) {
        if self.events.len() <= MAX_UNREAD_EVENTS && self.bytes <= MAX_UNREAD_BYTES {
            return;
        }
        let dropped = self.events.len() as u64;
        // The numbers of what was dropped unread are given again, so that the reader sees no gap.
        self.seq -= dropped;
        self.events = VecDeque::new();
        (self.bytes, self.cut_off) = (0, true);
        self.add(queue, at, TurnEventKind::Lagged { dropped });
    }
}

/// Grows an unread delta by the next one of its kind; gives the event back where that is not possible.
fn grow(unread: &mut TurnEventKind, next: TurnEventKind) -> Option<TurnEventKind> {
    use TurnEventKind::*;
    match (unread, next) {
        (TextDelta { text }, TextDelta { text: more })
        | (ReasoningDelta { text }, ReasoningDelta { text: more }) => {
            text.push_str(&more);
            None
        }
        (ToolArgsDelta { id, fragment, .. }, ToolArgsDelta { id: same, name: None, fragment: more })
            if *id == same =>
        {
            fragment.push_str(&more);
            None
        }
        (_, next) => Some(next),
    }
}

fn weight(kind: &TurnEventKind) -> usize {
    use TurnEventKind::*;
    match kind {
        TextDelta { text } | ReasoningDelta { text } | ToolProgress { text, .. } => text.len(),
        ToolArgsDelta { fragment, .. } => fragment.len(),
        ToolCall(call) => call.arguments.len(),
        ToolResult(result) => {
            let images: usize = result.images.iter().map(|i| i.uri.len()).sum();
            result.content.len() + images + result.ran_with.as_ref().map_or(0, String::len)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use turnwright_core::Sources;

    fn queue() -> EventQueue {
        let s = Sources::default();
        EventQueue::new(s.session_id(), s.id())
    }
    fn text(s: &str) -> TurnEventKind {
        TurnEventKind::TextDelta { text: s.into() }
    }
    fn finished() -> TurnEventKind {
        let usage = turnwright_core::TokenUsage::UNKNOWN;
        let outcome = turnwright_core::LegOutcome::Drained;
        TurnEventKind::TurnFinished(Box::new(crate::event::TurnFinished::of(
            &outcome,
            String::new(),
            usage,
            0,
        )))
    }
    fn drain(q: &EventQueue) -> Vec<TurnEvent> {
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match q.poll_next(&mut cx) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn fault_r8_111_an_unread_delta_grows_under_its_one_number() {
        let q = queue();
        let at = Timestamp::UNIX_EPOCH;
        q.push(at, text("a"));
        q.push(at, text("b"));
        q.push(at, TurnEventKind::IterationFinished { iteration: 1 });
        q.push(at, text("c"));
        let events = drain(&q);
        assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(events[0].kind, text("ab"));
        q.push(at, text("d"));
        assert_eq!(drain(&q)[0].seq, 4, "what was read does not grow");
    }

    #[test]
    fn a_reader_too_far_behind_is_cut_off_and_still_gets_the_last_event() {
        let q = queue();
        let at = Timestamp::UNIX_EPOCH;
        for i in 0..20_000 {
            q.push(at, TurnEventKind::IterationFinished { iteration: i });
        }
        q.push(at, finished());
        q.push(at, text("late"));
        let events = drain(&q);
        assert_eq!(events.len(), 2);
        assert!(matches!(events[0].kind, TurnEventKind::Lagged { dropped: 20_000 }), "{:?}", events[0]);
        assert!(matches!(events[1].kind, TurnEventKind::TurnFinished(_)));
        assert_eq!((events[0].seq, events[1].seq), (1, 2));
        let big = queue();
        big.push(at, text(&"x".repeat(MAX_UNREAD_BYTES)));
        big.push(at, text("y"));
        assert!(matches!(drain(&big)[0].kind, TurnEventKind::Lagged { .. }));
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let q = queue();
        q.push(Timestamp::UNIX_EPOCH, text("a"));
        q.detach();
        q.push(Timestamp::UNIX_EPOCH, text("b"));
        assert!(drain(&q).is_empty());
    }
}

/// Every interleaving of a few threads; run by `cargo xtask model`.
#[cfg(all(test, turnwright_model))]
mod model {
    use std::{future::poll_fn, sync::Arc};

    use shuttle::{check_dfs, check_random, future::block_on, thread};
    use turnwright_core::{LegOutcome, Sources, TokenUsage};

    use super::*;
    use crate::event::TurnFinished;

    fn text(text: &str) -> TurnEventKind {
        TurnEventKind::TextDelta { text: text.into() }
    }

    fn last() -> TurnEventKind {
        let end = TurnFinished::of(&LegOutcome::Drained, String::new(), TokenUsage::UNKNOWN, 0);
        TurnEventKind::TurnFinished(Box::new(end))
    }

    fn a_writer_and_a_reader() {
        let sources = Sources::default();
        let queue = Arc::new(EventQueue::new(sources.session_id(), sources.id()));
        let writer = {
            let queue = queue.clone();
            thread::spawn(move || {
                for kind in [text("a"), text("b"), last(), text("late")] {
                    queue.push(Timestamp::UNIX_EPOCH, kind);
                    queue.wake();
                }
            })
        };
        let (mut read, mut seq, mut ends) = (String::new(), 0, 0);
        while let Some(event) = block_on(poll_fn(|cx| queue.poll_next(cx))) {
            seq += 1;
            assert_eq!(event.seq, seq, "no gap");
            match event.kind {
                TurnEventKind::TextDelta { text } => read.push_str(&text),
                _ => ends += 1,
            }
        }
        writer.join().unwrap();
        assert_eq!((read.as_str(), ends), ("ab", 1));
    }

    /// All of them are too many: the first ones, and random ones.
    #[test]
    fn the_reader_gets_every_byte_in_order_and_the_end_and_misses_no_wakeup() {
        check_dfs(a_writer_and_a_reader, Some(20_000));
        check_random(a_writer_and_a_reader, 5_000);
    }
}
