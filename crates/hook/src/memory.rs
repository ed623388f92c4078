//! The five points of memory, and their runner: what a memory system tells of itself. They are no points of a turn, and what is told
//! there changes nothing.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use turnwright_control::ControlError;
use turnwright_core::{BoxFuture, MessageId, TokenUsage, TurnContext};

use crate::{
    ErrorPolicy, HookError,
    error::Kind,
    limit::{Limit, Limited},
};

/// How long a hook may take over one event.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What happened to the memory of a session. Never content: names, counts, digests and durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "point", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryEvent {
    /// The history has become too long, and a clean-up begins.
    CleanupTriggered {
        /// Tokens of what the model would be sent, as estimated.
        tokens: u64,
        /// Tokens from which a clean-up begins.
        limit: u64,
    },
    /// A clean-up that began is over.
    CleanupFinished {
        /// Messages that the summary stands for; 0 when the clean-up was given up.
        pruned: usize,
        /// The last of them.
        through: Option<MessageId>,
        /// Tokens before and after, as estimated.
        tokens_before: u64,
        /// See `tokens_before`.
        tokens_after: u64,
        /// What writing the summary used.
        usage: TokenUsage,
        /// How long it took.
        elapsed: Duration,
        /// Why it was given up, if it was: the history is as before.
        error: Option<String>,
    },
    /// What memory knows was put together for a turn.
    ContextAssembled {
        /// What each source gave.
        sections: Vec<ContextSection>,
        /// How long it took.
        elapsed: Duration,
    },
    /// The core memory was written.
    CoreMemoryUpdated {
        /// How: `append`, `replace`, `remove`, `consolidate`.
        mode: String,
        /// Whether anything changed.
        changed: bool,
        /// The first 16 digits of the SHA-256 of what there is now.
        digest: String,
        /// Tokens before and after, as estimated.
        tokens_before: u64,
        /// See `tokens_before`.
        tokens_after: u64,
    },
    /// The core memory was made shorter, or was not.
    ConsolidationFinished {
        /// Whether anything changed.
        changed: bool,
        /// Tokens before and after, as estimated.
        tokens_before: u64,
        /// See `tokens_before`.
        tokens_after: u64,
        /// What it used.
        usage: TokenUsage,
        /// How long it took.
        elapsed: Duration,
        /// Why nothing changed, where that is a failure.
        error: Option<String>,
    },
}

/// What one source gave to the context of a turn, in tokens as estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSection {
    /// The source.
    pub source: String,
    /// What it gave.
    pub retrieved: u64,
    /// What of it the model is told.
    pub injected: u64,
    /// What of it did not fit.
    pub pruned: u64,
    /// Its priority: the lowest is left out first.
    pub priority: i32,
}

impl MemoryEvent {
    /// The point, in the seed's words.
    pub fn point(&self) -> &'static str {
        match self {
            Self::CleanupTriggered { .. } => "cleanup_triggered",
            Self::CleanupFinished { .. } => "cleanup_finished",
            Self::ContextAssembled { .. } => "context_assembled",
            Self::CoreMemoryUpdated { .. } => "core_memory_updated",
            Self::ConsolidationFinished { .. } => "consolidation_finished",
        }
    }
}

/// Is told what happens to the memory of sessions. One hook serves all sessions at once.
///
/// # Cancel safety
/// When the turn is cancelled, its future is dropped at its current await.
pub trait MemoryHook: Send + Sync + 'static {
    /// Its name, in logs.
    fn name(&self) -> &str;

    /// What happens when it fails, panics or takes more than 10 s. It is logged, by default. [`ErrorPolicy::Abort`] ends the turn
    /// where a [`ControlError`] would: not at points that a turn comes to when its fate is settled, such as the end of a
    /// consolidation.
    fn on_error(&self) -> ErrorPolicy {
        ErrorPolicy::Log
    }

    /// Something happened.
    ///
    /// # Errors
    /// A [`ControlError`] ends the turn. Anything else is dealt with as [`MemoryHook::on_error`] says.
    fn on<'a>(&'a self, ctx: &'a TurnContext, event: &'a MemoryEvent)
    -> BoxFuture<'a, Result<(), HookError>>;
}

/// Tells hooks of memory, in the order in which they were added. Clones share them.
#[derive(Clone, Default)]
pub struct MemoryRunner(Arc<[Arc<dyn MemoryHook>]>);

impl MemoryRunner {
    /// With these hooks.
    pub fn new(hooks: impl IntoIterator<Item = Arc<dyn MemoryHook>>) -> Self {
        Self(hooks.into_iter().collect())
    }

