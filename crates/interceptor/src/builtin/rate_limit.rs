//! Staying within what a provider allows.

use std::{collections::VecDeque, num::NonZeroU32, sync::Arc, time::Duration};

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice, TurnContext, clock::Instant};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use super::attempts::OWN_LIMIT;
use crate::{Around, Exit, Next, scope};

/// Holds model calls back so that no more than so many begin in any minute, and no more than so many run at once. Who
/// came first goes first. Clones share the limits, so one value can serve many agents; set the limits before cloning.
///
/// A new value limits nothing. The minute slides: it is any 60 s, and a call counts from when it begins.
///
/// # Errors
/// A call that cannot begin before the turn's deadline fails with [`ErrorKind::RateLimited`], the code `own_rate_limit`
/// (so that nobody takes it for the provider's word), and the advice never to retry: at once where it is the first in the row for the minute, at the deadline at the latest. A cancel ends the
/// wait at once with its control error.
///
/// # Where it stands
/// Innermost, inside [`Retry`](super::Retry): each attempt is a request of its own, and no other layer's wait holds a
/// place. Once in a chain: the same value twice waits for itself.
///
/// # Cancel safety
/// A call that is dropped while it waits leaves the row and uses nothing. A place is a guard: it is given back however
/// the call ends.
#[derive(Debug, Clone, Default)]
pub struct RateLimit {
    places: Option<Arc<Semaphore>>,
    pace: Option<Arc<Pace>>,
}

/// The crates for this bring clocks of their own, which neither replay nor stand still in tests.
#[derive(Debug)]
struct Pace {
    most: usize,
    /// When the calls of the last minute began, oldest first. Its lock is the row: tokio's is first come, first served.
    began: Mutex<VecDeque<Instant>>,
}

const MINUTE: Duration = Duration::from_secs(60);

impl RateLimit {
    /// No limit yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many calls may begin in any 60 s.
    #[must_use]
    pub fn requests_per_minute(mut self, most: NonZeroU32) -> Self {
        self.pace = Some(Arc::new(Pace { most: count(most), began: Mutex::default() }));
        self
    }

    /// So many calls may run at once.
    #[must_use]
    pub fn concurrent(mut self, most: NonZeroU32) -> Self {
        self.places = Some(Arc::new(Semaphore::new(count(most).min(Semaphore::MAX_PERMITS))));
        self
    }

    async fn enter(&self, ctx: &TurnContext) -> Result<Option<SemaphorePermit<'_>>, Exit> {
        // The place first: a call that waits for one has not begun.
        let place = match &self.places {
            // The semaphore is never closed.
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        if let Some(pace) = &self.pace {
            pace.begin(ctx).await?;
        }
        Ok(place)
    }
}

fn count(most: NonZeroU32) -> usize {
    usize::try_from(most.get()).unwrap_or(usize::MAX)
}

impl Pace {
    async fn begin(&self, ctx: &TurnContext) -> Result<(), Exit> {
        let mut began = self.began.lock().await;
        loop {
            let now = ctx.sources().clock.instant();
            while began.front().is_some_and(|first| now.saturating_duration_since(*first) >= MINUTE) {
                began.pop_front();
            }
            match began.front() {
                Some(first) if began.len() >= self.most => {
                    let free = *first + MINUTE;
                    if ctx.deadline().is_some_and(|deadline| free >= deadline) {
                        return Err(too_late());
                    }
                    tokio::time::sleep_until(free).await;
                }
                _ => {
                    began.push_back(now);
                    return Ok(());
                }
            }
        }
    }
}

fn too_late() -> Exit {
    let message = "our own limit of model calls leaves no place before the turn's deadline";
    Exit::Failed(ErrorInfo::new(ErrorKind::RateLimited, message).retry(RetryAdvice::Never).code(OWN_LIMIT))
}

impl Around<scope::LlmCall> for RateLimit {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let deadline = async {
            match ctx.deadline() {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let place = tokio::select! {
            biased;
            cause = ctx.cancel().cancelled() => return Err(ControlError::from(cause).into()),
            place = self.enter(ctx) => place?,
            () = deadline => return Err(too_late()),
        };
        let out = next.run(request).await;
        drop(place);
        out
    }
}
