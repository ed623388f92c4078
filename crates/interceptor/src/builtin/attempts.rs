//! What the layers that repeat a model call share.

use std::time::Duration;

use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, TurnContext};
use turnwright_llm_stream::LlmResponse;

use crate::Exit;

/// The code of a failure that our own limit made: of the provider it says nothing.
pub(super) const OWN_LIMIT: &str = "own_rate_limit";

/// Why a model call failed, whichever way it says so. A control error is no failure: nobody may repeat after it.
pub(super) fn failure(out: &Result<LlmResponse, Exit>) -> Option<&ErrorInfo> {
    match out {
        Ok(response) => response.error.as_ref(),
        Err(Exit::Failed(error)) => Some(error),
        Err(Exit::Control(_)) => None,
    }
}

/// Whether the turn will still run when this much time has passed.
pub(super) fn fits(ctx: &TurnContext, wait: Duration) -> bool {
    let Some(deadline) = ctx.deadline() else { return true };
    ctx.sources().clock.instant().checked_add(wait).is_some_and(|then| then < deadline)
}

/// Waits, unless the turn is cancelled meanwhile.
pub(super) async fn pause(ctx: &TurnContext, wait: Duration) -> Result<(), Exit> {
    tokio::select! {
        biased;
        cause = ctx.cancel().cancelled() => Err(ControlError::from(cause).into()),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}
