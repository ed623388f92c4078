//! `consolidation`: a core memory that has become long is written anew, shorter.

use std::time::Duration;

use turnwright_core::{AgentResult, Outcome, TokenUsage, TurnContext};
use turnwright_hook::{HookError, HookSpec, MemoryEvent, MemoryRunner, hook, point::AfterGraph};
use turnwright_llm_stream::{ModelHandle, estimate};
use turnwright_react_runtime::{Agent, Parent};

use super::{CoreMemory, CoreMemoryError};

const INSTRUCTIONS: &str = "You are given the notes that an assistant keeps about the person it works for. Write them anew, shorter: \
    join what belongs together, leave out what is superseded or said twice, keep names, numbers and decisions exactly. Write the \
    notes and nothing else, one fact a line.";

/// How long the model may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Has a model write the core memory anew when it has become long.
///
/// AFTER_GRAPH, name `consolidation`: after a turn that completed, when the file has more than
/// [`above`](Consolidation::above) tokens. What comes out must be shorter, and the file must not have changed meanwhile; else
/// nothing changes. It tells [`MemoryEvent::ConsolidationFinished`], and the memory itself tells of the change. The turn's
/// answer is known by then; the session is free when it is done. It is cancelled with the turn, and charged to its budget.
#[derive(Clone)]
pub struct Consolidation {
    memory: CoreMemory,
    writer: Option<Agent>,
    above: u64,
    runner: MemoryRunner,
}

impl Consolidation {
    /// Of this memory, by this model.
    pub fn new(memory: CoreMemory, model: ModelHandle) -> Self {
        let writer = Agent::builder("consolidation", model).instructions(INSTRUCTIONS).build().ok();
        Self { memory, writer, above: 2000, runner: MemoryRunner::default() }
    }

    /// From how many tokens on, as estimated. 2,000 by default.
    #[must_use]
    pub fn above(mut self, tokens: u64) -> Self {
        self.above = tokens;
        self
    }

    /// Tells these.
    #[must_use]
    pub fn tell(mut self, runner: MemoryRunner) -> Self {
        self.runner = runner;
        self
    }

    async fn consolidate(&self, ctx: &TurnContext, before: &str) -> (TokenUsage, Result<u64, String>) {
        let Some(writer) = &self.writer else {
            return (TokenUsage::UNKNOWN, Err("there is no model".into()));
        };
        let parent = Parent::from(ctx.cancel());
        let parent = match ctx.budget() {
            Some(budget) => parent.budget(budget.clone()),
            None => parent,
        };
        let mut turn = match writer.new_session().start_under(parent, before) {
            Ok(turn) => turn,
            Err(e) => return (TokenUsage::UNKNOWN, Err(e.to_string())),
        };
        let Some(AgentResult { content, error, usage, .. }) = turn.result().await else {
            return (TokenUsage::UNKNOWN, Err("it waits for somebody".into()));
        };
        if let Some(error) = error {
            return (usage, Err(error.to_string()));
        }
        let content = format!("{}\n", content.trim());
        if content.trim().is_empty() || content.len() >= before.len() {
            return (usage, Err("what came out is not shorter".into()));
        }
        let after = estimate::text(&content);
        let changed = self.memory.change(ctx, "consolidate", |now| match now == before {
            true => Ok(content),
            // Somebody wrote meanwhile: theirs counts.
            false => Ok(now.to_owned()),
        });
        match changed.await {
            Ok(now) if estimate::text(&now) == after => (usage, Ok(after)),
            Ok(_) => (usage, Err("the core memory was changed meanwhile".into())),
            Err(CoreMemoryError::Control(control)) => (usage, Err(control.to_string())),
            Err(e) => (usage, Err(e.to_string())),
        }
    }
}

impl AfterGraph for Consolidation {
    async fn after_graph(&self, ctx: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        if result.outcome() != Outcome::Completed {
            return Ok(());
        }
        let before = self.memory.read().await?;
        let tokens_before = estimate::text(&before);
        if tokens_before <= self.above {
            return Ok(());
        }
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let (usage, done) = self.consolidate(ctx, &before).await;
        let event = MemoryEvent::ConsolidationFinished {
            changed: done.is_ok(),
            tokens_before,
            tokens_after: *done.as_ref().unwrap_or(&tokens_before),
            usage,
            elapsed: clock.instant().saturating_duration_since(began),
            error: done.err(),
        };
        self.runner.tell(ctx, &event).await?;
        Ok(())
    }
}

impl From<Consolidation> for HookSpec {
    fn from(value: Consolidation) -> Self {
        hook!(value).name("consolidation").timeout(PATIENCE)
    }
}
