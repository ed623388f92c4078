//! `subagent_waits`: a subagent in the background says that it waits.

use std::sync::Arc;

use turnwright_core::TurnContext;
use turnwright_hook::{HookError, LegEnd, point::FinallyGraph};
use turnwright_react_runtime::mailbox::{Mail, MailKind, Mailbox};

use super::request::{Request, invocation_of};

/// Tells the parent of a detached subagent that it waits for a decision: no call of the parent's waits for it, and would
/// ask. One that goes on with the invocation does.
pub(crate) struct SubagentWaits {
    pub(crate) mailbox: Arc<dyn Mailbox>,
}

impl FinallyGraph for SubagentWaits {
    async fn finally_graph(&self, ctx: &TurnContext, end: LegEnd<'_>) -> Result<(), HookError> {
        let messages = ctx.history().snapshot().messages;
        let (LegEnd::Suspended, Some(request), Some(invocation)) =
            (end, Request::last(&messages), invocation_of(ctx.session(), ctx.agent()))
        else {
            return Ok(());
        };
        if !request.detached {
            return Ok(());
        }
        let agent = ctx.agent();
        let text = format!(
            "The subagent {agent} waits for a decision of a person.\ninvocation: {invocation}\n\nCall `task` with this \
             agent and invocation: the person is asked then, and it goes on."
        );
        let (id, from) =
            (format!("waits-{}-{}", request.invocation(), ctx.leg()), format!("subagent {agent}"));
        let (to, answers) = (request.parent, Some(request.call));
        self.mailbox.post(Mail { id, to, from, kind: MailKind::AgentMessage, text, answers }).await?;
        Ok(())
    }
}
