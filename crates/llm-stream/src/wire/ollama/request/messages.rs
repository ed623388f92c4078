//! A history as the messages that the format wants.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwright_core::{ImageRef, Message, Part, Role, ToolCall, ToolResult};

use super::super::THINKING;
use crate::{
    LlmRequest,
    wire::history::{arguments_of, interrupted_response, text_of},
};

/// One message.
#[derive(Default, Serialize)]
pub(super) struct Said<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    thinking: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: Box<RawValue>,
}

/// The messages of a request.
pub(super) fn of(request: &LlmRequest) -> Vec<Said<'_>> {
    let mut list = Vec::new();
    if let Some(system) = request.system.as_deref().filter(|s| !s.is_empty()) {
        list.push(words("system", system.into()));
    }
    // The answers must not be parted, so images of results follow them all.
    let mut images: Vec<&ToolResult> = Vec::new();
    for message in &request.messages {
        for result in message.tool_results() {
            list.push(answer(result));
            images.extend((!result.images.is_empty()).then_some(result));
        }
        if message.role == Role::Tool {
            continue;
        }
        list.extend(images.drain(..).map(captioned));
        match message.role {
            Role::System => list.push(words("system", text_of(message))),
            Role::User | Role::Tool => list.push(user(message)),
            Role::Assistant => list.extend(assistant(message)),
        }
    }
    list.extend(images.drain(..).map(captioned));
    list
}

fn words<'a>(role: &'static str, content: Cow<'a, str>) -> Said<'a> {
    Said { role, content, ..Said::default() }
}

fn answer(result: &ToolResult) -> Said<'_> {
    Said {
        tool_name: Some(result.tool()),
        tool_call_id: Some(result.call_id().as_str()),
        ..words("tool", result.content.as_str().into())
    }
}

fn captioned(result: &ToolResult) -> Said<'_> {
    let caption = format!("Images in the result of {} ({}):", result.tool(), result.call_id());
    seen(vec![caption.into()], &mut result.images.iter())
}

fn user(message: &Message) -> Said<'_> {
    let texts = message.parts.iter().filter_map(Part::as_text).map(Cow::from).collect();
    let mut images = message.parts.iter().filter_map(|part| match part {
        Part::Image(image) => Some(image),
        _ => None,
    });
    seen(texts, &mut images)
}

/// Words of the user, and images: as data, or as their names among the words, since the server fetches nothing.
fn seen<'a>(mut texts: Vec<Cow<'a, str>>, images: &mut dyn Iterator<Item = &'a ImageRef>) -> Said<'a> {
    let mut data = Vec::new();
    for image in images {
        let uri = image.uri.as_str();
        match uri.strip_prefix("data:").map(|rest| rest.split_once(";base64,")) {
            Some(Some((_, image))) => data.push(image),
            // Data in a spelling that the format does not know is no name.
            Some(None) => texts.push("[an image that cannot be sent]".into()),
            None => texts.push(format!("[image {uri}]").into()),
        }
    }
    let content = match <[_; 1]>::try_from(texts) {
        Ok([only]) => only,
        Err(texts) => texts.join("\n").into(),
    };
    Said { images: data, ..words("user", content) }
}

/// Nothing when there is nothing to say.
fn assistant(message: &Message) -> Option<Said<'_>> {
    let text = text_of(message);
    let said = match &message.interrupted {
        Some(mark) => words("assistant", interrupted_response(&text, mark).into()),
        None => Said { thinking: thinking(message), ..words("assistant", text) },
    };
    let said = Said { tool_calls: message.tool_calls().filter_map(Call::of).collect(), ..said };
    let is_empty = said.content.is_empty() && said.thinking.is_empty() && said.tool_calls.is_empty();
    (!is_empty).then_some(said)
}

/// The thoughts that this format made.
fn thinking(message: &Message) -> Cow<'_, str> {
    let mut texts = message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(block) if block.opaque.contains_key(THINKING) => Some(block.text.as_str()),
        _ => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => "".into(),
        (Some(only), None) => only.into(),
        (Some(first), Some(second)) => [first, second].into_iter().chain(texts).collect::<String>().into(),
    }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Option<Self> {
        // Never nothing: what is no object was made one.
        let arguments = RawValue::from_string(arguments_of(call).into_owned()).ok()?;
        Some(Self { id: call.id.as_str(), function: Function { name: &call.name, arguments } })
    }
}
