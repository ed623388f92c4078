//! `clean_up`: a history that has become too long is summarised.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwright_core::{Message, MessageId, Origin, Role, StateKey, TokenUsage, TurnContext, history};
use turnwright_hook::{
    HookError, HookSpec, MemoryEvent, MemoryRunner, hook,
    point::{AfterLlmResponse, BeforeLlm},
};
use turnwright_llm_stream::{
    LlmRequest, LlmResponse, ModelHandle,
    estimate::{self, BYTES_A_TOKEN},
};
use turnwright_react_runtime::Agent;

use super::{
    aside::{Aside, IN_ALL},
    transcript::{is_users, transcript},
};

/// What the model that summarises is asked.
const TASK: &str = "Below is the older part of a conversation between a person and an assistant that uses tools. Write down, for the \
    assistant, what it must know to go on: what the person wants, in their own words where they matter; decisions and their \
    reasons; facts, names, paths, numbers and identifiers that were found; what was done, and what is left. Leave out courtesies and \
    what was superseded. Write no more than 600 words, and nothing else than the notes.";

/// What stands before them in a summary.
const LAST_WORDS: &str = "\n\n[The user's last words]\n";

/// Shares of the window, in percent: from where a clean-up begins; what stays word by word; what must be to summarise; what the
/// summarising model reads.
const TRIGGER: u64 = 70;
const KEEP: u64 = 20;
const WORTH: u64 = 10;
const READ: u64 = 70;

/// Failures in a row after which a turn is left as it is.
const MOST_FAILURES: u32 = 3;

/// By how much more a provider may count than is estimated before it is not believed.
const FACTOR: u64 = 4;

/// Summarises the older part of a history that takes up too much of the model's window.
///
/// BEFORE_LLM, before each model call, also within a long turn; and AFTER_LLM_RESPONSE, to learn what the provider counts; name
/// `clean_up`. When the request (instructions, tools and all) is estimated at more than 70 % of the window, everything but the last
/// 20 % is summarised: by a model, if it has one ([`by`](CleanUp::by)), else by a note of how much is missing. Where the provider
/// counted more for the turn's last request than was estimated, this one is taken to be larger by as much. Less than 10 % of
/// the window is not worth a summary.
///
/// Calls and their results stay together; the user's last words are in the summary where they are not in what stays. The
/// summary takes their place in one step ([`History::collapse`](turnwright_core::History::collapse)): what came meanwhile is not
/// overwritten, the clean-up is given up then. The history itself keeps everything. A model that fails, takes longer than two
/// minutes, or writes more than it was given leaves it as it is; that is tried again before the next calls, and after three
/// failures in a row no more in this turn.
///
/// It tells [`MemoryEvent::CleanupTriggered`] and [`MemoryEvent::CleanupFinished`], the second one unless the turn is cut meanwhile. What
/// the summary costs is in the turn's total, and charged to its budget, if it has one; it is cancelled with the turn.
#[derive(Clone)]
pub struct CleanUp {
    window: u64,
    summarizer: Option<Aside>,
    runner: MemoryRunner,
}

/// What the turn knows of its requests, in tokens.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Known {
    /// What the last request was estimated at.
    asking: u64,
    /// The same of the last one that was answered, and what its provider counted.
    asked: u64,
    read: u64,
    /// Clean-ups that failed in a row.
    failures: u32,
}

static KNOWN: StateKey<Known> = StateKey::new("turnwright.clean_up/known", 1);

impl Known {
    fn of(ctx: &TurnContext) -> Result<Self, HookError> {
        Ok(ctx.state().get(&KNOWN)?.map_or_else(Self::default, |known| *known))
    }

    /// An estimate as the provider would count it: more than was estimated, or the same.
    fn counted(&self, estimated: u64) -> u64 {
        let counted = u128::from(estimated) * u128::from(self.read) / u128::from(self.asked.max(1));
        let most = estimated.saturating_mul(FACTOR);
        u64::try_from(counted).unwrap_or(most).min(most).max(estimated)
    }
}

impl CleanUp {
    /// For a model with a window of so many tokens.
    pub fn for_window(tokens: u64) -> Self {
        Self { window: tokens, summarizer: None, runner: MemoryRunner::default() }
    }

    /// Has this model write the summaries. None of the turn's layers stands around it.
    #[must_use]
    pub fn by(mut self, model: ModelHandle) -> Self {
        self.summarizer = Some(Aside::model("clean_up", model));
        self
    }

