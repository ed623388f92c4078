//! `context_assembly`: what memory knows, told at the beginning of a turn.

mod source;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, future::join_all};
use turnwright_core::{BoxFuture, History, Message, TurnContext, history, panic::panic_text};
use turnwright_hook::{
    ContextSection, HookError, HookSpec, MemoryEvent, MemoryHook, MemoryRunner, hook, point::StartNodeTurn,
};
use turnwright_llm_stream::estimate;

pub use source::{ContextSource, DynamicInstructions};

use crate::reminder::reminder;

const NAME: &str = "context_assembly";

/// How long a source may take: less than the hook may, so that one that hangs keeps nothing of the others back.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks its sources at the beginning of a fresh turn, and tells the model what they know, within a budget.
///
/// START_NODE_TURN, name `context_assembly`. All sources are asked at once, five seconds each; one that fails, panics or takes longer
/// is left out, and that is logged. Where they have more than the budget, those of the lowest priority are cut first.
///
/// What a source says is a reminder, at the end of the history, in the order in which sources were added: what came before stays
/// the same to the byte, so that a provider's cache of the prompt stays good. A source that says what it said last is not told
/// again, as long as the model still sees that; one that says nothing any more is told so, once.
///
/// As a [`MemoryHook`] of a [`CleanUp`](super::CleanUp) it tells what a summary took out of the model's sight, in the turn that runs.
/// It tells [`MemoryEvent::ContextAssembled`].
#[derive(Clone)]
pub struct ContextAssembly {
    sources: Vec<(i32, Arc<dyn ContextSource>)>,
    budget: u64,
    runner: MemoryRunner,
}

impl Default for ContextAssembly {
    /// No sources; [`Self::BUDGET`].
    fn default() -> Self {
        Self { sources: Vec::new(), budget: Self::BUDGET, runner: MemoryRunner::default() }
    }
}

impl ContextAssembly {
    /// Tokens that are said at most, unless [`Self::budget`] says otherwise.
    pub const BUDGET: u64 = 4000;

    /// Adds a source; of those with the lowest priority something is left out first.
    #[must_use]
    pub fn source(mut self, priority: i32, source: impl ContextSource) -> Self {
        self.sources.push((priority, Arc::new(source)));
        self
    }

    /// How many tokens may be said at most, as estimated.
    #[must_use]
    pub fn budget(mut self, tokens: u64) -> Self {
        self.budget = tokens;
        self
    }

    /// Tells these.
    #[must_use]
    pub fn tell(mut self, runner: MemoryRunner) -> Self {
        self.runner = runner;
        self
    }

    async fn assemble(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let asked = self.sources.iter().map(|(priority, source)| retrieve(ctx, *priority, &**source));
        let mut all = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        prune(&mut all, self.budget);
        for at in 0..all.len() {
            let same = all[..at].iter().filter(|one| one.section.source == all[at].section.source).count();
            if !tell(ctx, &all[at], same)? {
                all[at].section.injected = 0;
            }
        }
        let elapsed = clock.instant().saturating_duration_since(began);
        let sections = all.into_iter().map(|one| one.section).collect();
        self.runner.tell(ctx, &MemoryEvent::ContextAssembled { sections, elapsed }).await?;
        Ok(())
    }
}

/// What a source said.
struct Retrieved {
    /// None when it could not say.
    text: Option<String>,
    section: ContextSection,
}

/// Asks a source.
///
/// # Errors
/// A control error.
async fn retrieve(
    ctx: &TurnContext,
    priority: i32,
    source: &dyn ContextSource,
) -> Result<Retrieved, HookError> {
    let asked = AssertUnwindSafe(async { source.retrieve(ctx).await }).catch_unwind();
    let said = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(Err(e))) if e.control().is_some() => return Err(e),
        Ok(Ok(said)) => said.map_err(|e| e.to_string()),
        Ok(Err(panic)) => Err(format!("it panicked: {}", panic_text(&*panic))),
        Err(_) => Err(format!("it took longer than {PATIENCE:?}")),
    };
    let name = source.name().to_owned();
    if let Err(why) = &said {
        tracing::warn!("context source {name} says nothing: {why}");
    }
    let text = said.ok().map(|text| text.trim().to_owned());
    let retrieved = text.as_deref().map_or(0, estimate::text);
    let section = ContextSection { source: name, retrieved, injected: retrieved, pruned: 0, priority };
    Ok(Retrieved { text, section })
}

/// Cuts the lowest priorities first, until what is left fits.
fn prune(all: &mut [Retrieved], budget: u64) {
    let mut over = all.iter().map(|one| one.section.retrieved).sum::<u64>().saturating_sub(budget);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (all[*at].section.priority, std::cmp::Reverse(*at)));
    for at in order {
        let Retrieved { text: Some(text), section } = &mut all[at] else { continue };
        if over == 0 || text.is_empty() {
            continue;
        }
        let keeps = section.retrieved.saturating_sub(over);
        let bytes = usize::try_from(keeps).unwrap_or(usize::MAX).saturating_mul(estimate::BYTES_A_TOKEN);
        text.truncate(text.floor_char_boundary(bytes));
        section.injected = estimate::text(text);
        section.pruned = section.retrieved.saturating_sub(section.injected);
        over = over.saturating_sub(section.pruned);
        if section.injected > 0 {
            text.push_str("… [the rest did not fit]");
        }
    }
}

/// Tells the model, unless it knows. Says whether it was told. So many sources before it have the same name.
fn tell(ctx: &TurnContext, one: &Retrieved, same: usize) -> Result<bool, HookError> {
    let Retrieved { text: Some(text), section: ContextSection { source, pruned, .. } } = one else {
        return Ok(false);
    };
    let words = match text.is_empty() {
        // What did not fit is not gone.
        true if *pruned > 0 => return Ok(false),
        true => format!("## {source}\n(nothing any more)"),
        false => format!("## {source}\n{text}"),
    };
    let mut message = reminder(ctx, NAME, words);
    message.key = Some(match same {
        0 => format!("context:{source}"),
        same => format!("context:{source}:{same}"),
    });
    let is_known = match last_told(ctx.history(), &message) {
        Some((told, is_seen)) => told.text() == message.text() && (is_seen || text.is_empty()),
        None => text.is_empty(),
    };
    if !is_known {
        ctx.history().append(message)?;
    }
    Ok(!is_known)
}

/// What was last told under the same key, and whether the model still sees it.
fn last_told(history: &dyn History, message: &Message) -> Option<(Arc<Message>, bool)> {
    let all = history.snapshot().messages;
    let is_it = |told: &&Arc<Message>| told.key == message.key && told.origin == message.origin;
    let told = all.iter().rev().find(is_it)?.clone();
    let is_seen = history::view(all).iter().any(|seen| seen.id == told.id);
    Some((told, is_seen))
}

impl StartNodeTurn for ContextAssembly {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        self.assemble(ctx).await
    }
}

impl MemoryHook for ContextAssembly {
    fn name(&self) -> &str {
        NAME
    }

    fn on<'a>(
        &'a self,
        ctx: &'a TurnContext,
        event: &'a MemoryEvent,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            match event {
                MemoryEvent::CleanupFinished { pruned: 1.., .. } => self.assemble(ctx).await,
                _ => Ok(()),
            }
        })
    }
}

impl From<ContextAssembly> for HookSpec {
    fn from(value: ContextAssembly) -> Self {
        hook!(value).name(NAME)
    }
}
