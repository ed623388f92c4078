//! What the server answers.

use std::time::Duration;

use super::Fault;

/// One scripted reply. Unless told otherwise it finishes with `tool_calls` when it has calls, else with `stop`,
/// reports 10 input and 5 output tokens, and comes without delay.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Reply {
    pub(super) pieces: Vec<Piece>,
    pub(super) usage: Option<(u64, u64)>,
    pub(super) finish: Option<String>,
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
    ToolCall { id: String, name: String, arguments: String, fragment: usize },
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

    /// Then a piece of reasoning, in one event.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Reasoning(text.into()));
        self
    }

    /// Then a tool call, whole in one event.
    pub fn tool_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.tool_call_in_fragments(id, name, arguments, usize::MAX)
    }

    /// Then a tool call whose arguments come in fragments of at most so many bytes, one an event, after an event with
    /// id and name. A fragment never cuts a character, so it may have up to three bytes less.
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
    pub fn usage(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.usage = Some((input_tokens, output_tokens));
        self
    }

    /// Finishes with this reason, in the words of the wire.
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Some(reason.into());
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
