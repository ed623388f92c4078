//! Repeating a failed model call.

use std::time::Duration;

use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use super::attempts::{failure, fits, pause};
use crate::{Around, Exit, Next, scope};

/// Repeats a model call that failed, where the error's [`RetryAdvice`] says that this makes sense. Provider clients
/// never retry, so without this layer, or one like it, each failure is final.
///
/// The wait is what the provider asked for (`Retry-After`, as seconds or date), and up to one first backoff more, so
/// that not all clients come back at once. Where it asked for nothing, the wait is drawn evenly from nothing to a bound
/// that doubles from attempt to attempt ("full jitter"). Each further attempt is an event of the turn (`Retry`), and the
/// layers and clients inside see its number in the request.
///
/// # What ends it
/// The error of the last attempt is returned, unchanged, as soon as one of these holds:
/// - so many attempts were made ([`Retry::DEFAULT_ATTEMPTS`]),
/// - text or reasoning was shown, or the call may not be repeated for another reason ([`crate::Replay`]),
/// - the advice is [`RetryAdvice::Never`],
/// - the kind is one that no repeating cures, whatever the advice: key, permission, quota, a wrong request, an
///   overflown context, a filter, a refusal, a limit or policy of the turn,
/// - the provider asks for a longer wait than [`Retry::longest_wait`]: coming back earlier would fail again,
/// - the wait would pass the turn's deadline. It is then not begun.
///
/// A control error passes at once.
///
/// # Where it stands
/// Inside [`Fallback`](super::Fallback), so that a model gets its attempts before the next one is asked.
///
/// # Cancel safety
/// A cancel ends a wait at once. Dropping the call drops the wait or the attempt; nothing is kept.
#[derive(Debug, Clone)]
pub struct Retry {
    attempts: u32,
    first: Duration,
    longest_backoff: Duration,
    longest_wait: Duration,
}

impl Retry {
    /// Attempts, the first one included.
    pub const DEFAULT_ATTEMPTS: u32 = 3;
    /// The bound of the first backoff.
    pub const DEFAULT_BACKOFF: Duration = Duration::from_millis(500);
    /// Where the bound stops doubling.
    pub const DEFAULT_LONGEST_BACKOFF: Duration = Duration::from_secs(30);
    /// The longest wait that a provider may ask for.
    pub const DEFAULT_LONGEST_WAIT: Duration = Duration::from_secs(60);

    /// So many attempts, the first one included; fewer than one is one.
    pub fn new(attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            first: Self::DEFAULT_BACKOFF,
            longest_backoff: Self::DEFAULT_LONGEST_BACKOFF,
            longest_wait: Self::DEFAULT_LONGEST_WAIT,
        }
    }

    /// Bounds of the backoff: of the first one, and where it stops doubling.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.first, self.longest_backoff) = (first.min(longest), longest);
        self
    }

    /// The longest wait that a provider may ask for. One that asks for more is not asked again.
    #[must_use]
    pub fn longest_wait(mut self, longest: Duration) -> Self {
        self.longest_wait = longest;
        self
    }

    /// How long to wait after this many failures; none where no further attempt makes sense.
    fn wait(&self, failures: u32, error: &ErrorInfo, ctx: &TurnContext) -> Option<Duration> {
        if failures >= self.attempts || is_final(error.kind) {
            return None;
        }
        let wait = match error.retry {
            RetryAdvice::Never => return None,
            RetryAdvice::After(asked) if asked > self.longest_wait => return None,
            RetryAdvice::After(asked) => asked.saturating_add(some_of(self.first, ctx)),
            RetryAdvice::Backoff => {
                let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
                some_of(self.first.saturating_mul(doubled).min(self.longest_backoff), ctx)
            }
        };
        fits(ctx, wait).then_some(wait)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new(Self::DEFAULT_ATTEMPTS)
    }
}

/// Evenly from nothing to this much. The crates for backoff draw from a generator of their own, so that a run would not
/// repeat; what they would save are these lines.
fn some_of(most: Duration, ctx: &TurnContext) -> Duration {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(most) * u128::from(ctx.sources().random.next_u64())) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(most))
}

/// Kinds that no repeating cures. Their usual advice is never to retry, and a client or layer may have given another.
fn is_final(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    matches!(
        kind,
        Authentication
            | PermissionDenied
            | QuotaExceeded
            | InvalidRequest
            | ContextOverflow
            | ContentFilter
            | Refusal
            | Cancelled
            | DeadlineExceeded
            | PolicyViolation
            | LoopDetected
            | LimitReached
            | Control
            | ReplayRefused
            | InvalidHistory
            | Configuration
    )
}

impl Around<scope::LlmCall> for Retry {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let mut replay = match next.replayable() {
            Ok(replay) => replay,
            Err(refused) => return refused.into_next().run(request).await,
        };
        let mut failures = 0;
        loop {
            let out = replay.run(request.clone()).await;
            let Some(error) = failure(&out) else { return out };
            failures += 1;
            if replay.refusal().is_some() {
                return out;
            }
            match self.wait(failures, error, ctx) {
                Some(wait) => pause(ctx, wait).await?,
                None => return out,
            }
        }
    }
}
