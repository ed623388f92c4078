//! The request body.

mod block;
mod cache;
mod turns;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use turnwright_core::{ErrorInfo, ErrorKind, ToolDefinition};

use crate::{
    LlmRequest, OutputSchema, OutputWay, ToolChoice,
    wire::{
        fields::Fields,
        turns::{Conversation, Turn},
    },
};
use block::Block;
use cache::{CacheMark, Marked};
use turns::MarkedTurn;

/// How many tokens an answer may have when the request does not say: the format demands a figure.
pub const DEFAULT_MAX_TOKENS: u64 = 8192;

/// The body of a streaming request in the Messages format: UTF-8 JSON. Equal requests give equal bytes.
///
/// Without [`LlmRequest::max_output_tokens`] the answer may have [`DEFAULT_MAX_TOKENS`], and as many more as a budget for
/// thoughts (`budget_tokens`) allows, since servers refuse a budget that is not below the figure. The fields in
/// [`LlmRequest::extra`] come last and replace the serializer's own of the same name: there is the place for `thinking`.
/// Those of an `output_config` there replace the single fields of the serializer's own.
///
/// The format knows strict schemas only: an [`LlmRequest::output`] that is not closed is refused by the server. A
/// [`LlmRequest::cache`] hint sets three marks (`cache_control`): on the system prompt, the last tool, and the last block
/// of the last message, so that the next request finds all of this one.
///
/// Histories that no server accepts are mended, not refused:
/// - Messages of one role that follow each other become one, and so do results and the user's words after them, results
///   first. A history that begins with an answer gets a user's turn before it.
/// - A call without a result gets one that says so; a result without a call goes out as words.
/// - System messages at the begin join the system prompt. Later ones, for which the format has no place, go out as the
///   user's words in a `<system_message>` element.
/// - Arguments that are not a JSON object go out as an object that holds them, an interrupted answer as an element that
///   says so, and ids and names that the format does not allow with other characters in the place of the wrong ones.
/// - Blank text is left out, and so are blanks at the end of words that the model is to go on with. A failed result
///   without words gets some.
///
/// Thoughts go back as they came where this format made them and the server signed or encrypted them, or signs none.
/// Others are left out, with their text. An image is sent by its URL, or as what a `data:` URI holds; of one in a store that the server
/// cannot reach only the name is sent.
///
/// # Errors
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn messages_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How the format brings a model to answer in the form of [`LlmRequest::output`]: by itself where the schema is strict,
/// else by a tool, which a model that thinks may not be made to call.
pub fn messages_output_way(request: &LlmRequest) -> OutputWay {
    let is_strict = request.output.as_ref().is_some_and(|output| output.strict);
    match (is_strict && !request.is_output_by_tool(), request.extra.contains_key("thinking")) {
        (true, _) => OutputWay::Native,
        (false, true) => OutputWay::OfferedTool,
        (false, false) => OutputWay::DemandedTool,
    }
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let Conversation { system, turns } = Conversation::<Block<'_>>::of(request);
        let mark = CacheMark::of(request.cache);
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        body.put("model", &request.model)?;
        body.put("max_tokens", &max_tokens(request))?;
        match mark {
            _ if system.is_empty() => {}
            // Words alone go as a string, which every server takes; a mark needs a block.
            None => body.put("system", &system)?,
            Some(mark) => {
                let text = Block::Text { text: system };
                body.put("system", &[Marked { block: &text, cache_control: Some(mark) }])?;
            }
        }
        body.put("messages", &Turns(&turns, mark))?;
        if !request.tools.is_empty() {
            body.put("tools", &Tools(request, mark))?;
            body.put_some("tool_choice", choice(request).as_ref())?;
        }
        body.put_merged("output_config", [("format", request.output.as_deref().map(format))])?;
        body.put_some("temperature", request.temperature.as_ref())?;
        body.put_some("top_p", request.top_p.as_ref())?;
        if !request.stop.is_empty() {
            body.put("stop_sequences", &request.stop)?;
        }
        body.put("stream", &true)?;
        body.end()
    }
}

/// How many tokens the answer may have, thoughts among them.
fn max_tokens(request: &LlmRequest) -> u64 {
    let budget = || request.extra.get("thinking")?.get("budget_tokens")?.as_u64();
    let default = || DEFAULT_MAX_TOKENS.saturating_add(budget().unwrap_or(0));
    request.max_output_tokens.unwrap_or_else(default)
}

struct Turns<'a>(&'a [Turn<Block<'a>>], Option<CacheMark>);

impl Serialize for Turns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(turns, mark) = self;
        let turns = turns.iter().enumerate();
        serializer
            .collect_seq(turns.map(|(at, turn)| MarkedTurn(turn, mark.filter(|_| at + 1 == self.0.len()))))
    }
}

struct Tools<'a>(&'a LlmRequest, Option<CacheMark>);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(LlmRequest { tools, .. }, mark) = self;
        let all = tools.iter().enumerate();
        serializer.collect_seq(all.map(|(at, tool)| Tool::of(tool, mark.filter(|_| at + 1 == tools.len()))))
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition, cache_control: Option<CacheMark>) -> Self {
        let ToolDefinition { name, description, parameters, .. } = tool;
        Self { name, description, input_schema: parameters, cache_control }
    }
}

fn choice(request: &LlmRequest) -> Option<Value> {
    let one_call = request.parallel_tool_calls == Some(false);
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto if one_call => json!({ "type": "auto" }),
        ToolChoice::Auto => return None,
        ToolChoice::None => return Some(json!({ "type": "none" })),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
    };
    if one_call {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}

fn format(output: &OutputSchema) -> Value {
    json!({ "type": "json_schema", "schema": output.schema })
}

#[cfg(test)]
mod tests;
