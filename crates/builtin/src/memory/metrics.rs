//! Clean-ups as lines of JSON.

use std::{io::Write, sync::Arc};

use parking_lot::Mutex;
use serde_json::json;
use turnwright_core::{BoxFuture, TurnContext};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook};

/// Writes one line of JSON for each clean-up and each consolidation that is over, name `cleanup_metrics`: session, turn, agent, counts,
/// tokens, duration, error. No content.
///
/// Where it writes must not block for long: a file, a buffer, standard error.
#[derive(Clone)]
pub struct CleanupMetrics(Arc<Mutex<dyn Write + Send>>);

impl CleanupMetrics {
    /// Writes there.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }
}

impl MemoryHook for CleanupMetrics {
    fn name(&self) -> &str {
        "cleanup_metrics"
    }

    fn on<'a>(
        &'a self,
        ctx: &'a TurnContext,
        event: &'a MemoryEvent,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            if !matches!(
                event,
                MemoryEvent::CleanupFinished { .. } | MemoryEvent::ConsolidationFinished { .. }
            ) {
                return Ok(());
            }
            let (session, turn, at) = (ctx.session(), ctx.turn(), ctx.sources().clock.now());
            let line =
                json!({ "at": at, "session": session, "turn": turn, "agent": ctx.agent(), "event": event });
            // In one write, so that lines of sessions do not mix.
            let line = format!("{line}\n");
            Ok(self.0.lock().write_all(line.as_bytes())?)
        })
    }
}
