//! Asking another model when one fails.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use turnwright_core::{ErrorKind, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse, ModelHandle};

use super::attempts::{failure, fits};
use crate::{Around, Exit, Next, scope};

/// Asks the next of these models when a model call fails in a way that another model may not: see
/// [`Fallback::DEFAULT_KINDS`]. Each logical call begins with the agent's own model again.
///
/// The next model is asked in the same chain, as a further attempt: the layers inside see it, the turn shows a `Retry`
/// event with its name, and [`LlmResponse::model`] says who answered. Everything else of the request stays, also
/// [`LlmRequest::extra`], whose fields only one provider may know.
///
/// # What ends it
/// - Text or reasoning was shown, or the call may not be repeated for another reason ([`crate::Replay`]): what was said
///   cannot be taken back, so the error is returned, unchanged.
/// - An error of another kind: it is returned, unchanged.
/// - No model is left, or the turn's deadline passed: the last error is returned. Its message ends with the models that
///   failed before, and how.
///
/// A control error passes at once.
///
/// # Where it stands
/// Outside [`Retry`](super::Retry) and the other layers of a model call, so that they see each model's calls.
///
/// # Cancel safety
/// Dropping the call drops the attempt; nothing is kept.
#[derive(Clone)]
pub struct Fallback {
    models: Arc<[ModelHandle]>,
    kinds: HashSet<ErrorKind>,
}

impl Fallback {
    /// The provider has no capacity, fails, cannot be reached, is too slow, breaks off, speaks nonsense, limits or
    /// stops us, or does not know the model. Not among them: what the next model would refuse as well, or should not be
    /// asked because this one refused.
    pub const DEFAULT_KINDS: [ErrorKind; 15] = [
        ErrorKind::Overloaded,
        ErrorKind::Server,
        ErrorKind::RateLimited,
        ErrorKind::QuotaExceeded,
        ErrorKind::NotFound,
        ErrorKind::Connection,
        ErrorKind::ConnectTimeout,
        ErrorKind::FirstByteTimeout,
        ErrorKind::IdleTimeout,
        ErrorKind::TotalTimeout,
        ErrorKind::Truncated,
        ErrorKind::Decode,
        ErrorKind::Protocol,
        ErrorKind::UnexpectedContent,
        ErrorKind::CircuitOpen,
    ];

    /// These models, in this order, after the agent's own. A model may be of any client; an empty list does nothing.
    pub fn new(models: impl IntoIterator<Item = ModelHandle>) -> Self {
        Self { models: models.into_iter().collect(), kinds: Self::DEFAULT_KINDS.into() }
    }

    /// On these kinds of failure, in place of the default ones.
    #[must_use]
    pub fn on(mut self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fallback").field(&self.models).finish()
    }
}

impl Around<scope::LlmCall> for Fallback {
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
        let mut models = self.models.iter();
        let mut failed = Vec::new();
        let mut asked = request.clone();
        loop {
            let who = asked.asked();
            let mut out = replay.run(asked).await;
            let Some(error) = failure(&out) else { return out };
            if replay.refusal().is_some() || !self.kinds.contains(&error.kind) {
                return out;
            }
            match models.next().filter(|_| fits(ctx, Duration::ZERO)) {
                Some(model) => {
                    failed.push(format!("{who}: {}", error.kind));
                    asked = request.clone().for_model(model.clone());
                }
                None => {
                    mention(&mut out, &failed);
                    return out;
                }
            }
        }
    }
}

/// The last error says who failed before.
fn mention(out: &mut Result<LlmResponse, Exit>, failed: &[String]) {
    let error = match out {
        Ok(response) => response.error.as_mut(),
        Err(Exit::Failed(error)) => Some(error),
        Err(Exit::Control(_)) => None,
    };
    if let Some(error) = error
        && !failed.is_empty()
    {
        error.message = format!("{}; before it {}", error.message, failed.join(", "));
    }
}
