//! Leaving a model alone that is down.

use std::{collections::HashMap, fmt, num::NonZeroU32, sync::Arc, time::Duration};

use parking_lot::Mutex;
use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice, TurnContext, clock::Instant};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use super::attempts::{OWN_LIMIT, failure};
use crate::{Around, Exit, Next, scope};

/// Stops asking a model after so many failures in a row, for a time: callers fail at once in place of waiting for
/// limits of time, and a server that struggles gets room. Then one call goes through as a probe: its success closes the
/// circuit, its failure opens it again.
///
/// It counts a model, that is provider and name of the request, on its own. Clones share what they know, so one breaker
/// can serve many agents.
///
/// Failures that count are those of a server that is down: overloaded, failing inside, not reached, too slow, breaking
/// off, or speaking nonsense. Any other answer of the provider, also one that refuses, shows that it is up and ends the
/// row. What says nothing about the provider (a control error, a failure or a limit of a layer, a dropped call) counts for
/// neither.
///
/// # Errors
/// A refusal has the kind [`ErrorKind::CircuitOpen`] and says when to come back ([`RetryAdvice::After`]), or, while the
/// probe runs, [`RetryAdvice::Backoff`]. [`Fallback`](super::Fallback) takes it as a reason to ask the next model.
///
/// # Where it stands
/// Inside `Fallback` and outside [`Retry`](super::Retry): a call with its attempts then counts as one, and a refusal is
/// not waited out. Inside `Retry` each attempt counts, and a refusal is waited for like any other.
///
/// # Cancel safety
/// Dropping a probe leaves the circuit as it was: the next call is the probe.
#[derive(Clone)]
pub struct CircuitBreaker {
    failures: NonZeroU32,
    open_for: Duration,
    models: Arc<Mutex<HashMap<String, Circuit>>>,
}

#[derive(Clone, Copy)]
struct Circuit {
    /// Failures in a row.
    failures: u32,
    /// When it may be probed, if it is open.
    open_until: Option<Instant>,
    probing: bool,
    last_failure: Instant,
}

impl CircuitBreaker {
    /// Failures in a row that open the circuit.
    pub const DEFAULT_FAILURES: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);
    /// How long it stays open.
    pub const DEFAULT_OPEN_FOR: Duration = Duration::from_secs(30);
    /// Models that are remembered because they failed. One more forgets the one whose last failure is oldest.
    pub const MAX_MODELS: usize = 1024;

    /// Opens after so many failures in a row, for this long.
    pub fn new(failures: NonZeroU32, open_for: Duration) -> Self {
        Self { failures, open_for, models: Arc::default() }
    }

    /// Whether a call may go through, and whether it is the probe.
    fn admit(&self, model: &str, now: Instant) -> Result<bool, ErrorInfo> {
        let mut models = self.models.lock();
        let Some(circuit) = models.get_mut(model) else { return Ok(false) };
        let Some(until) = circuit.open_until else { return Ok(false) };
        let refuse = |why: &str, retry| {
            let message = format!("{model} failed {} times in a row: {why}", circuit.failures);
            Err(ErrorInfo::new(ErrorKind::CircuitOpen, message).retry(retry))
        };
        if now < until {
            return refuse("it is not asked for now", RetryAdvice::After(until - now));
        }
        if circuit.probing {
            return refuse("one call is trying it again", RetryAdvice::Backoff);
        }
        circuit.probing = true;
        Ok(true)
    }

    fn failed(&self, model: &str, now: Instant, is_probe: bool) {
        let mut models = self.models.lock();
        if models.len() >= Self::MAX_MODELS && !models.contains_key(model) {
            let oldest = models.iter().min_by_key(|(_, c)| c.last_failure).map(|(model, _)| model.clone());
            oldest.and_then(|oldest| models.remove(&oldest));
        }
        let fresh = Circuit { failures: 0, open_until: None, probing: false, last_failure: now };
        let circuit = models.entry(model.to_owned()).or_insert(fresh);
        // What began before it opened says nothing new.
        if circuit.open_until.is_some() && !is_probe {
            return;
        }
        circuit.failures = circuit.failures.saturating_add(1);
        circuit.last_failure = now;
        circuit.probing = false;
        if circuit.failures >= self.failures.get() {
            // A time beyond the end of time never comes: it stays open as long as there is one.
            circuit.open_until = Some(now.checked_add(self.open_for).unwrap_or(now + FAR));
        }
    }

    fn answered(&self, model: &str, is_probe: bool) {
        let mut models = self.models.lock();
        if models.get(model).is_some_and(|c| is_probe || c.open_until.is_none()) {
            models.remove(model);
        }
    }
}

/// A year.
const FAR: Duration = Duration::from_secs(365 * 86_400);

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new(Self::DEFAULT_FAILURES, Self::DEFAULT_OPEN_FOR)
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("failures", &self.failures)
            .field("open_for", &self.open_for)
            .finish_non_exhaustive()
    }
}

/// The right to probe, given back when it is dropped unused.
struct Probe<'a> {
    breaker: &'a CircuitBreaker,
    model: &'a str,
    used: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if !self.used
            && let Some(circuit) = self.breaker.models.lock().get_mut(self.model)
        {
            circuit.probing = false;
        }
    }
}

/// What a failure says about the provider: down, up, or nothing.
enum Verdict {
    Down,
    Up,
    Nothing,
}

fn judge(error: &ErrorInfo) -> Verdict {
    use ErrorKind::*;
    match error.kind {
        RateLimited if error.code.as_deref() == Some(OWN_LIMIT) => Verdict::Nothing,
        Overloaded | Server | Connection | ConnectTimeout | FirstByteTimeout | IdleTimeout | TotalTimeout
        | Truncated | Decode | Protocol | UnexpectedContent => Verdict::Down,
        Authentication | PermissionDenied | QuotaExceeded | RateLimited | InvalidRequest | NotFound
        | ContextOverflow | ContentFilter | Refusal | LengthLimit | EmptyResponse | MalformedToolCall => {
            Verdict::Up
        }
        _ => Verdict::Nothing,
    }
}

impl Around<scope::LlmCall> for CircuitBreaker {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let clock = &ctx.sources().clock;
        let model = request.asked();
        let is_probe = self.admit(&model, clock.instant()).map_err(Exit::Failed)?;
        let mut probe = is_probe.then(|| Probe { breaker: self, model: &model, used: false });
        let out = next.run(request).await;
        let verdict = match (&out, failure(&out)) {
            (_, Some(error)) => judge(error),
            (Ok(_), None) => Verdict::Up,
            (Err(_), None) => Verdict::Nothing,
        };
        if let (Some(probe), Verdict::Down | Verdict::Up) = (&mut probe, &verdict) {
            probe.used = true;
        }
        match verdict {
            Verdict::Down => self.failed(&model, clock.instant(), is_probe),
            Verdict::Up => self.answered(&model, is_probe),
            Verdict::Nothing => {}
        }
        out
    }
}
