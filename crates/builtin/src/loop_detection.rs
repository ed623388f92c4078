//! `loop_detection`: a turn that repeats itself is told so, and then ended.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use turnwright_control::ControlError;
use turnwright_core::{
    CallId, ErrorKind, Message, Origin, Role, StateKey, ToolCall, ToolResult, TurnContext,
};
use turnwright_hook::{HookError, point::BeforeIteration};

use crate::{overflow, remind};

/// How many rounds a repetition may be long: A, A, …; A, B, A, B, …; A, B, C, A, ….
const LONGEST_PERIOD: usize = 3;
/// Characters of a call that the model is shown.
const SHOWN: usize = 500;

static EPISODE: StateKey<Episode> = StateKey::new("turnwright.builtin/loop_episode", 1);

/// Ends a turn that makes the same calls, with the same results, over and over.
///
/// BEFORE_ITERATION, name `loop_detection`. A *round* is the calls of one answer: their names and arguments, in whatever
/// order, and what they came to. A round whose results changed is progress. When the last rounds since the user spoke are
/// [`window`](LoopDetection::window) equal ones, or a pattern of two or three rounds that repeats for as long, the model gets a
/// reminder; when it is still so after [`observation`](LoopDetection::observation) further rounds, the turn ends as
/// `loop_detected`, with words for the user. By default that is: a reminder after 10 rounds, and the end in place of the 13th.
///
/// A result is what the model sees of it, images included; how long a tool ran before it was stopped, and by which id the whole of
/// a cut result is read, are no change. An answer without calls is no round.
///
/// Reminders and messages of others do not count as the user's, and interrupt nothing.
#[derive(Debug, Clone)]
pub struct LoopDetection {
    window: usize,
    observation: u32,
}

