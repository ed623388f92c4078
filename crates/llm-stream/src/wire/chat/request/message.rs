//! Messages as the format wants them.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, de::IgnoredAny, ser::SerializeSeq};
use serde_json::{Value, json};
use turnwright_core::{ImageRef, Interrupted, Message, Part, Role, ToolCall, ToolResult};

use super::super::reasoning::details_of;

/// Writes the messages of a history.
pub(super) fn write<S: SerializeSeq>(messages: &[Arc<Message>], list: &mut S) -> Result<(), S::Error> {
    // The format has no place for images in a tool's answer; they follow the answers, which must not be parted.
    let mut images: Vec<&ToolResult> = Vec::new();
    for message in messages {
        for result in message.tool_results() {
            list.serialize_element(&Answer {
                role: "tool",
                tool_call_id: result.call_id().as_str(),
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
                if let Some(assistant) = Assistant::of(message) {
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
    name: &'a str,
    arguments: Cow<'a, str>,
}

impl<'a> Assistant<'a> {
    /// Nothing when there is nothing to say: servers refuse empty messages.
    fn of(message: &'a Message) -> Option<Self> {
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
            reasoning_details: reasoning.flatten().collect(),
            tool_calls: message.tool_calls().map(Call::of).collect(),
        };
        let is_empty = assistant.content.is_none()
            && assistant.tool_calls.is_empty()
            && assistant.reasoning_details.is_empty();
        (!is_empty).then_some(assistant)
    }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Self {
        let function = Function { name: &call.name, arguments: arguments_of(call) };
        Self { id: call.id.as_str(), kind: "function", function }
    }
}

/// The arguments as they were, when they are an object; else an object that holds them, since a server that checks
/// them would refuse the whole history for ever.
fn arguments_of(call: &ToolCall) -> Cow<'_, str> {
    let arguments = call.arguments_json();
    let is_object =
        arguments.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(&arguments).is_ok();
    if is_object { arguments } else { json!({ "invalid_arguments": arguments }).to_string().into() }
}

/// All text; borrowed when it is one part.
fn text_of(message: &Message) -> Cow<'_, str> {
    let mut texts = message.parts.iter().filter_map(Part::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => "".into(),
        (Some(only), None) => only.into(),
        _ => message.text().into(),
    }
}

/// What the model is shown of an answer that was cut: why, the words so far, and the calls that were begun.
fn interrupted_response(text: &str, interrupted: &Interrupted) -> String {
    let mut xml = format!("<interrupted_response reason=\"{}\">", escape(&interrupted.reason));
    if !text.is_empty() {
        xml.push_str("<content>");
        xml.push_str(&escape(text));
        xml.push_str("</content>");
    }
    if !interrupted.pending_tools.is_empty() {
        xml.push_str("<pending_tools>");
        for name in &interrupted.pending_tools {
            xml.push_str("<tool name=\"");
            xml.push_str(&escape(name));
            xml.push_str("\"/>");
        }
        xml.push_str("</pending_tools>");
    }
    xml.push_str("</interrupted_response>");
    xml
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Words alone go as a string, which every server takes; lists of parts are only for images.
fn user(message: &Message) -> Value {
    let has_images = message.parts.iter().any(|part| matches!(part, Part::Image(_)));
    let content = if has_images {
        let part = |part: &Part| match part {
            Part::Text { text } => Some(text_part(text)),
            Part::Image(image) => Some(image_part(image)),
            _ => None,
        };
        message.parts.iter().filter_map(part).collect()
    } else {
        let texts: Vec<&str> = message.parts.iter().filter_map(Part::as_text).collect();
        Value::from(texts.join("\n"))
    };
    json!({ "role": "user", "content": content })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// An image the server can fetch, or its name in words when it is in a store that the server cannot reach.
fn image_part(image: &ImageRef) -> Value {
    let is_url = ["http://", "https://", "data:"].iter().any(|scheme| image.uri.starts_with(scheme));
    if is_url {
        json!({ "type": "image_url", "image_url": { "url": image.uri } })
    } else {
        text_part(&format!("[image {}]", image.uri))
    }
}
