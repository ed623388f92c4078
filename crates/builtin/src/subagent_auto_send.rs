//! `subagent_auto_send`: the one way from a subagent to its parent.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use turnwright_core::{AgentResult, TurnContext};
use turnwright_hook::{HookError, OutcomeFinallyHook};
use turnwright_react_runtime::mailbox::{Mail, MailKind, Mailbox};

use crate::subagent::{
    output,
    report::{Report, without_thoughts},
    request::{Request, invocation_of},
};

/// Reports the end of a subagent's turn to its parent, whatever the end: the text goes to the next `OUTPUT_<n>.md` of its
/// session's directory, and a short report to the parent's mailbox. A turn that was cancelled, failed, ran into a limit or
/// has no answer is reported as that. A turn that is not over reports nothing.
///
/// The parent is the session whose call began the turn, and no other can be named. A turn that no call began is an error of
/// the hook: whoever registered it meant something else.
///
/// FINALLY_GRAPH, name `subagent_auto_send`. [`crate::Subagents`] registers it.
#[derive(Clone)]
pub struct SubagentAutoSend {
    mailbox: Arc<dyn Mailbox>,
    outputs: Arc<Path>,
    chars: usize,
}

impl SubagentAutoSend {
    pub(crate) fn new(mailbox: Arc<dyn Mailbox>, outputs: Arc<Path>, chars: usize) -> Self {
        Self { mailbox, outputs, chars }
    }

    /// Writes the output on a thread where it may block. Dropped, it is written all the same, and nobody is told of it.
    async fn write(&self, ctx: &TurnContext, text: &str) -> Result<PathBuf, String> {
        let (directory, text) = (self.outputs.join(ctx.session().as_str()), text.to_owned());
        let written = tokio::task::spawn_blocking(move || output::write(&directory, &text)).await;
        match written {
            Ok(Ok(path)) => Ok(path),
            Ok(Err(e)) => Err(format!("the output could not be written: {e}")),
            Err(e) => Err(format!("the output could not be written: {e}")),
        }
    }
}

impl OutcomeFinallyHook for SubagentAutoSend {
    async fn on_outcome(&self, ctx: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        let messages = ctx.history().snapshot().messages;
        let (Some(request), Some(invocation)) =
            (Request::last(&messages), invocation_of(ctx.session(), ctx.agent()))
        else {
            return Err(HookError::msg("no call of a parent began this turn: nobody can be told of its end"));
        };
        let (id, text) = (request.report(), without_thoughts(&result.content));
        let mut report = Report::of((ctx.agent(), &invocation, &id), result, &text);
        let written = match text.is_empty() {
            true => None,
            false => Some(self.write(ctx, &text).await),
        };
        match &written {
            Some(Ok(path)) => report.output = Some(path),
            Some(Err(e)) => report.issues.push(e.clone()),
            None => {}
        }
        let text = report.words(self.chars);
        let from = format!("subagent {}", ctx.agent());
        let (to, answers) = (request.parent, Some(request.call));
        self.mailbox.post(Mail { id, to, from, kind: MailKind::AgentResult, text, answers }).await?;
        Ok(())
    }
}

impl std::fmt::Debug for SubagentAutoSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubagentAutoSend").field("outputs", &self.outputs).finish_non_exhaustive()
    }
}
