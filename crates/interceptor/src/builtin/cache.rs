//! Answering the same question from memory.

use std::{borrow::Cow, fmt, num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use turnwright_core::{Part, TokenUsage, TurnContext};
use turnwright_llm_stream::{FinishReason, LlmRequest, LlmResponse, ModelHandle};

use super::attempts::failure;
use crate::{Around, Exit, Next, scope};

/// Answers a request that was answered before from memory: for tests, evaluations, and programs that ask the same thing
/// again. A repeated question gets the same words, so it is not for conversations that should vary.
///
/// A hit is a fresh copy: the parts, the finish reason and the model that answered. Its usage is zero, since nothing was
/// spent, and it has no response id, since no response was made. The turn shows its text once, in one piece.
///
/// Two requests are the same if all is equal but message ids, how long tools ran, the attempt, and the hint for the
/// provider's cache: the very client, the model, the system prompt, what was said, tools and settings. Clones share what
/// they hold, also over sessions and agents: people who ask the same get the same. Two equal calls at the same time are
/// both made.
///
/// Kept are complete answers without tool calls ([`FinishReason::Stop`]). Failures, cut, filtered and empty answers are
/// not, and a call that may not be repeated is neither answered nor kept ([`crate::Replay`]): a server that keeps the
/// conversation would miss what was said. Whether an answer fits the form that was asked for is not known here: one that does not is repeated as well.
///
/// # Bounds
/// [`Cache::DEFAULT_ENTRIES`] and [`Cache::DEFAULT_BYTES`]; what was not used for longest goes first. An answer that is
/// larger than all bytes is not kept. An entry has no age limit.
///
/// # Where it stands
/// Inside [`Fallback`](super::Fallback), so that an answer is kept under the model that gave it, and outside the other
/// layers of a model call, so that a hit waits for nobody.
///
/// # Cancel safety
/// Dropping the call drops what is inside; nothing is kept of it.
#[derive(Clone)]
pub struct Cache {
    held: Arc<Mutex<Held>>,
    most_bytes: usize,
    keep_calls: bool,
}

struct Held {
    answers: LruCache<Key, Answer>,
    bytes: usize,
}

/// The handle keeps the client alive, so that no other one can come to its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    target: Option<ModelHandle>,
    digest: [u8; 32],
}

struct Answer {
    parts: Vec<Part>,
    finish_reason: Option<FinishReason>,
    raw_finish_reason: Option<String>,
    model: Option<String>,
    bytes: usize,
}

impl Cache {
    /// Answers held.
    pub const DEFAULT_ENTRIES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);
    /// Bytes of all answers held, as JSON: 16 MiB.
    pub const DEFAULT_BYTES: usize = 16 << 20;

    /// Holds at most so many answers, of so many bytes together.
    pub fn new(entries: NonZeroUsize, bytes: usize) -> Self {
        Self {
            held: Arc::new(Mutex::new(Held { answers: LruCache::new(entries), bytes: 0 })),
            most_bytes: bytes,
            keep_calls: false,
        }
    }

    /// Keeps answers with tool calls as well: a hit then runs its tools again. Set it before cloning.
    #[must_use]
    pub fn with_tool_calls(mut self) -> Self {
        self.keep_calls = true;
        self
    }

    fn is_worth_keeping(&self, response: &LlmResponse) -> bool {
        if response.error.is_some() || response.is_empty() {
            return false;
        }
        match response.finish_reason {
            Some(FinishReason::Stop) => response.tool_calls().next().is_none() || self.keep_calls,
            Some(FinishReason::ToolCalls) => self.keep_calls,
            _ => false,
        }
    }

    fn find(&self, key: &Key) -> Option<LlmResponse> {
        self.held.lock().answers.get(key).map(|answer| LlmResponse {
            parts: answer.parts.clone(),
            finish_reason: answer.finish_reason,
            raw_finish_reason: answer.raw_finish_reason.clone(),
            usage: TokenUsage { input_tokens: Some(0), output_tokens: Some(0), ..TokenUsage::UNKNOWN },
            model: answer.model.clone(),
            response_id: None,
            error: None,
        })
    }

    fn keep(&self, key: Key, response: &LlmResponse) {
        let Ok(json) = serde_json::to_vec(&response.parts) else { return };
        let bytes = json.len();
        if bytes > self.most_bytes {
            return;
        }
        let answer = Answer {
            parts: response.parts.clone(),
            finish_reason: response.finish_reason,
            raw_finish_reason: response.raw_finish_reason.clone(),
            model: response.model.clone(),
            bytes,
        };
        let mut gone = Vec::new();
        let mut held = self.held.lock();
        held.bytes += bytes;
        if let Some((key, old)) = held.answers.push(key, answer) {
            held.bytes -= old.bytes;
            gone.push((key, old));
        }
        while held.bytes > self.most_bytes {
            let Some((key, old)) = held.answers.pop_lru() else { break };
            held.bytes -= old.bytes;
            gone.push((key, old));
        }
        drop(held);
        // A client may be dropped with its last entry: not under the lock.
        drop(gone);
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(Self::DEFAULT_ENTRIES, Self::DEFAULT_BYTES)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}

/// None for a request that JSON cannot hold: it is asked.
fn key(request: &LlmRequest) -> Option<Key> {
    // Taken apart in full, so that a new field is not forgotten here.
    let LlmRequest {
        model,
        target,
        system,
        messages,
        tools,
        tool_choice,
        parallel_tool_calls,
        output,
        temperature,
        top_p,
        max_output_tokens,
        stop,
        extra,
        // How it is asked, and not what.
        cache: _,
        attempt: _,
    } = request;
    let said = messages.iter().map(|m| {
        let parts: Vec<_> = m.parts.iter().map(as_asked).collect();
        (m.role, parts, &m.interrupted, &m.origin)
    });
    let said: Vec<_> = said.collect();
    let sampling = (temperature.map(f64::to_bits), top_p.map(f64::to_bits));
    let settings = (tool_choice, parallel_tool_calls, output, sampling, max_output_tokens, stop, extra);
    let json = serde_json::to_vec(&(model, system, said, tools, settings)).ok()?;
    Some(Key { target: target.clone(), digest: Sha256::digest(json).into() })
}

/// A part as the model is asked with it. How long a tool ran is no part of the question, and differs each time.
fn as_asked(part: &Part) -> Cow<'_, Part> {
    match part {
        Part::ToolResult(result) => {
            let mut result = result.clone();
            (result.elapsed, result.ran_with) = (None, None);
            Cow::Owned(Part::ToolResult(result))
        }
        other => Cow::Borrowed(other),
    }
}

impl Around<scope::LlmCall> for Cache {
    async fn around(
        &self,
        _ctx: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let mut next = match next.replayable() {
            Ok(next) => next,
            // What must not be said twice must be said: a server that keeps the conversation would miss it.
            Err(refused) => return refused.into_next().run(request).await,
        };
        let key = key(&request);
        if let Some(hit) = key.as_ref().and_then(|key| self.find(key)) {
            return Ok(hit);
        }
        let out = next.run(request).await;
        if let (Some(key), None, Ok(response)) = (key, failure(&out), &out)
            && self.is_worth_keeping(response)
        {
            self.keep(key, response);
        }
        out
    }
}
