//! What the server answers.

use std::time::Duration;

use turnwright_core::TokenUsage;
use turnwright_llm_stream::FinishReason;

use super::Fault;

/// One scripted reply. Unless told otherwise it finishes for its calls when it has some, else because it is done,
/// reports 10 input and 5 output tokens, and comes without delay. It is the same in every format, as far as the format
/// can say it: what a format has no word for is left out.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Reply {
    pub(super) pieces: Vec<Piece>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) finish: Option<Ended>,
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
    ToolCall { id: String, name: String, arguments: String, fragment: usize },
}

/// Why a reply finishes.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// In the words of the wire.
    Word(String),
    Reason(FinishReason),
}

impl Reply {
    /// An empty reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Then a piece of text, in one event.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Text(text.into()));
        self
    }

    /// Then a piece of reasoning, in one event. Where a format signs or encrypts reasoning, something made up is sent for
    /// it.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Reasoning(text.into()));
        self
    }

    /// Then a tool call, whole in one event. Gemini and Ollama send arguments as an object: what is no JSON becomes a
    /// string there.
    pub fn tool_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.tool_call_in_fragments(id, name, arguments, usize::MAX)
    }

    /// Then a tool call whose arguments come in fragments of at most so many bytes, one an event, after an event with
    /// id and name. A fragment never cuts a character, so it may have up to three bytes less. Gemini and Ollama know no
    /// fragments: there the call comes whole.
    pub fn tool_call_in_fragments(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
        fragment_bytes: usize,
    ) -> Self {
        self.pieces.push(Piece::ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            fragment: fragment_bytes.max(4),
        });
        self
    }

    /// Reports this usage, in tokens.
    pub fn usage(self, input_tokens: u64, output_tokens: u64) -> Self {
        let (input_tokens, output_tokens) = (Some(input_tokens), Some(output_tokens));
        self.token_usage(TokenUsage { input_tokens, output_tokens, ..TokenUsage::UNKNOWN })
    }

    /// Reports this usage, cached and reasoning tokens included, as far as the format has fields for them.
    pub fn token_usage(mut self, usage: TokenUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Finishes with this reason, in the words of the wire.
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Some(Ended::Word(reason.into()));
        self
    }

    /// Finishes with this reason, in the word that the format has for it, or the nearest one.
    pub fn finish_with(mut self, reason: FinishReason) -> Self {
        self.finish = Some(Ended::Reason(reason));
        self
    }

    /// Waits so long before each event.
    pub fn delay(mut self, each: Duration) -> Self {
        self.delay = each;
        self
    }

    /// Goes wrong this way. The last one given counts.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}