    /// Has this agent write the summaries: for those that need layers of their own, such as one that redacts or repeats. It
    /// is told what to do, and should have no tools.
    #[must_use]
    pub fn by_agent(mut self, agent: Agent) -> Self {
        self.summarizer = Some(Aside::agent("clean_up", agent));
        self
    }

    /// Tells these.
    #[must_use]
    pub fn tell(mut self, runner: MemoryRunner) -> Self {
        self.runner = runner;
        self
    }

    fn share(&self, percent: u64) -> u64 {
        let share = u128::from(self.window) * u128::from(percent) / 100;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// What is to be summarised, if it is worth it.
    fn due(&self, ctx: &TurnContext) -> Option<Due> {
        let now = ctx.history().snapshot();
        let mut old = history::view(now.messages);
        let kept = old.split_off(cut(&old, self.share(KEEP)));
        let new = old.iter().filter(|message| !matches!(message.origin, Origin::Summary { .. }));
        let worth: u64 = new.map(|message| estimate::message(message)).sum();
        let last_words = if last_words(&kept).is_some() { None } else { last_words(&old) };
        let tokens = old.iter().map(|message| estimate::message(message)).sum();
        let due = Due { old, last_words, revision: now.revision, tokens };
        (worth > 0 && worth >= self.share(WORTH)).then_some(due)
    }

    /// What stands for these messages, and what writing it used.
    async fn summary(&self, ctx: &TurnContext, old: &[Arc<Message>]) -> (TokenUsage, Result<String, String>) {
        let Some(summarizer) = &self.summarizer else {
            let count = old.len();
            let words =
                format!("[{count} earlier messages of this conversation are left out: they did not fit.]");
            return (TokenUsage::UNKNOWN, Ok(words));
        };
        let text = transcript(old, self.share(READ));
        let (usage, notes) = summarizer.ask(ctx, TASK, ("conversation", &text)).await;
        (usage, notes.map(|notes| format!("[Summary of what came before]\n{notes}")))
    }

    /// Puts the summary in their place.
    fn collapse(&self, ctx: &TurnContext, due: &Due, mut summary: String) -> Result<Done, String> {
        let through = due.old.last().map(|message| message.id).ok_or("there is nothing to summarise")?;
        if let Some(words) = &due.last_words {
            summary.push_str(LAST_WORDS);
            summary.push_str(beginning(words, self.share(KEEP)));
        }
        let summary = Message::user(ctx.sources().id(), summary);
        let tokens = estimate::message(&summary);
        if tokens >= due.tokens {
            return Err("the summary is not shorter than what it would stand for".into());
        }
        ctx.history().collapse(through, summary, due.revision).map_err(|e| e.to_string())?;
        Ok(Done { through, tokens })
    }
}

/// What is to be summarised.
struct Due {
    old: Vec<Arc<Message>>,
    /// The user's, where they are not in what stays.
    last_words: Option<String>,
    revision: u64,
    tokens: u64,
}

/// What stands in its place.
struct Done {
    through: MessageId,
    tokens: u64,
}

impl BeforeLlm for CleanUp {
    async fn before_llm(&self, ctx: &TurnContext, request: &LlmRequest) -> Result<(), HookError> {
        let estimated = estimate::request(request);
        let mut known = Known { asking: estimated, ..Known::of(ctx)? };
        let (limit, before) = (self.share(TRIGGER), known.counted(estimated));
        ctx.state().set(&KNOWN, known);
        if before <= limit || known.failures >= MOST_FAILURES || self.due(ctx).is_none() {
            return Ok(());
        }
        self.runner.tell(ctx, &MemoryEvent::CleanupTriggered { tokens: before, limit }).await?;
        // Whoever was told may have said something: that is no reason to give up.
        let Some(due) = self.due(ctx) else { return Ok(()) };
        let clock = &ctx.sources().clock;
        let began = clock.instant();
        let (usage, summary) = self.summary(ctx, &due.old).await;
        let cleaned = summary.and_then(|summary| self.collapse(ctx, &due, summary));
        match &cleaned {
            Ok(done) => {
                known.asking = estimated.saturating_sub(due.tokens).saturating_add(done.tokens);
                known.failures = 0;
            }
            Err(_) => known.failures += 1,
        }
        ctx.state().set(&KNOWN, known);
        let event = MemoryEvent::CleanupFinished {
            pruned: cleaned.as_ref().map_or(0, |_| due.old.len()),
            through: cleaned.as_ref().ok().map(|done| done.through),
            tokens_before: before,
            tokens_after: known.counted(known.asking),
            usage,
            elapsed: clock.instant().saturating_duration_since(began),
            error: cleaned.as_ref().err().cloned(),
        };
        self.runner.tell(ctx, &event).await?;
        cleaned.map(drop).map_err(HookError::msg)
    }
}

impl AfterLlmResponse for CleanUp {
    async fn after_llm_response(&self, ctx: &TurnContext, response: &LlmResponse) -> Result<(), HookError> {
        if let Some(read) = response.usage.input_tokens.filter(|read| *read > 0) {
            let known = Known::of(ctx)?;
            ctx.state().set(&KNOWN, Known { asked: known.asking, read, ..known });
        }
        Ok(())
    }
}

/// The last thing the user said, or what an earlier summary has of it.
fn last_words(messages: &[Arc<Message>]) -> Option<String> {
    let words = messages.iter().rev().find_map(|message| match message.origin {
        Origin::Summary { .. } => message.text().split_once(LAST_WORDS).map(|(_, words)| words.to_owned()),
        _ => is_users(message).then(|| message.text()),
    });
    words.filter(|words| !words.trim().is_empty())
}

/// As much of it as so many tokens have.
fn beginning(text: &str, tokens: u64) -> &str {
    let bytes = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_A_TOKEN);
    &text[..text.floor_char_boundary(bytes)]
}

