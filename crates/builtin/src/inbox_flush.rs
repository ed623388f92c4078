//! `inbox_flush`: mail reaches the turn that runs.

use std::{sync::Arc, time::Duration};

use turnwright_core::{Message, Part, Role, StateKey, TurnContext};
use turnwright_hook::{
    HookError, LegEnd,
    point::{BeforeIteration, BeforeLlm, FinallyGraph, StartNodeTurn},
};
use turnwright_llm_stream::LlmRequest;
use turnwright_react_runtime::mailbox::{Mail, MailClaim, MailError, MailKind, Mailbox};

use crate::reminder::reminder;

const NAME: &str = "inbox_flush";
/// Mail of one flush.
const AT_ONCE: usize = 10;
/// How long the turn may take to make mail its own before it comes again.
const LEASE: Duration = Duration::from_secs(60);
/// What stands in the turn's history and is not acknowledged.
const SHOWN: StateKey<Vec<MailClaim>> = StateKey::new("turnwright.inbox_flush/shown", 1);

/// Folds the mail of the session into the turn, each piece as a reminder: up to 10 at the begin of the turn and before
/// each iteration, of every kind but [`MailKind::ExternalInput`].
///
/// Mail is acknowledged once the reminder is stored: before the model is asked, or when the leg ends. What is not (the
/// process died, the store failed) comes again after 60 s, or to the next process; a reminder that the history has already
/// is not written twice, nor is mail that is the result of a call there.
///
/// START_NODE_TURN, BEFORE_ITERATION, BEFORE_LLM and FINALLY_GRAPH, name `inbox_flush`.
#[derive(Clone)]
pub struct InboxFlush {
    mailbox: Arc<dyn Mailbox>,
}

impl InboxFlush {
    /// Of this mailbox.
    pub fn new(mailbox: Arc<dyn Mailbox>) -> Self {
        Self { mailbox }
    }

    async fn flush(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let delivered = self.mailbox.claim(ctx.session(), &MailKind::FOLDED, AT_ONCE, LEASE).await?;
        if delivered.is_empty() {
            return Ok(());
        }
        // From here on nothing is awaited until all of it is either noted or given back.
        let known = ctx.history().snapshot().messages;
        let (mut shown, mut refused) = (Vec::new(), None);
        let mut left = delivered.into_iter();
        for piece in left.by_ref() {
            if !known.iter().any(|message| has(message, &piece.mail))
                && let Err(e) = ctx.history().append(message(ctx, &piece.mail))
            {
                refused = Some((piece.claim, e));
                break;
            }
            shown.push(piece.claim);
        }
        ctx.state().update(&SHOWN, |before| before.into_iter().flatten().chain(&shown).cloned().collect())?;
        match refused {
            None => Ok(()),
            Some((claim, e)) => {
                let back: Vec<_> = std::iter::once(claim).chain(left.map(|piece| piece.claim)).collect();
                self.mailbox.release(&back).await?;
                Err(e.into())
            }
        }
    }

    /// What was shown is stored by now.
    async fn acknowledge(&self, ctx: &TurnContext) -> Result<(), HookError> {
        if let Some(shown) = ctx.state().get(&SHOWN)? {
            self.mailbox.acknowledge(&shown).await?;
            ctx.state().remove(&SHOWN);
        }
        Ok(())
    }

    async fn give_back(&self, ctx: &TurnContext) -> Result<(), MailError> {
        match ctx.state().get(&SHOWN) {
            Ok(Some(shown)) => self.mailbox.release(&shown).await,
            _ => Ok(()),
        }
    }
}

/// By what the message is known that shows the mail of this id.
pub(crate) fn key(mail: &str) -> String {
    format!("mail:{mail}")
}

fn message(ctx: &TurnContext, mail: &Mail) -> Message {
    let text = format!("Mail of kind {} from {}:\n\n{}", mail.kind.name(), mail.from, mail.text);
    let mut message = reminder(ctx, NAME, text);
    message.key = Some(key(&mail.id));
    message
}

/// Whether the history has this mail: as a reminder, or as the result of the call that it answers.
fn has(message: &Message, mail: &Mail) -> bool {
    match message.role {
        Role::User => message.key.as_ref().is_some_and(|known| *known == key(&mail.id)),
        Role::Tool => message.parts.iter().any(|part| match part {
            Part::ToolResult(result) => {
                mail.answers.as_ref() == Some(result.call_id()) && result.content.contains(&mail.id)
            }
            _ => false,
        }),
        _ => false,
    }
}

impl StartNodeTurn for InboxFlush {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        self.flush(ctx).await
    }
}

impl BeforeIteration for InboxFlush {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        self.flush(ctx).await
    }
}

impl BeforeLlm for InboxFlush {
    async fn before_llm(&self, ctx: &TurnContext, _: &LlmRequest) -> Result<(), HookError> {
        self.acknowledge(ctx).await
    }
}

impl FinallyGraph for InboxFlush {
    async fn finally_graph(&self, ctx: &TurnContext, end: LegEnd<'_>) -> Result<(), HookError> {
        match end {
            // What could not be stored is told again.
            LegEnd::Crashed(_) => Ok(self.give_back(ctx).await?),
            LegEnd::Terminal(_) | LegEnd::Suspended | LegEnd::Drained => self.acknowledge(ctx).await,
        }
    }
}

impl std::fmt::Debug for InboxFlush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InboxFlush")
    }
}
