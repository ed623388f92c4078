//! Ending a turn whose calls fail one after the other.

use turnwright_control::ControlError;
use turnwright_core::{StateKey, Synthetic, ToolCall, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{Around, Exit, Next, scope};

static IN_A_ROW: StateKey<u32> = StateKey::new("turnwright.interceptor/error_budget", 1);

/// Ends a turn when so many of its tool calls in a row have failed: a model that cannot make itself understood to its tools
/// costs money and gets nowhere. A call that succeeds begins the count anew. Denials, and calls that were not run, do not count.
///
/// The turn ends as a policy violation, once the call that was one too many has its result: no further call is begun, and the
/// model is not asked again. The words for the user say why.
///
/// Count and limit are of one turn; calls that run beside each other count in the order in which they end.
#[derive(Debug, Clone, Copy)]
pub struct ErrorBudget {
    most: u32,
}

impl ErrorBudget {
    /// So many failures in a row are one too many; 0 is taken for 1.
    pub fn new(most: u32) -> Self {
        Self { most: most.max(1) }
    }
}

impl Default for ErrorBudget {
    /// Ten.
    fn default() -> Self {
        Self::new(10)
    }
}

impl ErrorBudget {
    /// Ends the turn, if too many failed.
    fn check(self, ctx: &TurnContext) -> Result<(), Exit> {
        let in_a_row = ctx.state().get(&IN_A_ROW).ok().flatten().map_or(0, |count| *count);
        if in_a_row < self.most {
            return Ok(());
        }
        let control = ControlError::policy_violation(format!("{in_a_row} tool calls in a row failed"));
        Err(control.user_content("I stopped, because my tools kept failing.").into())
    }
}

/// No further call of the batch is begun.
impl Around<scope::ToolCall> for ErrorBudget {
    async fn around(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        self.check(ctx)?;
        let result = next.run(call).await?;
        let is_mine = !matches!(
            result.synthetic,
            Some(Synthetic::Denied | Synthetic::Pending | Synthetic::Unrunnable | Synthetic::Interrupted)
        );
        if is_mine {
            let failed = result.is_error();
            let counted = ctx.state().update(&IN_A_ROW, |before| match failed {
                true => before.copied().unwrap_or(0).saturating_add(1),
                false => 0,
            });
            // State that cannot be read is of another version: the count begins anew.
            if counted.is_err() {
                ctx.state().set(&IN_A_ROW, u32::from(failed));
            }
        }
        // Left from here, the turn would have no result of this call.
        Ok(result)
    }
}

/// When the batch is over the model is not asked again.
impl Around<scope::LlmCall> for ErrorBudget {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        self.check(ctx)?;
        next.run(request).await
    }
}
