//! `experience_review`: after a long turn, somebody thinks about what can be learned of it.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use turnwright_core::{AgentResult, Message, Outcome, Role, TurnContext};
use turnwright_hook::{HookError, HookSpec, hook, point::AfterGraph};
use turnwright_llm_stream::ModelHandle;
use turnwright_react_runtime::{Agent, AgentBuilder, BuildError};

use crate::{
    experience::{ExperienceFiles, WRITE_EXPERIENCE},
    memory::{is_users, transcript},
};

const INSTRUCTIONS: &str = "You are given a conversation between a person and an assistant that uses tools, and the names of the \
    experiences that were kept before. If something was learned here that will help in other conversations (how something is done, \
    what went wrong and why), keep it with write_experience, at most two of them; write one anew rather than a second one about the \
    same. Most conversations teach nothing new: then say so, and keep nothing.";

/// Tokens of the conversation that are read.
const READ: u64 = 20_000;

/// How long a review may take: as long as it does there is no other.
const PATIENCE: Duration = Duration::from_secs(300);

/// Has a model look, in the background, at what can be learned of a turn that completed.
///
/// AFTER_GRAPH, name `experience_review`. It looks when no review is under way, the conversation has at least
/// [`min_messages`](ExperienceReview::min_messages) messages (twice as many in the turns after an experience was written), and the turn
/// wrote none itself. The review is a task of the hook's: it ends with the hook, that is with the agents that have it, wherever it
/// is, and after five minutes. It costs the turn nothing, and no budget of the turn's is charged. One that fails is logged.
#[derive(Clone)]
pub struct ExperienceReview(Arc<Inner>);

struct Inner {
    files: ExperienceFiles,
    reviewer: Agent,
    min_messages: usize,
    cooldown: usize,
    under_way: Mutex<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.under_way.get_mut().take() {
            task.abort();
        }
    }
}

impl ExperienceReview {
    /// Messages of a conversation from which on it is looked at.
    pub const MIN_MESSAGES: usize = 10;
    /// Turns after a writing in which twice as many are wanted.
    pub const COOLDOWN: usize = 3;

    /// By this model, which writes there. None of the turn's layers stands around it.
    ///
    /// # Errors
    /// None that is known: an agent with these tools can be built.
    pub fn new(files: ExperienceFiles, model: ModelHandle) -> Result<Self, BuildError> {
        Self::by_agent(files, Agent::builder("experience_review", model))
    }

    /// By this agent, which writes there: for those that need layers of their own, such as one that redacts or repeats. What it is
    /// to do, the tools it does it with, and the five minutes it has are set here.
    ///
    /// # Errors
    /// Why it cannot be built, such as a tool of the same name.
    pub fn by_agent(files: ExperienceFiles, reviewer: AgentBuilder) -> Result<Self, BuildError> {
        let (write, read) = files.tools();
        let reviewer = reviewer.instructions(INSTRUCTIONS);
        let reviewer = reviewer.tool(write).tool(read).deadline(PATIENCE).build()?;
        let (min_messages, cooldown) = (Self::MIN_MESSAGES, Self::COOLDOWN);
        Ok(Self(Arc::new(Inner { files, reviewer, min_messages, cooldown, under_way: Mutex::default() })))
    }

    /// From how many messages on. 10 by default.
    #[must_use]
    pub fn min_messages(self, messages: usize) -> Self {
        let Inner { files, reviewer, cooldown, .. } = &*self.0;
        let (files, reviewer, cooldown) = (files.clone(), reviewer.clone(), *cooldown);
        Self(Arc::new(Inner {
            files,
            reviewer,
            min_messages: messages,
            cooldown,
            under_way: Mutex::default(),
        }))
    }

    /// Whether a review is under way.
    pub fn is_busy(&self) -> bool {
        self.0.under_way.lock().as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl Inner {
    fn is_due(&self, messages: &[Arc<Message>]) -> bool {
        let wrote = |message: &&Arc<Message>| message.tool_calls().any(|call| call.name == WRITE_EXPERIENCE);
        let since = messages.iter().rev().take_while(|message| !wrote(message));
        let turns = since.filter(|message| is_users(message)).count();
        let ever = messages.iter().any(|message| wrote(&message));
        match ever {
            true if turns == 0 => false,
            true if turns <= self.cooldown => messages.len() >= 2 * self.min_messages,
            _ => messages.len() >= self.min_messages,
        }
    }
}

impl AfterGraph for ExperienceReview {
    async fn after_graph(&self, ctx: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        let messages = ctx.history().snapshot().messages;
        let said = messages.iter().filter(|m| matches!(m.role, Role::User | Role::Assistant)).count();
        if result.outcome() != Outcome::Completed || said == 0 || self.is_busy() || !self.0.is_due(&messages)
        {
            return Ok(());
        }
        let known = self.0.files.list().await?;
        let known: String =
            known.iter().map(|one| format!("- {}: {}\n", one.name, one.description)).collect();
        let text = format!("Kept before:\n{known}\nThe conversation:\n\n{}", transcript(&messages, READ));
        let (session, reviewer) = (ctx.session().clone(), self.0.reviewer.clone());
        let mut under_way = self.0.under_way.lock();
        if under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        let review = tokio::spawn(async move {
            // Dropped with the task, the handle interrupts the turn.
            let result = match reviewer.run(text) {
                Ok(mut turn) => turn.result().await.and_then(|result| result.error).map(|e| e.to_string()),
                Err(e) => Some(e.to_string()),
            };
            if let Some(why) = result {
                tracing::warn!("the review of session {session} failed: {why}");
            }
        });
        *under_way = Some(review.abort_handle());
        Ok(())
    }
}

impl From<ExperienceReview> for HookSpec {
    fn from(value: ExperienceReview) -> Self {
        hook!(value).name("experience_review")
    }
}