impl Default for LoopDetection {
    fn default() -> Self {
        Self { window: Self::DEFAULT_WINDOW, observation: 2 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Episode {
    /// What repeats.
    of: String,
    /// Rounds since the reminder.
    checks: u32,
    /// The first call of the latest of them.
    #[serde(default)]
    last: Option<CallId>,
}

/// What repeats, and for how long.
struct Repetition {
    of: String,
    /// Rounds, counted up to a cap.
    rounds: usize,
    period: usize,
    /// The first call of the latest round.
    last: Option<CallId>,
    /// The calls of the pattern, for people and models.
    shown: String,
}

impl LoopDetection {
    /// How many rounds a repetition has before anything is said of it, unless [`window`](Self::window) says otherwise.
    pub const DEFAULT_WINDOW: usize = 10;

    /// How many rounds a repetition has before anything is said of it. 10 by default, 2 at least.
    #[must_use]
    pub fn window(mut self, rounds: usize) -> Self {
        self.window = rounds.max(2);
        self
    }

    /// For how many rounds after the reminder it must go on before the turn ends. 2 by default; 0 is as 1, since the reminder is
    /// read with the next round.
    #[must_use]
    pub fn observation(mut self, rounds: u32) -> Self {
        self.observation = rounds;
        self
    }

    fn repetition(&self, messages: &[Arc<Message>]) -> Option<Repetition> {
        let rounds = rounds(messages, self.window.saturating_mul(2).saturating_add(LONGEST_PERIOD));
        (1..=LONGEST_PERIOD).find_map(|period| {
            let same =
                rounds.iter().zip(rounds.iter().skip(period)).take_while(|(a, b)| a.id == b.id).count();
            // What is equal to nothing repeats nothing.
            let length = if same == 0 { 0 } else { same + period };
            (length >= self.window.max(2 * period)).then(|| {
                let mut ids: Vec<_> = rounds[..period].iter().map(|round| round.id.clone()).collect();
                // Wherever in the pattern the turn stands, it is the same one.
                ids.sort_unstable();
                let shown: Vec<_> = rounds[..period].iter().rev().map(|round| round.shown.as_str()).collect();
                let last = rounds.first().and_then(|round| round.first.clone());
                Repetition { of: ids.join("+"), rounds: length, period, last, shown: shown.join("; then ") }
            })
        })
    }
}

impl BeforeIteration for LoopDetection {
    async fn before_iteration(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let Some(found) = self.repetition(&ctx.history().snapshot().messages) else {
            ctx.state().remove(&EPISODE);
            return Ok(());
        };
        let before = ctx.state().get(&EPISODE)?.filter(|episode| episode.of == found.of);
        let Repetition { of, rounds, period, last, shown } = found;
        let Some(before) = before else {
            ctx.state().set(&EPISODE, Episode { of, checks: 0, last });
            let pattern = if period == 1 { String::new() } else { format!(" (a pattern of {period})") };
            let words = format!(
                "The last {rounds} rounds{pattern} made the same calls and got the same results: {shown}. Calling again will \
                 not change them. Try something else, or say what is missing and end your answer."
            );
            return Ok(remind(ctx, "loop_detection", words)?);
        };
        // An answer in words, or a continuation, is no round: whoever stopped calling is not at it any more.
        if before.last == last {
            return Ok(());
        }
        let checks = before.checks + 1;
        if checks < self.observation {
            ctx.state().set(&EPISODE, Episode { of, checks, last });
            return Ok(());
        }
        let control = ControlError::loop_detected(format!("{rounds} rounds of the same calls: {shown}"));
        Err(control
            .user_content("I stopped, because I was repeating the same calls without getting further.")
            .into())
    }
}

/// The calls of one answer.
struct Round {
    id: String,
    first: Option<CallId>,
    shown: String,
}

/// The rounds since the user spoke, latest first, at most so many.
fn rounds(messages: &[Arc<Message>], most: usize) -> Vec<Round> {
    let mut results: BTreeMap<&str, &ToolResult> = BTreeMap::new();
    let mut rounds = Vec::new();
    for message in messages.iter().rev() {
        match message.role {
            Role::User if !matches!(message.origin, Origin::Hook(_) | Origin::Summary { .. }) => break,
            Role::Tool => results.extend(message.tool_results().map(|r| (r.call_id().as_str(), r))),
            Role::Assistant => {
                let calls: Vec<_> = message.tool_calls().collect();
                if !calls.is_empty() {
                    rounds.push(round(&calls, &results));
                    results.clear();
                    if rounds.len() == most {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    rounds
}

fn round(calls: &[&ToolCall], results: &BTreeMap<&str, &ToolResult>) -> Round {
    let mut parts: Vec<(String, String)> = calls
        .iter()
        .map(|call| {
            let shown = format!("{}({})", call.name, canonical(&call.arguments));
            (shown, results.get(call.id.as_str()).map(|result| came_to(result)).unwrap_or_default())
        })
        .collect();
    parts.sort_unstable();
    let mut hasher = Sha256::new();
    for (call, result) in &parts {
        for text in [call, result] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    }
    let id = hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let shown: Vec<_> = parts.into_iter().map(|(call, _)| call).collect();
    Round { id, first: calls.first().map(|call| call.id.clone()), shown: cut(shown.join(", ")) }
}

/// What the model sees of a result, without what is another each time although nothing changed.
fn came_to(result: &ToolResult) -> String {
    let content = match &result.error {
        // The content says how long it took, to the hundredth of a second.
        Some(error) if error.kind == ErrorKind::ToolTimeout => error.message.clone(),
        _ => result.content.replace(&overflow::how_to_read(result.call_id()), ""),
    };
    let images: String = result.images.iter().map(|image| format!("\u{0}{}", image.uri)).collect();
    format!("{}\u{0}{content}{images}", result.is_error())
}

/// Arguments with their keys sorted; what is no JSON stays as it is, and none are `{}`.
fn canonical(arguments: &str) -> String {
    match arguments.trim() {
        "" | "null" => "{}".into(),
        text => {
            serde_json::from_str(text).map_or_else(|_| text.to_owned(), |value| sorted(value).to_string())
        }
    }
}

/// Whatever order this build of `serde_json` keeps keys in.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<_, _> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(map.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
