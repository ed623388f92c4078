//! The wire formats the server speaks.

use std::fmt;

/// A wire format of model providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireFormat {
    /// Chat completions, of OpenAI and the servers compatible with it.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Gemini's `streamGenerateContent`, as server-sent events.
    Gemini,
    /// Ollama's `/api/chat`: a JSON object a line.
    Ollama,
    /// Bedrock's ConverseStream: binary frames.
    Converse,
}

impl WireFormat {
    /// Every format.
    pub const ALL: [Self; 6] =
        [Self::Chat, Self::Responses, Self::Messages, Self::Gemini, Self::Ollama, Self::Converse];

    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Converse => "converse",
        }
    }

    /// Whether its answers are server-sent events.
    pub fn is_sse(self) -> bool {
        !matches!(self, Self::Ollama | Self::Converse)
    }

    /// What comes after the address in a base URL, as the makers of the format write it.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "/v1",
            Self::Messages | Self::Gemini | Self::Ollama | Self::Converse => "",
        }
    }

    /// Where requests go; `*` stands for the model.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Gemini => "/v1beta/models/*:streamGenerateContent",
            Self::Ollama => "/api/chat",
            Self::Converse => "/model/*/converse-stream",
        }
    }

    /// Whether requests go to this path.
    pub(super) fn serves(self, path: &str) -> bool {
        match self.path().split_once('*') {
            Some((head, tail)) => path.starts_with(head) && path.ends_with(tail),
            None => path == self.path(),
        }
    }

    /// The media type of a streamed answer.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            Self::Converse => "application/vnd.amazon.eventstream",
            _ => "text/event-stream",
        }
    }
}

impl fmt::Display for WireFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
