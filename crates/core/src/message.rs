//! Messages and their parts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MessageId, ToolCall, ToolResult};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person, or whoever speaks in their place.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    Tool,
}

/// Who put a message into history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The conversation itself.
    #[default]
    Conversation,
    /// Guidance steered into a running turn.
    Steer,
    /// A follow-up that landed where the turn would have ended.
    FollowUp,
    /// A hook, by name.
    Hook(String),
    /// It stands for what came before, up to this message: see [`crate::History::collapse`].
    Summary {
        /// The last message it stands for.
        through: MessageId,
    },
}

impl Origin {
    fn is_default(&self) -> bool {
        *self == Self::Conversation
    }
}

/// One message. Its id is given once and never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said, in the order it was said.
    pub parts: Vec<Part>,
    /// Set on an answer that was cut; its parts are what had been shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Who put it there.
    #[serde(default, skip_serializing_if = "Origin::is_default")]
    pub origin: Origin,
    /// The sender's own id of it, by which it is known when it comes twice. Not sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Message {
    /// A message made of these parts.
    pub fn new(id: MessageId, role: Role, parts: Vec<Part>) -> Self {
        Self { id, role, parts, interrupted: None, origin: Origin::Conversation, key: None }
    }

    /// Instructions to the model.
    pub fn system(id: MessageId, text: impl Into<String>) -> Self {
        Self::new(id, Role::System, vec![Part::text(text)])
    }

    /// Words of the user.
    pub fn user(id: MessageId, text: impl Into<String>) -> Self {
        Self::new(id, Role::User, vec![Part::text(text)])
    }

    /// A tool's answer.
    pub fn tool(id: MessageId, result: ToolResult) -> Self {
        Self::new(id, Role::Tool, vec![Part::ToolResult(result)])
    }

    /// The same message, marked with who put it there.
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// All text parts, joined.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|p| match p {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|p| match p {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning.
    Reasoning(Reasoning),
    /// A call the model asked for.
    ToolCall(ToolCall),
    /// What a call came to.
    ToolResult(ToolResult),
    /// An image, by reference. Bytes never travel inline.
    Image(ImageRef),
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// Reasoning, with what the provider wants back unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The readable text; may be empty when the provider sends only opaque fields.
    pub text: String,
    /// Signatures, encrypted content, item ids: kept and sent back to the same provider, never read.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub opaque: Map<String, Value>,
}

/// An image by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// Where the image is: a URL or the key of a blob store.
    pub uri: String,
    /// Its media type, for example `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Why an answer is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// One of the words `user_stop`, `timeout`, `policy`, `loop_detected`, `cancelled`, `error`.
    pub reason: String,
    /// Names of calls that had begun to arrive and were not complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_tools: Vec<String>,
}
