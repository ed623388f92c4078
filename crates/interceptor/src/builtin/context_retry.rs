//! Asking once more, with less, when the context was overflown.

use std::sync::Arc;

use turnwright_core::{ErrorInfo, ErrorKind, Message, Origin, Role, StateKey, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse, estimate};

use super::attempts::failure;
use crate::{Around, Exit, Next, scope};

/// The share of the model's window that a smaller request takes: what is estimated may be off by as much.
const SHARE: u64 = 70;
/// The least room an answer is given.
const LEAST_OUTPUT: u64 = 1024;

/// The tokens a request of this turn may have, since a larger one was refused.
static FITS: StateKey<u64> = StateKey::new("turnwright.interceptor/context_retry", 1);

/// Asks a model once more when the provider refuses a request as too large, with the oldest parts of the conversation left out.
///
/// What is left out is whole: a turn of the user with all that came of it, or, within the turn that runs, a call with its
/// results. The user's last message and what came last stay. The model is told how much is missing. Only the request is
/// smaller: the history is not touched. The second request is made of the *first* one as it came to this layer, so that edits
/// of inner layers are made once. It is a further attempt ([`LlmRequest::attempt`]), seen by inner layers and told as a `Retry`
/// event. Later requests of the turn are made smaller at once.
///
/// Where the answer's room ([`LlmRequest::max_output_tokens`]) is what does not fit it is halved, to 1,024 at least. Where
/// neither helps, the error is returned as it is. Once a call: a second refusal is final.
///
/// # Where it stands
/// Inside [`Retry`](super::Retry) or outside of it alike: that one does not repeat what does not fit.
///
/// # Cancel safety
/// Dropping the call drops the attempt; nothing is kept but the size that fits.
#[derive(Debug, Clone, Default)]
pub struct ContextRetry {
    window: Option<u64>,
}

impl ContextRetry {
    /// Takes this for the model's window, in tokens, where the provider's error does not name one. Without either, the second
    /// request is half as large.
    #[must_use]
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// How many tokens the next request may have.
    fn target(&self, request: &LlmRequest, error: &ErrorInfo) -> u64 {
        let size = error.context.as_deref().copied().unwrap_or_default();
        let estimated = estimate::request(request);
        let Some(window) = size.limit.or(self.window) else { return estimated / 2 };
        let room = window.saturating_sub(request.max_output_tokens.unwrap_or(0)).max(window / 4);
        // The provider counts otherwise: its figure and ours for the same request say by how much.
        let target = match size.needed {
            Some(needed) if needed > 0 => u128::from(room) * u128::from(estimated) / u128::from(needed),
            _ => u128::from(room),
        };
        u64::try_from(target * u128::from(SHARE) / 100).unwrap_or(u64::MAX)
    }
}

impl Around<scope::LlmCall> for ContextRetry {
    async fn around(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let known = ctx.state().get(&FITS).ok().flatten();
        let smaller = known.and_then(|fits| smaller(ctx, &request, *fits)).unwrap_or_else(|| request.clone());
        let mut replay = match next.replayable() {
            Ok(replay) => replay,
            Err(refused) => return refused.into_next().run(smaller).await,
        };
        let out = replay.run(smaller.clone()).await;
        let Some(error) = failure(&out).filter(|error| error.kind == ErrorKind::ContextOverflow) else {
            return out;
        };
        if replay.refusal().is_some() {
            return out;
        }
        let target = self.target(&smaller, error);
        // What was sent may have been made smaller already, as much as it can be: the same is not asked twice.
        let sent = estimate::request(&smaller);
        let again = self::smaller(ctx, &request, target).filter(|again| estimate::request(again) < sent);
        let Some(again) = again.or_else(|| with_less_output(&smaller)) else { return out };
        ctx.state().set(&FITS, target);
        replay.run(again).await
    }
}

/// The request without its oldest parts, if that makes it fit, or at least smaller.
fn smaller(ctx: &TurnContext, request: &LlmRequest, target: u64) -> Option<LlmRequest> {
    let units = units(&request.messages);
    let mut size = estimate::request(request);
    let mut dropped = vec![false; units.len()];
    for (unit, dropped) in units.iter().zip(&mut dropped) {
        if size <= target {
            break;
        }
        if !unit.stays {
            size -= unit.messages.iter().map(|m| estimate::message(m)).sum::<u64>().min(size);
            *dropped = true;
        }
    }
    let left_out: usize =
        units.iter().zip(&dropped).filter(|(_, is)| **is).map(|(unit, _)| unit.messages.len()).sum();
    if left_out == 0 {
        return None;
    }
    let mut messages: Vec<Arc<Message>> = Vec::new();
    let note = format!("[{left_out} earlier messages of this conversation are left out: they did not fit]");
    let note = Message::user(ctx.sources().id(), note).origin(Origin::Hook("context_retry".into()));
    messages.push(Arc::new(note));
    let kept = units.iter().zip(&dropped).filter(|(_, is)| !**is);
    messages.extend(kept.flat_map(|(unit, _)| unit.messages.iter().cloned()));
    Some(LlmRequest { messages, ..request.clone() })
}

/// Messages that stand or fall together.
struct Unit<'a> {
    messages: &'a [Arc<Message>],
    stays: bool,
}

/// Whole turns before the last word of the user; single messages, and calls with their results, from there on. That word, and
/// what came last, stay.
fn units(messages: &[Arc<Message>]) -> Vec<Unit<'_>> {
    let is_users = |m: &Arc<Message>| {
        m.role == Role::User && !matches!(m.origin, Origin::Hook(_) | Origin::Summary { .. })
    };
    let last_word = messages.iter().rposition(is_users).unwrap_or(0);
    let mut units = Vec::new();
    let mut from = 0;
    for at in 1..=messages.len() {
        let begins = messages.get(at).is_none_or(|message| match at <= last_word {
            true => is_users(message),
            false => message.role != Role::Tool,
        });
        // The user's last word is a unit by itself.
        if begins || from == last_word {
            if messages.get(at).is_some_and(|message| message.role == Role::Tool) {
                continue;
            }
            units.push(Unit { messages: &messages[from..at], stays: from == last_word });
            from = at;
        }
    }
    if let Some(last) = units.last_mut() {
        last.stays = true;
    }
    units
}

fn with_less_output(request: &LlmRequest) -> Option<LlmRequest> {
    let output = request.max_output_tokens.filter(|tokens| *tokens > LEAST_OUTPUT)?;
    Some(LlmRequest { max_output_tokens: Some((output / 2).max(LEAST_OUTPUT)), ..request.clone() })
}
