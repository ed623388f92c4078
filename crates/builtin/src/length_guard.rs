//! `length_guard`: an answer that was cut, or is empty, is asked for again.

use serde::{Deserialize, Serialize};
use turnwright_core::{AgentResult, ErrorInfo, ErrorKind, StateKey, StopReason, TurnContext};
use turnwright_hook::{
    HookError,
    point::{AfterLlmResponse, AfterTurn, TurnAnswer},
};
use turnwright_llm_stream::{FinishReason, LlmResponse};

use crate::remind;

static LAST: StateKey<Last> = StateKey::new("turnwright.builtin/length_guard", 1);

/// Asks for the rest of an answer that the output limit cut, and for words where there are none.
///
/// AFTER_LLM_RESPONSE and AFTER_TURN, name `length_guard`. At most [`nudges`](LengthGuard::nudges) times in a row: then the
/// turn ends as failed, with an error that says so. An answer that is complete, or calls a tool, begins the count anew; one that
/// was cut does not, whatever it says, so that a model which is cut for ever is not asked for ever.
///
/// Each nudge asks for a further attempt and for a renewal of the attempts; the runtime's own bounds hold beside it.
#[derive(Debug, Clone)]
pub struct LengthGuard {
    nudges: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Last {
    was_cut: bool,
    was_empty: bool,
    nudges: u32,
}

impl Default for LengthGuard {
    fn default() -> Self {
        Self { nudges: 10 }
    }
}

impl LengthGuard {
    /// How many times in a row it asks. 10 by default.
    #[must_use]
    pub fn nudges(mut self, nudges: u32) -> Self {
        self.nudges = nudges;
        self
    }
}

impl AfterLlmResponse for LengthGuard {
    async fn after_llm_response(&self, ctx: &TurnContext, response: &LlmResponse) -> Result<(), HookError> {
        let was_cut = response.finish_reason == Some(FinishReason::Length);
        let has_calls = response.tool_calls().next().is_some();
        let was_empty = !has_calls && response.text().trim().is_empty();
        // What failed on the way is somebody else's affair.
        let was_empty = was_empty && response.error.is_none();
        ctx.state().update(&LAST, |last| {
            let nudges = last.map_or(0, |last| last.nudges);
            let nudges = if was_cut || was_empty { nudges } else { 0 };
            Last { was_cut, was_empty, nudges }
        })?;
        Ok(())
    }
}

impl AfterTurn for LengthGuard {
    async fn after_turn(&self, ctx: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        let Some(last) = ctx.state().get(&LAST)? else { return Ok(TurnAnswer::Done) };
        let is_empty = |error: &ErrorInfo| error.kind == ErrorKind::EmptyResponse;
        let is_mine = match result.stop_reason {
            StopReason::Completed | StopReason::MaxTokens => last.was_cut || last.was_empty,
            StopReason::Error => last.was_empty && result.error.as_ref().is_some_and(is_empty),
            _ => false,
        };
        if !is_mine {
            return Ok(TurnAnswer::Done);
        }
        let nudges = last.nudges + 1;
        if nudges > self.nudges {
            let (kind, what) = match last.was_cut {
                true => (ErrorKind::LengthLimit, "was cut by its output limit"),
                false => (ErrorKind::EmptyResponse, "was empty"),
            };
            let message = format!(
                "the model's answer {what} {nudges} times in a row, and asking for the rest was no use"
            );
            result.fail(ErrorInfo::new(kind, message));
            return Ok(TurnAnswer::Done);
        }
        ctx.state().set(&LAST, Last { nudges, ..(*last).clone() });
        let words = match (last.was_cut, last.was_empty) {
            (true, false) => {
                "Your answer was cut by the output limit. Go on where it broke off, in smaller pieces, and do not \
                              repeat what you said."
            }
            (true, true) => {
                "The output limit was reached before you said anything. Think less, and answer briefly."
            }
            _ => "Your answer was empty. Answer in words, or call a tool.",
        };
        remind(ctx, "length_guard", words)?;
        Ok(TurnAnswer::ContinueAndRenew)
    }
}
