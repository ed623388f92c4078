//! `context_assembly`: what memory knows, told at the beginning of a turn.

use std::sync::Arc;

use turnwright_core::{BoxFuture, Origin, TurnContext};
use turnwright_hook::{
    ContextSection, HookError, HookSpec, MemoryEvent, MemoryRunner, hook, point::StartNodeTurn,
};
use turnwright_llm_stream::estimate;

use super::CoreMemory;
use crate::remind;

/// Knows something that the model should be told at the beginning of a turn.
pub trait ContextSource: Send + Sync + 'static {
    /// Its name: the heading of what it says.
    fn name(&self) -> &str;

    /// What it knows; empty when that is nothing.
    ///
    /// # Errors
    /// Why it cannot say. It is left out then, and the turn goes on.
    fn retrieve<'a>(&'a self, ctx: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>>;
}

/// Asks its sources at the beginning of a fresh turn, and tells the model what they know, within a budget.
///
/// START_NODE_TURN, name `context_assembly`. Sources are asked in the order in which they were added; where they have more than
/// the budget, those of the lowest priority are cut first. What is said is one reminder, at the end of the history: what came
/// before stays the same to the byte, so that a provider's cache of the prompt stays good. A source that says what it said last
/// in this conversation is not told again.
///
/// It tells [`MemoryEvent::ContextAssembled`].
#[derive(Clone)]
pub struct ContextAssembly {
    sources: Vec<(i32, Arc<dyn ContextSource>)>,
    budget: u64,
    runner: MemoryRunner,
}

impl Default for ContextAssembly {
    /// No sources; 4,000 tokens.
    fn default() -> Self {
        Self { sources: Vec::new(), budget: 4000, runner: MemoryRunner::default() }
    }
}

impl ContextAssembly {
    /// Adds a source; of those with the lowest priority something is left out first.
    #[must_use]
    pub fn source(mut self, priority: i32, source: impl ContextSource) -> Self {
        self.sources.push((priority, Arc::new(source)));
        self
    }

    /// How many tokens may be said at most, as estimated. 4,000 by default.
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
}

struct Retrieved {
    text: String,
    section: ContextSection,
}

impl StartNodeTurn for ContextAssembly {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let mut all = Vec::new();
        for (priority, source) in &self.sources {
            let text = match source.retrieve(ctx).await {
                Ok(text) => text,
                Err(e) if e.control().is_some() => return Err(e),
                Err(e) => {
                    tracing::warn!("context source {} says nothing: {e}", source.name());
                    String::new()
                }
            };
            let retrieved = estimate::text(&text);
            let section = ContextSection {
                source: source.name().into(),
                retrieved,
                injected: retrieved,
                pruned: 0,
                priority: *priority,
            };
            all.push(Retrieved { text, section });
        }
        prune(&mut all, self.budget);
        let known = told(ctx);
        let mut words = Vec::new();
        for one in &mut all {
            let said = format!("## {}\n{}", one.section.source, one.text.trim());
            if one.text.trim().is_empty() || known.iter().any(|text| text.contains(&said)) {
                one.section.injected = 0;
            } else {
                words.push(said);
            }
        }
        if !words.is_empty() {
            remind(ctx, NAME, words.join("\n\n"))?;
        }
        let elapsed = clock.instant().saturating_duration_since(began);
        let sections = all.into_iter().map(|one| one.section).collect();
        self.runner.tell(ctx, &MemoryEvent::ContextAssembled { sections, elapsed }).await?;
        Ok(())
    }
}

const NAME: &str = "context_assembly";

/// What the model was told and still sees, the latest of each source only: what was said before something else is old.
fn told(ctx: &TurnContext) -> Vec<String> {
    let seen = turnwright_core::history::view(ctx.history().snapshot().messages);
    let mine = seen.iter().rev().filter(|message| message.origin == Origin::Hook(NAME.into()));
    let mut told: Vec<String> = Vec::new();
    for message in mine {
        for section in message.text().split("\n\n## ") {
            let heading = section.lines().find(|line| !line.starts_with('<')).unwrap_or_default();
            let heading = heading.trim_start_matches("## ").to_owned();
            let is_newer = told.iter().any(|text| text.starts_with(&format!("## {heading}\n")));
            if !is_newer {
                let body = section.trim_start_matches("<system-reminder>\n").trim_start_matches("## ");
                told.push(format!("## {body}"));
            }
        }
    }
    told
}

/// Cuts the lowest priorities first, until what is left fits.
fn prune(all: &mut [Retrieved], budget: u64) {
    let mut over = all.iter().map(|one| one.section.retrieved).sum::<u64>().saturating_sub(budget);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (all[*at].section.priority, std::cmp::Reverse(*at)));
    for at in order {
        if over == 0 {
            break;
        }
        let one = &mut all[at];
        let keeps = one.section.retrieved.saturating_sub(over);
        let bytes = usize::try_from(keeps).unwrap_or(usize::MAX).saturating_mul(estimate::BYTES_A_TOKEN);
        one.text.truncate(one.text.floor_char_boundary(bytes.min(one.text.len())));
        let injected = estimate::text(&one.text);
        over = over.saturating_sub(one.section.retrieved.saturating_sub(injected));
        (one.section.injected, one.section.pruned) =
            (injected, one.section.retrieved.saturating_sub(injected));
    }
}

impl ContextSource for CoreMemory {
    fn name(&self) -> &str {
        "Core memory"
    }

    fn retrieve<'a>(&'a self, _: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move { Ok(self.read().await?) })
    }
}

/// Instructions that are made anew for each turn: a source of [`ContextAssembly`] from a function.
pub struct DynamicInstructions<F> {
    name: String,
    make: F,
}

impl<F: Fn(&TurnContext) -> String + Send + Sync + 'static> DynamicInstructions<F> {
    /// Under this heading, by this function. It must not block.
    pub fn new(name: impl Into<String>, make: F) -> Self {
        Self { name: name.into(), make }
    }
}

impl<F: Fn(&TurnContext) -> String + Send + Sync + 'static> ContextSource for DynamicInstructions<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn retrieve<'a>(&'a self, ctx: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move { Ok((self.make)(ctx)) })
    }
}

impl From<ContextAssembly> for HookSpec {
    fn from(value: ContextAssembly) -> Self {
        hook!(value).name(NAME)
    }
}
