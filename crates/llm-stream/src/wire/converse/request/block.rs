//! What a message is made of.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwright_core::{CallId, ImageRef, Reasoning, ToolCall, ToolResult};

use super::{
    super::thought::{KEY, REDACTED, SIGNATURE},
    cache::CachePoint,
};
use crate::wire::{
    history::{UNREADABLE_IMAGE, arguments_of, inline_image},
    names::{Ids, legal_name},
    turns::{self, NO_RESULT},
};

/// The most bytes that an id of a call, or the name of a tool, may have.
const MAX_NAME_BYTES: usize = 64;

/// What stands for a result of blank words, which the server refuses.
const EMPTY_RESULT: &str = "[An empty result.]";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image {
        format: &'static str,
        source: Source<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: String,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: String,
        content: Vec<Block<'a>>,
        /// Without it the call was a success; not every model takes the word.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    ReasoningContent(Thought<'a>),
    CachePoint(CachePoint),
}

#[derive(Debug, Serialize)]
pub(super) struct Source<'a> {
    /// Base64.
    bytes: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Thought<'a> {
    ReasoningText {
        text: &'a str,
        signature: &'a str,
    },
    /// Base64.
    RedactedContent(&'a str),
}

impl<'a> turns::Block<'a> for Block<'a> {
    const MAX_ID_BYTES: usize = MAX_NAME_BYTES;

    /// Text, unless it is blank: the server refuses that.
    fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Self::Text(text))
    }

    /// An image whose bytes are here, or its name in words: the server fetches none.
    fn image(image: &'a ImageRef) -> Self {
        match inline_image(image).and_then(|(media_type, bytes)| Some((format_of(media_type)?, bytes))) {
            Some((format, bytes)) => Self::Image { format, source: Source { bytes } },
            None if image.uri.starts_with("data:") => Self::Text(UNREADABLE_IMAGE.into()),
            None => Self::Text(format!("[image {}]", image.uri).into()),
        }
    }

    fn call(call: &'a ToolCall, ids: &Ids<'_>) -> Self {
        let input = match arguments_of(call) {
            Cow::Borrowed(json) => serde_json::from_str(json).ok().map(Cow::Borrowed),
            Cow::Owned(json) => RawValue::from_string(json).ok().map(Cow::Owned),
        };
        // They are an object, so this is never used.
        let input = input.unwrap_or(Cow::Borrowed(RawValue::NULL));
        let tool_use_id = ids.legal(&call.id).to_owned();
        Self::ToolUse { tool_use_id, name: legal_name(&call.name, MAX_NAME_BYTES), input }
    }

    fn result(result: &'a ToolResult, ids: &Ids<'_>) -> Self {
        let text = Self::text(result.content.as_str());
        let images = result.images.iter().map(Self::image);
        let mut content: Vec<_> = text.into_iter().chain(images).collect();
        if content.is_empty() {
            content.push(Self::Text(EMPTY_RESULT.into()));
        }
        let status = result.error.is_some().then_some("error");
        Self::ToolResult { tool_use_id: ids.legal(result.call_id()).to_owned(), content, status }
    }

    fn no_result(call: &CallId, ids: &Ids<'_>) -> Self {
        let content = vec![Self::Text(NO_RESULT.into())];
        Self::ToolResult { tool_use_id: ids.legal(call).to_owned(), content, status: Some("error") }
    }

    /// A thought that this format made and the server signed or encrypted: others are refused.
    fn thought(reasoning: &'a Reasoning) -> Option<Self> {
        let kept = reasoning.opaque.get(KEY)?.as_object()?;
        let field = |name: &str| kept.get(name)?.as_str();
        let thought = match field(REDACTED) {
            Some(content) => Thought::RedactedContent(content),
            None => Thought::ReasoningText { text: &reasoning.text, signature: field(SIGNATURE)? },
        };
        Some(Self::ReasoningContent(thought))
    }

    fn is_thought(&self) -> bool {
        matches!(self, Self::ReasoningContent(_))
    }
}

/// The format's word for a media type.
fn format_of(media_type: &str) -> Option<&'static str> {
    Some(match media_type.to_ascii_lowercase().as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    })
}
