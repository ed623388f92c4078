//! The request body.

mod block;
mod cache;
mod config;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{
    LlmRequest, OutputWay,
    wire::{
        fields::Fields,
        turns::{Conversation, Turn},
    },
};
use block::Block;
use cache::CachePoint;
use config::{TOOL_CONFIG, Tools, inference, output};

/// The body of a ConverseStream request: UTF-8 JSON. Equal requests give equal bytes.
///
/// The model is not in it: it belongs in the path, percent-encoded. The fields in [`LlmRequest::extra`] come last and
/// replace the serializer's own of the same name: there is the place for `additionalModelRequestFields` and
/// `guardrailConfig`. Those of an `inferenceConfig` or an `outputConfig` there replace the single fields of the
/// serializer's own.
///
/// The format has no word for [`LlmRequest::parallel_tool_calls`]: it sends nothing. Not every model at Bedrock takes
/// [`LlmRequest::output`], and those that do want a strict schema. A [`LlmRequest::cache`] hint sets three marks
/// (`cachePoint`): behind the system prompt, the last tool, and the last message; models without a cache refuse them.
///
/// Histories that no server accepts are mended, not refused:
/// - Messages of one role that follow each other become one, and so do results and the user's words after them, results
///   first. A history that begins with an answer gets a user's turn before it.
/// - A call without a result gets one that says so; a result without a call goes out as words.
/// - The format has no way to forbid the tools that a request names, and refuses calls in a history when none are named.
///   So without tools, and with [`ToolChoice::None`](crate::ToolChoice::None), none are named, and the calls and results
///   of the history go out as words.
/// - System messages at the begin join the system prompt. Later ones, for which the format has no place, go out as the
///   user's words in a `<system_message>` element.
/// - Arguments that are not a JSON object go out as an object that holds them, an interrupted answer as an element that
///   says so, and ids and names that the format does not allow with other characters in the place of the wrong ones, and
///   no longer than 64 bytes.
/// - Blank text is left out; a blank result says that it is empty.
///
/// Thoughts go back as they came where this format made them and the server signed or encrypted them. Others are left
/// out, with their text. An image is sent when a `data:` URI holds it as PNG, JPEG, GIF or WebP; the server fetches none,
/// so of others only the name is sent.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn converse_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How a client brings a model to answer in the form of [`LlmRequest::output`]: by a tool that it is free to call. Some
/// models at Bedrock can be held to a schema, or made to call a tool; a request does not tell which.
pub fn converse_output_way(_request: &LlmRequest) -> OutputWay {
    OutputWay::OfferedTool
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let tools = Tools::of(request);
        // Who gives a configuration of tools names some in it.
        let names_tools = tools.is_some() || request.extra.contains_key(TOOL_CONFIG);
        let conversation = if names_tools { Conversation::of } else { Conversation::in_words };
        let Conversation::<Block<'_>> { system, mut turns } = conversation(request);
        let mark = CachePoint::of(request.cache).map(Block::CachePoint);
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        if !system.is_empty() {
            let text = Block::Text(system);
            body.put("system", &[Some(&text), mark.as_ref()].into_iter().flatten().collect::<Vec<_>>())?;
        }
        if let Some(last) = turns.last_mut() {
            last.blocks.extend(mark);
        }
        body.put("messages", &turns)?;
        body.put_merged("inferenceConfig", inference(request))?;
        body.put_some(TOOL_CONFIG, tools.as_ref())?;
        body.put_merged("outputConfig", output(request))?;
        body.end()
    }
}

impl Serialize for Turn<Block<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut turn = serializer.serialize_struct("Turn", 2)?;
        turn.serialize_field("role", if self.is_assistant { "assistant" } else { "user" })?;
        turn.serialize_field("content", &Content(self))?;
        turn.end()
    }
}

struct Content<'a>(&'a Turn<Block<'a>>);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.results.iter().chain(&self.0.blocks))
    }
}

#[cfg(test)]
mod tests;
