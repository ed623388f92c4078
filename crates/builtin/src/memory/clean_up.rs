//! `clean_up`: a history that has become too long is summarised.

use std::{sync::Arc, time::Duration};

use turnwright_core::{HistoryError, Message, MessageId, Origin, Part, Role, TokenUsage, TurnContext};
use turnwright_hook::{HookError, HookSpec, MemoryEvent, MemoryRunner, hook, point::BeforeIteration};
use turnwright_llm_stream::{ModelHandle, estimate};
use turnwright_react_runtime::{Agent, Parent};

/// What the model that summarises is told.
const INSTRUCTIONS: &str = "You are given the older part of a conversation between a person and an assistant that uses tools. \
    Write down, for the assistant, what it must know to go on: what the person wants, in their own words where they matter; \
    decisions and their reasons; facts, names, paths, numbers and identifiers that were found; what was done, and what is left. \
    Leave out courtesies and what was superseded. Write no more than 600 words, and nothing else than the notes.";

/// What stands before them in a summary.
const LAST_WORDS: &str = "\n\n[The user's last words]\n";

/// How long the model may take over a summary.
const PATIENCE: Duration = Duration::from_secs(120);
/// Shares of the window, in percent: from where a clean-up begins, what stays word by word, what the summarising model reads.
const TRIGGER: u64 = 70;
const KEEP: u64 = 20;
const READ: u64 = 70;

/// Summarises the older part of a history that takes up too much of the model's window.
///
/// BEFORE_ITERATION, name `clean_up`; before each model call, also within a long turn. When what the model would be sent is estimated
/// at more than 70 % of the window, everything but the last 20 % is summarised: by a model, if it has one
/// ([`by`](CleanUp::by)), else by a note of how much is missing. Calls and their results stay together; the user's last words
/// are in the summary where they are not in what stays. The summary takes their place in one step
/// ([`History::collapse`](turnwright_core::History::collapse)): what came meanwhile is not overwritten, the clean-up is given up
/// then, and tried again before the next call. The history itself keeps everything.
///
/// It tells [`MemoryEvent::CleanupTriggered`] and [`MemoryEvent::CleanupFinished`]. What the summary costs is charged to the
/// turn's budget; it is cancelled with the turn. A model that fails leaves the history as it is.
#[derive(Clone)]
pub struct CleanUp {
    window: u64,
    summarizer: Option<Agent>,
    runner: MemoryRunner,
}

impl CleanUp {
    /// For a model with a window of so many tokens.
    pub fn for_window(tokens: u64) -> Self {
        Self { window: tokens, summarizer: None, runner: MemoryRunner::default() }
    }

    /// Has this model write the summaries.
    ///
    /// # Panics
    /// Never: an agent without tools can always be built.
    #[must_use]
    pub fn by(mut self, model: ModelHandle) -> Self {
        self.summarizer = Agent::builder("clean_up", model).instructions(INSTRUCTIONS).build().ok();
        self
    }

    /// Tells these.
    #[must_use]
    pub fn tell(mut self, runner: MemoryRunner) -> Self {
        self.runner = runner;
        self
    }

    fn share(&self, percent: u64) -> u64 {
        self.window.saturating_mul(percent) / 100
    }

    /// What stands for these messages, and what writing it used.
    async fn summary(&self, ctx: &TurnContext, old: &[Arc<Message>]) -> Result<(String, TokenUsage), String> {
        let Some(summarizer) = &self.summarizer else {
            let words = format!(
                "[{} earlier messages of this conversation are left out: they did not fit.]",
                old.len()
            );
            return Ok((words, TokenUsage::UNKNOWN));
        };
        let parent = Parent::from(ctx.cancel());
        let parent = match ctx.budget() {
            Some(budget) => parent.budget(budget.clone()),
            None => parent,
        };
        let text = transcript(old, self.share(READ));
        let mut turn = summarizer.new_session().start_under(parent, text).map_err(|e| e.to_string())?;
        let result = turn.result().await.ok_or("the summary waits for somebody")?;
        match result.error {
            None if !result.content.trim().is_empty() => {
                Ok((format!("[Summary of what came before]\n{}", result.content.trim()), result.usage))
            }
            None => Err("the summary is empty".into()),
            Some(error) => Err(error.to_string()),
        }
    }

    /// Puts the summary in their place. Says how many tokens the model would be sent now.
    async fn clean(
        &self,
        ctx: &TurnContext,
        seen: Seen,
        cut: usize,
    ) -> Result<(MessageId, u64, TokenUsage), String> {
        let Seen { messages, revision, .. } = seen;
        let (old, kept) = messages.split_at(cut);
        let through = old.last().map(|message| message.id).ok_or("there is nothing to summarise")?;
        let (mut text, usage) = self.summary(ctx, old).await?;
        if let Some(words) = last_words(old).filter(|_| last_words(kept).is_none()) {
            text.push_str(LAST_WORDS);
            text.push_str(&words);
        }
        let summary = Message::user(ctx.sources().id(), text);
        let after = estimate::message(&summary) + tokens(kept);
        ctx.history().collapse(through, summary, revision).map_err(|e: HistoryError| e.to_string())?;
        Ok((through, after, usage))
    }
}

