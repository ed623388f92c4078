//! What a history is made into for any format.

use std::{borrow::Cow, sync::Arc};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use turnwright_core::{ImageRef, Interrupted, Message, Part, ToolCall, ToolDefinition};

use super::names::legal_name;

/// The arguments as they were, when they are an object; else an object that holds them, since a server that checks
/// them would refuse the whole history for ever.
pub(in crate::wire) fn arguments_of(call: &ToolCall) -> Cow<'_, str> {
    let arguments = call.arguments_json();
    let is_object =
        arguments.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(&arguments).is_ok();
    if is_object { arguments } else { json!({ "invalid_arguments": arguments }).to_string().into() }
}

/// The most bytes a tool's name may have.
const MAX_NAME_BYTES: usize = 128;

/// The name of the tool that was called. One that no tool of the request has is one that a model made up: it goes out
/// with other characters in the place of wrong ones, since a server that checks names would refuse the whole history for
/// ever.
pub(in crate::wire) fn name_of<'a>(call: &'a ToolCall, tools: &[Arc<ToolDefinition>]) -> Cow<'a, str> {
    match tools.iter().any(|tool| tool.name == call.name) {
        true => call.name.as_str().into(),
        false => legal_name(&call.name, MAX_NAME_BYTES),
    }
}

/// All text; borrowed when it is one part.
pub(in crate::wire) fn text_of(message: &Message) -> Cow<'_, str> {
    let mut texts = message.parts.iter().filter_map(Part::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => "".into(),
        (Some(only), None) => only.into(),
        _ => message.text().into(),
    }
}

/// What the model is shown of an answer that was cut: why, the words so far, and the calls that were begun.
pub(in crate::wire) fn interrupted_response(text: &str, interrupted: &Interrupted) -> String {
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

/// What a user's message says, for formats in which words alone may go as a string, which every server takes: a list of
/// parts is only for images.
pub(in crate::wire) fn words_or_parts(
    message: &Message,
    text: fn(&str) -> Value,
    image: fn(&ImageRef) -> Value,
) -> Value {
    if !message.parts.iter().any(|part| matches!(part, Part::Image(_))) {
        let texts: Vec<&str> = message.parts.iter().filter_map(Part::as_text).collect();
        return texts.join("\n").into();
    }
    let part = |part: &Part| match part {
        Part::Text { text: words } => Some(text(words)),
        Part::Image(reference) => Some(image(reference)),
        _ => None,
    };
    message.parts.iter().filter_map(part).collect()
}

/// Whether the server can fetch the image; else it is in a store of ours.
pub(in crate::wire) fn is_url(image: &ImageRef) -> bool {
    ["http://", "https://", "data:"].iter().any(|scheme| image.uri.starts_with(scheme))
}

/// What stands for an image that cannot be sent.
pub(in crate::wire) const UNREADABLE_IMAGE: &str = "[image in an encoding that cannot be sent]";

/// The bare media type and the base64 that the reference holds, if it is a `data:` URI of that kind.
pub(in crate::wire) fn inline_image(image: &ImageRef) -> Option<(&str, &str)> {
    let (head, data) = image.uri.strip_prefix("data:")?.split_once(";base64,")?;
    let of_uri = head.split(';').next().filter(|media_type| !media_type.is_empty());
    Some((of_uri.or(image.media_type.as_deref())?, data))
}