/// How many of the messages the summary is to stand for, so that what stays has at most so many tokens, begins with no result, and
/// has all that the model did not see yet, however large.
fn cut(messages: &[Arc<Message>], keep: u64) -> usize {
    let mut kept = 0;
    let mut at = messages.len();
    while at > 0 {
        kept += estimate::message(&messages[at - 1]);
        if kept > keep {
            break;
        }
        at -= 1;
    }
    // What the model said last it knows; what came of its calls, and what was said since, it does not.
    let answer = messages.iter().rposition(|message| message.role == Role::Assistant);
    let unseen = answer.map_or(0, |at| if messages[at].tool_calls().next().is_some() { at } else { at + 1 });
    at = at.min(unseen);
    while at > 0 && messages[at].role == Role::Tool {
        at -= 1;
    }
    at
}

impl From<CleanUp> for HookSpec {
    fn from(value: CleanUp) -> Self {
        hook!(value).name("clean_up").priority(-100).timeout(IN_ALL)
    }
}

#[cfg(test)]
mod tests {
    use turnwright_core::{Part, Sources, ToolCall, ToolResult};

    use super::*;

    #[test]
    fn what_the_model_did_not_see_yet_stays_however_large_and_calls_with_their_results() {
        let sources = Sources::default();
        let say = |text: &str| Message::user(sources.id(), text);
        let call = |id: &str| ToolCall::new(id, "t", "{}");
        let calls = ["a", "b"].map(|id| Part::ToolCall(call(id))).to_vec();
        let large = "x".repeat(4000);
        let messages: Vec<_> = [
            say("1"),
            Message::new(sources.id(), Role::Assistant, vec![Part::text("2")]),
            say("3"),
            Message::new(sources.id(), Role::Assistant, calls),
            Message::tool(sources.id(), ToolResult::ok(&call("a"), large.clone())),
            Message::tool(sources.id(), ToolResult::ok(&call("b"), large)),
            say("hint").origin(Origin::Hook("h".into())),
        ]
        .into_iter()
        .map(Arc::new)
        .collect();
        assert_eq!(cut(&messages, 100), 3, "the answer whose calls have new results");
        assert_eq!(cut(&messages, 1100), 3, "between two results of one answer");
        assert_eq!(cut(&messages, 10_000), 0);
        assert_eq!(cut(&messages[..3], 0), 2, "what was said since the last answer");
        assert_eq!(cut(&messages[..1], 0), 0);
    }

    #[test]
    fn a_provider_that_counts_more_is_believed_within_reason() {
        let known = |asked, read| Known { asked, read, ..Known::default() };
        let counted = [(0, 0), (100, 50), (100, 150), (100, 10_000)].map(|(a, r)| known(a, r).counted(200));
        assert_eq!(counted, [200, 200, 300, 800]);
        assert_eq!(known(1, u64::MAX).counted(u64::MAX), u64::MAX);
    }
}
