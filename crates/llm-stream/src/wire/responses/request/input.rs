//! A history as the items that the format wants.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, ser::SerializeSeq};
use serde_json::{Value, json};
use turnwright_core::{ImageRef, Message, Part, Role, ToolCall, ToolDefinition, ToolResult};

use super::super::reasoning::item_of;
use crate::{
    LlmRequest,
    wire::{
        history::{arguments_of, interrupted_response, is_url, name_of, text_of, words_or_parts},
        ids::ShortIds,
    },
};

/// The most bytes an id of a call may have in a request.
const MAX_CALL_ID_BYTES: usize = 64;

/// Writes the items of a history. `stored` says that the server keeps what it said.
pub(super) fn write<S: SerializeSeq>(
    request: &LlmRequest,
    stored: bool,
    list: &mut S,
) -> Result<(), S::Error> {
    let called = Called { ids: ShortIds::of(&request.messages, MAX_CALL_ID_BYTES), tools: &request.tools };
    let mut said = 0;
    for message in &request.messages {
        for result in message.tool_results() {
            list.serialize_element(&json!({
                "type": "function_call_output",
                "call_id": called.ids.short(result.call_id()),
                "output": output(result),
            }))?;
        }
        match message.role {
            Role::Tool => {}
            Role::Assistant => assistant(message, stored, &called, &mut said, list)?,
            Role::System => list.serialize_element(&Words { role: "system", content: text_of(message) })?,
            Role::User => list.serialize_element(&user(message))?,
        }
    }
    Ok(())
}

/// A message of nothing but words.
#[derive(Serialize)]
struct Words<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

/// Writes an answer, in the order in which it came: reasoning belongs to what follows it, and without that it would be
/// refused. In an answer of another format words that came after a call go before all calls, since some servers refuse
/// what stands between a call and its result.
fn assistant<S: SerializeSeq>(
    message: &Message,
    stored: bool,
    called: &Called<'_>,
    count: &mut usize,
    list: &mut S,
) -> Result<(), S::Error> {
    let mut said = |text: &str| {
        *count += 1;
        said(*count, text)
    };
    let is_ours = message.parts.iter().any(|part| match part {
        Part::Reasoning(block) => item_of(block, stored).is_some(),
        _ => false,
    });
    let mut reasoning: Vec<&Value> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut marked_up =
        message.interrupted.as_ref().map(|mark| interrupted_response(&text_of(message), mark));
    for part in &message.parts {
        let item = match part {
            Part::Reasoning(block) => {
                reasoning.extend(item_of(block, stored));
                continue;
            }
            // All of the text of an interrupted answer goes where its first text stands.
            Part::Text { .. } if message.interrupted.is_some() => marked_up.take().map(|text| said(&text)),
            Part::Text { text } if !text.is_empty() => Some(said(text)),
            Part::ToolCall(call) if is_ours => Some(called.item(call)),
            Part::ToolCall(call) => {
                calls.push(called.item(call));
                None
            }
            _ => None,
        };
        let Some(item) = item else { continue };
        reasoning.drain(..).try_for_each(|item| list.serialize_element(item))?;
        list.serialize_element(&item)?;
    }
    marked_up.map_or(Ok(()), |text| list.serialize_element(&said(&text)))?;
    calls.iter().try_for_each(|call| list.serialize_element(call))
}

/// Words of the model. Strict servers demand an id; it is one that no server gave.
fn said(number: usize, text: &str) -> Value {
    json!({
        "type": "message",
        "id": format!("msg_{number}"),
        "role": "assistant",
        "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }],
    })
}

/// How calls are spelled.
struct Called<'a> {
    ids: ShortIds<'a>,
    tools: &'a [Arc<ToolDefinition>],
}

impl Called<'_> {
    fn item(&self, call: &ToolCall) -> Value {
        json!({
            "type": "function_call",
            "call_id": self.ids.short(&call.id),
            "name": name_of(call, self.tools),
            "arguments": arguments_of(call),
        })
    }
}

/// Words alone go as a string, which every server takes; lists are only for images.
fn output(result: &ToolResult) -> Value {
    if result.images.is_empty() {
        return result.content.as_str().into();
    }
    let text = (!result.content.is_empty()).then(|| text_part(&result.content));
    text.into_iter().chain(result.images.iter().map(image_part)).collect()
}

fn user(message: &Message) -> Value {
    json!({ "role": "user", "content": words_or_parts(message, text_part, image_part) })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

/// An image the server can fetch, or its name in words when it is in a store that the server cannot reach.
fn image_part(image: &ImageRef) -> Value {
    if is_url(image) {
        json!({ "type": "input_image", "image_url": image.uri, "detail": "auto" })
    } else {
        text_part(&format!("[image {}]", image.uri))
    }
}
