//! Reading a body within the limits of its call.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use tokio::time::{Sleep, sleep_until};

use crate::limits::{Limit, Limits};

pub(crate) struct Reading {
    pub(crate) body: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    pub(crate) limits: Limits,
    /// Armed for the earliest limit there was. A limit that moves on is looked at only when the timer fires, so that a
    /// piece of the answer costs no timer.
    timer: Pin<Box<Sleep>>,
}

impl Reading {
    pub(crate) fn new(
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        limits: Limits,
    ) -> Self {
        let timer = Box::pin(sleep_until(limits.next().0));
        Self { body: Box::pin(body), limits, timer }
    }

    /// The next piece of the body, its end, or the limit that was reached before it.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<reqwest::Result<Bytes>>, Limit>> {
        if let Poll::Ready(next) = self.body.as_mut().poll_next(cx) {
            return Poll::Ready(Ok(next));
        }
        let (deadline, limit) = self.limits.next();
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if deadline <= self.timer.deadline() {
                return Poll::Ready(Err(limit));
            }
            self.timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use futures::{StreamExt, stream};
    use turnwright_core::{
        ErrorKind,
        clock::{Clock, Instant, SystemClock},
    };

    use super::*;
    use crate::Timeouts;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// So many pieces, one every so many seconds, and then nothing for ever.
    fn pieces(n: usize, every: u64) -> impl Stream<Item = reqwest::Result<Bytes>> + Send {
        let pieces = stream::iter(0..n).then(move |_| async move {
            tokio::time::sleep(seconds(every)).await;
            Ok(Bytes::from_static(b"x"))
        });
        pieces.chain(stream::pending())
    }

    /// Reads until a limit is reached: which, after how many seconds of virtual time, and how many pieces. The finish is
    /// seen with the piece of this number.
    async fn read(
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        finish: Option<u64>,
    ) -> (Limit, u64, u64) {
        let timeouts = Timeouts {
            connect: seconds(1),
            first_byte: seconds(20),
            idle: seconds(10),
            total: seconds(100),
            drain: seconds(3),
        };
        let begun: Instant = SystemClock.instant();
        let mut reading = Reading::new(body, Limits::new(timeouts, begun, begun));
        let mut count = 0;
        loop {
            match poll_fn(|cx| reading.poll_next(cx)).await {
                Ok(piece) => {
                    assert!(piece.is_some());
                    count += 1;
                    reading.limits.note(SystemClock.instant(), count, finish.is_some_and(|n| count >= n));
                }
                Err(limit) => return (limit, (SystemClock.instant() - begun).as_secs(), count),
            }
        }
    }

    fn failed(kind: ErrorKind, after: u64) -> Limit {
        Limit::Failure(kind, seconds(after))
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_is_kept_to_the_second_though_there_is_one_timer() {
        // Nothing comes at all.
        assert_eq!(read(pieces(0, 1), None).await, (failed(ErrorKind::FirstByteTimeout, 20), 20, 0));
        // The limit comes earlier once something came: 1 and 10 are less than 20.
        assert_eq!(read(pieces(1, 1), None).await, (failed(ErrorKind::IdleTimeout, 10), 11, 1));
        // It moves on with every piece: the timer that fires in between is none.
        assert_eq!(read(pieces(8, 9), None).await, (failed(ErrorKind::IdleTimeout, 10), 82, 8));
        assert_eq!(read(pieces(99, 9), None).await, (failed(ErrorKind::TotalTimeout, 100), 100, 11));
        // After the finish only the end mark may be missing.
        assert_eq!(read(pieces(2, 5), Some(2)).await, (Limit::Drained, 13, 2));
    }
}
