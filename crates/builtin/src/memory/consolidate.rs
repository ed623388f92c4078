//! `consolidation`: a core memory that has become long is written anew, shorter.

use turnwright_core::{AgentResult, Outcome, TokenUsage, TurnContext};
use turnwright_hook::{HookError, HookSpec, MemoryEvent, MemoryRunner, hook, point::AfterGraph};
use turnwright_llm_stream::{ModelHandle, estimate};
use turnwright_react_runtime::Agent;

use super::{
    CoreMemory, CoreMemoryError,
    aside::{Aside, IN_ALL},
};

/// What the model is asked.
const TASK: &str = "Below are the notes that an assistant keeps about the person it works for. Write them anew, shorter: join what \
    belongs together, leave out what is superseded or said twice, keep names, numbers and decisions exactly. Write the notes and \
    nothing else, one fact a line.";

/// Has a model write the core memory anew when it has become long.
///
/// AFTER_GRAPH, name `consolidation`: after a turn that completed, when the file has more than
/// [`above`](Consolidation::above) tokens. What comes out must be shorter, and the file must not have changed meanwhile; else
/// nothing changes. It tells [`MemoryEvent::ConsolidationFinished`], and the memory itself tells of the change. The turn's
/// answer is known by then; the session is free when it is done, after two minutes at most. It is cancelled with the turn, and
/// charged to its budget, if it has one.
#[derive(Clone)]
pub struct Consolidation {
    memory: CoreMemory,
    writer: Aside,
    above: u64,
    runner: MemoryRunner,
}

impl Consolidation {
    /// Tokens from which on a core memory is long, unless [`Self::above`] says otherwise.
    pub const ABOVE: u64 = 2000;

    /// Of this memory, by this model. None of the turn's layers stands around it.
    pub fn new(memory: CoreMemory, model: ModelHandle) -> Self {
        Self::with(memory, Aside::model("consolidation", model))
    }

    /// Of this memory, by this agent: for those that need layers of their own, such as one that redacts or repeats. It is told
    /// what to do, and should have no tools.
    pub fn by_agent(memory: CoreMemory, agent: Agent) -> Self {
        Self::with(memory, Aside::agent("consolidation", agent))
    }

    fn with(memory: CoreMemory, writer: Aside) -> Self {
        Self { memory, writer, above: Self::ABOVE, runner: MemoryRunner::default() }
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

    /// The tokens there are now, or why nothing changed; and what it used.
    async fn consolidate(&self, ctx: &TurnContext, before: String) -> (TokenUsage, Result<u64, HookError>) {
        let (usage, notes) = self.writer.ask(ctx, TASK, ("notes", &before)).await;
        let content = match notes.map(|notes| format!("{notes}\n")) {
            Ok(content) if content.len() < before.len() => content,
            Ok(_) => return (usage, Err(HookError::msg("what came out is not shorter"))),
            Err(why) => return (usage, Err(HookError::msg(why))),
        };
        let change = move |now: &str| match now == before {
            true => Ok(content),
            // Somebody wrote meanwhile: theirs counts.
            false => Err(CoreMemoryError::Changed),
        };
        let changed = self.memory.change(ctx, "consolidate", change).await;
        (usage, changed.map(|now| estimate::text(&now)).map_err(HookError::from))
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
        let (usage, done) = self.consolidate(ctx, before).await;
        let done = match done {
            Err(e) if e.control().is_some() => return Err(e),
            done => done.map_err(|e| e.to_string()),
        };
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
        hook!(value).name("consolidation").timeout(IN_ALL)
    }
}