    /// Tells all hooks. One that fails, panics or takes more than 10 s is dealt with as it says itself, and the next one is told.
    ///
    /// # Errors
    /// The first control error, or a policy violation by the first hook that failed and is to abort: the later hooks are not
    /// told.
    ///
    /// # Cancel safety
    /// Dropped, the hook that runs is dropped, and the later ones are not told.
    pub async fn tell(&self, ctx: &TurnContext, event: &MemoryEvent) -> Result<(), ControlError> {
        for hook in self.0.iter() {
            let why = match Limit::new(async { hook.on(ctx, event).await }, TIMEOUT).await {
                Limited::Done(Ok(())) => continue,
                Limited::Done(Err(HookError(Kind::Control(control)))) => return Err(control),
                Limited::Done(Err(failed)) => failed.to_string(),
                Limited::Panicked(panic) => format!("it panicked: {panic}"),
                Limited::TimedOut => format!("it took longer than {TIMEOUT:?}"),
            };
            let why = format!("memory hook {} failed at {}: {why}", hook.name(), event.point());
            match hook.on_error() {
                ErrorPolicy::Ignore => tracing::debug!("{why}"),
                ErrorPolicy::Log => tracing::warn!("{why}"),
                ErrorPolicy::Abort => return Err(ControlError::policy_violation(why)),
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for MemoryRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|hook| hook.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use turnwright_core::SessionId;

    use super::*;

    #[derive(Clone, Copy)]
    enum Does {
        Well,
        Fails,
        Panics,
        Hangs,
        Stops,
        FailsForAll,
    }

    struct Told(Does, &'static str, Arc<Mutex<Vec<&'static str>>>);

    impl MemoryHook for Told {
        fn name(&self) -> &str {
            self.1
        }
        fn on_error(&self) -> ErrorPolicy {
            if matches!(self.0, Does::FailsForAll) { ErrorPolicy::Abort } else { ErrorPolicy::Log }
        }
        fn on<'a>(&'a self, _: &'a TurnContext, _: &'a MemoryEvent) -> BoxFuture<'a, Result<(), HookError>> {
            self.2.lock().push(self.1);
            Box::pin(async {
                match self.0 {
                    Does::Well => Ok(()),
                    Does::Fails | Does::FailsForAll => Err(HookError::msg("no")),
                    Does::Panics => panic!("at the disco"),
                    Does::Hangs => std::future::pending().await,
                    Does::Stops => Err(ControlError::policy_violation("enough").into()),
                }
            })
        }
    }

    async fn told(hooks: &[(Does, &'static str)]) -> (Result<(), ControlError>, Vec<&'static str>) {
        let seen: Arc<Mutex<Vec<_>>> = Arc::default();
        let make = |(does, name): &(Does, &'static str)| {
            Arc::new(Told(*does, name, seen.clone())) as Arc<dyn MemoryHook>
        };
        let runner = MemoryRunner::new(hooks.iter().map(make));
        let ctx = TurnContext::builder(SessionId::new("s").unwrap()).build();
        let event = MemoryEvent::CleanupTriggered { tokens: 2, limit: 1 };
        let out = runner.tell(&ctx, &event).await;
        let seen = seen.lock().clone();
        (out, seen)
    }

    #[tokio::test(start_paused = true)]
    async fn all_are_told_in_order_whatever_one_of_them_does() {
        let hooks = [(Does::Fails, "a"), (Does::Panics, "b"), (Does::Hangs, "c"), (Does::Well, "d")];
        assert_eq!(told(&hooks).await, (Ok(()), vec!["a", "b", "c", "d"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_control_error_passes_and_ends_the_telling() {
        let hooks = [(Does::Well, "a"), (Does::Stops, "b"), (Does::Well, "c")];
        assert_eq!(told(&hooks).await, (Err(ControlError::policy_violation("enough")), vec!["a", "b"]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_to_abort_ends_the_turn_and_is_named() {
        let (out, seen) = told(&[(Does::FailsForAll, "a"), (Does::Well, "b")]).await;
        let words = "memory hook a failed at cleanup_triggered: no";
        assert_eq!((out, seen), (Err(ControlError::policy_violation(words)), vec!["a"]));
    }

    #[test]
    fn an_event_is_named_by_its_point_in_json_too() {
        let event = MemoryEvent::CleanupTriggered { tokens: 2, limit: 1 };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!((json["point"].as_str(), json["tokens"].as_u64()), (Some(event.point()), Some(2)));
    }
}
