//! What a message is made of.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use turnwright_core::{CallId, ImageRef, Reasoning, ToolCall, ToolResult};

use super::super::reasoning::block_of;
use crate::wire::{
    history::{UNREADABLE_IMAGE, arguments_of, inline_image, is_url},
    names::{Ids, legal_name},
    turns::{self, NO_RESULT},
};

/// The most bytes that the name of a tool may have.
const MAX_NAME_BYTES: usize = 128;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        content: Content<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// As a server said it.
    #[serde(untagged)]
    Kept(Map<String, Value>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

/// Words alone go as a string, which every server takes.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Words(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl<'a> turns::Block<'a> for Block<'a> {
    /// The format sets no limit.
    const MAX_ID_BYTES: usize = usize::MAX;

    /// Text, unless it is blank: servers refuse that.
    fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Self::Text { text })
    }

    /// Takes blanks off the end of text.
    fn trim_end(&mut self) {
        if let Self::Text { text } = self {
            let length = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = &text[..length],
                Cow::Owned(text) => text.truncate(length),
            }
        }
    }

    /// An image the server can read, or its name in words.
    fn image(image: &'a ImageRef) -> Self {
        if let Some((media_type, data)) = inline_image(image) {
            // A wrong name in wide use, which servers refuse.
            let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
            return Self::Image { source: Source::Base64 { media_type, data } };
        }
        if image.uri.starts_with("data:") {
            return Self::Text { text: UNREADABLE_IMAGE.into() };
        }
        if is_url(image) {
            return Self::Image { source: Source::Url { url: &image.uri } };
        }
        Self::Text { text: format!("[image {}]", image.uri).into() }
    }

    fn call(call: &'a ToolCall, ids: &Ids<'_>) -> Self {
        let input = match arguments_of(call) {
            Cow::Borrowed(json) => serde_json::from_str(json).ok().map(Cow::Borrowed),
            Cow::Owned(json) => RawValue::from_string(json).ok().map(Cow::Owned),
        };
        // They are an object, so this is never used.
        let input = input.unwrap_or(Cow::Borrowed(RawValue::NULL));
        Self::ToolUse {
            id: ids.legal(&call.id).to_owned(),
            name: legal_name(&call.name, MAX_NAME_BYTES),
            input,
        }
    }

    fn result(result: &'a ToolResult, ids: &Ids<'_>) -> Self {
        let content = if result.images.is_empty() {
            // Servers refuse a failure that says nothing.
            let is_silent = result.error.is_some() && result.content.trim().is_empty();
            Content::Words(if is_silent { "The call failed." } else { result.content.as_str() }.into())
        } else {
            let text = Self::text(result.content.as_str());
            Content::Blocks(text.into_iter().chain(result.images.iter().map(Self::image)).collect())
        };
        let tool_use_id = ids.legal(result.call_id()).to_owned();
        Self::ToolResult { tool_use_id, content, is_error: result.error.is_some() }
    }

    fn no_result(call: &CallId, ids: &Ids<'_>) -> Self {
        let content = Content::Words(NO_RESULT.into());
        Self::ToolResult { tool_use_id: ids.legal(call).to_owned(), content, is_error: true }
    }

    fn thought(reasoning: &Reasoning) -> Option<Self> {
        block_of(reasoning).map(Self::Kept)
    }

    fn is_thought(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}