/// What the model would be sent.
struct Seen {
    messages: Vec<Arc<Message>>,
    revision: u64,
    tokens: u64,
}

impl BeforeIteration for CleanUp {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let history = ctx.history().snapshot();
        let messages = turnwright_core::history::view(history.messages);
        let seen = Seen { tokens: tokens(&messages), messages, revision: history.revision };
        let (limit, before) = (self.share(TRIGGER), seen.tokens);
        if before <= limit {
            return Ok(());
        }
        let Some(cut) = cut(&seen.messages, self.share(KEEP)) else { return Ok(()) };
        self.runner.tell(ctx, &MemoryEvent::CleanupTriggered { tokens: before, limit }).await?;
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let cleaned = self.clean(ctx, seen, cut).await;
        let elapsed = clock.instant().saturating_duration_since(began);
        let event = match &cleaned {
            Ok((through, after, usage)) => MemoryEvent::CleanupFinished {
                pruned: cut,
                through: Some(*through),
                tokens_before: before,
                tokens_after: *after,
                usage: *usage,
                elapsed,
                error: None,
            },
            Err(why) => MemoryEvent::CleanupFinished {
                pruned: 0,
                through: None,
                tokens_before: before,
                tokens_after: before,
                usage: TokenUsage::UNKNOWN,
                elapsed,
                error: Some(why.clone()),
            },
        };
        self.runner.tell(ctx, &event).await?;
        cleaned.map(drop).map_err(HookError::msg)
    }
}

fn tokens(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| estimate::message(message)).sum()
}

pub(crate) fn is_users(message: &Message) -> bool {
    message.role == Role::User && !matches!(message.origin, Origin::Hook(_) | Origin::Summary { .. })
}

/// The last thing the user said, or what an earlier summary has of it.
fn last_words(messages: &[Arc<Message>]) -> Option<String> {
    messages.iter().rev().find_map(|message| match message.origin {
        Origin::Summary { .. } => message.text().split_once(LAST_WORDS).map(|(_, words)| words.to_owned()),
        _ => is_users(message).then(|| message.text()),
    })
}

/// How many of the messages the summary is to stand for, so that what stays has at most so many tokens and begins with no
/// result. None where that is nothing, or a summary alone.
fn cut(messages: &[Arc<Message>], keep: u64) -> Option<usize> {
    let mut kept = 0;
    let mut at = messages.len();
    while at > 0 {
        kept += estimate::message(&messages[at - 1]);
        if kept > keep {
            break;
        }
        at -= 1;
    }
    // The last round stays, however large: the model must see what it asked for.
    let last = messages.iter().rposition(|message| message.role != Role::Tool)?;
    at = at.min(last);
    while at > 0 && messages[at].role == Role::Tool {
        at -= 1;
    }
    let is_worth_it = messages[..at].iter().any(|message| !matches!(message.origin, Origin::Summary { .. }));
    is_worth_it.then_some(at)
}

/// The conversation as text, its oldest part left out where it has more than so many tokens.
pub(crate) fn transcript(messages: &[Arc<Message>], most: u64) -> String {
    let mut lines = Vec::new();
    let mut size = 0;
    for message in messages.iter().rev() {
        let line = line(message);
        size += estimate::text(&line);
        if size > most {
            lines.push("[what came before is left out]".to_owned());
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n\n")
}

fn line(message: &Message) -> String {
    let who = match (message.role, &message.origin) {
        (_, Origin::Summary { .. }) => "EARLIER NOTES",
        (_, Origin::Hook(_)) | (Role::System, _) => "SYSTEM",
        (Role::User, _) => "PERSON",
        (Role::Assistant, _) => "ASSISTANT",
        (Role::Tool, _) => "TOOL",
    };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolCall(call) => Some(format!("[calls {}({})]", call.name, short(&call.arguments))),
        Part::ToolResult(result) => Some(format!("[{} gave] {}", result.tool(), short(&result.content))),
        Part::Image(_) => Some("[an image]".into()),
        _ => None,
    });
    format!("{who}: {}", parts.collect::<Vec<_>>().join("\n"))
}

/// Results are long, and what matters of them was said after.
fn short(text: &str) -> String {
    const MOST: usize = 2000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

impl From<CleanUp> for HookSpec {
    fn from(value: CleanUp) -> Self {
        hook!(value).name("clean_up").priority(-100).timeout(PATIENCE)
    }
}
