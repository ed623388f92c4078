//! Messages as the format wants them.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, ser::SerializeSeq};
use serde_json::{Value, json};
use turnwright_core::{ImageRef, Message, Part, Role, ToolCall, ToolDefinition, ToolResult};

use super::super::reasoning::{content_of, details_of};
use crate::{
    LlmRequest,
    wire::{
        history::{arguments_of, interrupted_response, is_url, name_of, text_of, words_or_parts},
        ids::ShortIds,
    },
};

/// The most bytes an id of a call may have in a request.
const MAX_CALL_ID_BYTES: usize = 40;

/// How calls are spelled.
struct Spelling<'a> {
    ids: ShortIds<'a>,
    tools: &'a [Arc<ToolDefinition>],
}

/// Writes the messages of a history.
pub(super) fn write<S: SerializeSeq>(request: &LlmRequest, list: &mut S) -> Result<(), S::Error> {
    // The format has no place for images in a tool's answer; they follow the answers, which must not be parted.
    let mut images: Vec<&ToolResult> = Vec::new();
    let spelling =
        Spelling { ids: ShortIds::of(&request.messages, MAX_CALL_ID_BYTES), tools: &request.tools };
    // Where the turn begins that goes on.
    let turn = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    for (at, message) in request.messages.iter().enumerate() {
        for result in message.tool_results() {
            list.serialize_element(&Answer {
                role: "tool",
                tool_call_id: spelling.ids.short(result.call_id()),
                content: &result.content,
            })?;
            images.extend((!result.images.is_empty()).then_some(result));
        }
        if message.role == Role::Tool {
            continue;
        }
        write_images(&mut images, list)?;
        match message.role {
            Role::Assistant => {
                if let Some(mut assistant) = Assistant::of(message, &spelling) {
                    if at > turn && !assistant.tool_calls.is_empty() {
                        assistant.reasoning_content = content_of(message, &request.model);
                    }
                    list.serialize_element(&assistant)?;
                }
            }
            Role::System => list.serialize_element(&Words { role: "system", content: &message.text() })?,
            Role::User | Role::Tool => list.serialize_element(&user(message))?,
        }
    }
    write_images(&mut images, list)
}

fn write_images<S: SerializeSeq>(results: &mut Vec<&ToolResult>, list: &mut S) -> Result<(), S::Error> {
    let parts: Vec<Value> = results
        .drain(..)
        .flat_map(|result| {
            let caption =
                text_part(&format!("Images in the result of {} ({}):", result.tool(), result.call_id()));
            std::iter::once(caption).chain(result.images.iter().map(image_part))
        })
        .collect();
    if parts.is_empty() {
        Ok(())
    } else {
        list.serialize_element(&json!({ "role": "user", "content": parts }))
    }
}

/// A message of nothing but words.
#[derive(Serialize)]
pub(super) struct Words<'a> {
    pub(super) role: &'static str,
    pub(super) content: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct Assistant<'a> {
    role: &'static str,
    content: Option<Cow<'a, str>>,
    /// Servers that think between calls (DeepSeek's, Kimi's) refuse calls of the running turn without it. Older ones refuse
    /// it elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> Assistant<'a> {
    /// Nothing when there is nothing to say: servers refuse empty messages.
    fn of(message: &'a Message, spelling: &'a Spelling<'a>) -> Option<Self> {
        let text = text_of(message);
        let content = match &message.interrupted {
            Some(interrupted) => Some(interrupted_response(&text, interrupted).into()),
            None => (!text.is_empty()).then_some(text),
        };
        let reasoning = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(details_of(&reasoning.text, &reasoning.opaque)),
            _ => None,
        });
        let assistant = Self {
            role: "assistant",
            content,
            reasoning_content: None,
            reasoning_details: reasoning.flatten().collect(),
            tool_calls: message.tool_calls().map(|call| Call::of(call, spelling)).collect(),
        };
        let is_empty = assistant.content.is_none()
            && assistant.tool_calls.is_empty()
            && assistant.reasoning_details.is_empty();
        (!is_empty).then_some(assistant)
    }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall, spelling: &'a Spelling<'a>) -> Self {
        let function = Function { name: name_of(call, spelling.tools), arguments: arguments_of(call) };
        Self { id: spelling.ids.short(&call.id), kind: "function", function }
    }
}

fn user(message: &Message) -> Value {
    json!({ "role": "user", "content": words_or_parts(message, text_part, image_part) })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// An image the server can fetch, or its name in words when it is in a store that the server cannot reach.
fn image_part(image: &ImageRef) -> Value {
    if is_url(image) {
        json!({ "type": "image_url", "image_url": { "url": image.uri } })
    } else {
        text_part(&format!("[image {}]", image.uri))
    }
}
