//! The request body.

mod messages;

use serde::{Serialize, Serializer};
use serde_json::Value;
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{
    LlmRequest, OutputWay, ToolChoice,
    wire::{fields::Fields, functions::Functions},
};

/// The body of a streaming request to Ollama's `/api/chat`: UTF-8 JSON. Equal requests give equal bytes.
///
/// The format has no word for [`LlmRequest::parallel_tool_calls`]: it sends nothing. [`LlmRequest::cache`] sends nothing
/// either, as the server caches by itself. With an [`LlmRequest::output`] the model can give nothing but that: no call.
///
/// The fields in [`LlmRequest::extra`] come last and replace the serializer's own of the same name; those of `options`
/// there replace the single fields of the serializer's own. Histories that no server accepts are mended, not refused:
/// arguments that are not a JSON object go out as an object that holds them, an interrupted answer as an element that
/// says so, images of a tool's result as a user message after it. Images go as data; the server fetches nothing, so
/// others go as their name in words. Thoughts go back (`thinking`) where a model of this format had them; reasoning of
/// other formats is left out. With [`ToolChoice::None`] the tools are left out, which is the same.
///
/// # Errors
/// [`ErrorKind::InvalidRequest`] for a choice that demands a call, which the format cannot express.
/// [`ErrorKind::Internal`] when JSON cannot hold the request, which no request built from this crate's types does.
pub fn ollama_body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
    let demands_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if demands_call && !request.tools.is_empty() {
        let message = "Ollama's format cannot demand a tool call: use the tool choice `auto`, or the request's `output` \
                       for structured answers";
        return Err(ErrorInfo::new(ErrorKind::InvalidRequest, message));
    }
    let failed = |e| ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be serialized: {e}"));
    serde_json::to_vec(&Body(request)).map_err(failed)
}

/// How the format brings a model to answer in the form of [`LlmRequest::output`]: by itself where there are no tools, else
/// by a tool, which cannot be demanded.
pub fn ollama_output_way(request: &LlmRequest) -> OutputWay {
    let is_native = request.tools.is_empty() && !request.is_output_by_tool();
    if is_native { OutputWay::Native } else { OutputWay::OfferedTool }
}

struct Body<'a>(&'a LlmRequest);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.0;
        let mut body = Fields::new(serializer.serialize_map(None)?, request);
        body.put("model", &request.model)?;
        body.put("messages", &messages::of(request))?;
        if !request.tools.is_empty() && request.tool_choice != ToolChoice::None {
            body.put("tools", &Functions(request))?;
        }
        body.put_some("format", request.output.as_ref().map(|output| &output.schema).as_ref())?;
        body.put_merged("options", options(request))?;
        body.put("stream", &true)?;
        body.end()
    }
}

/// How to generate, as far as the request says.
fn options(request: &LlmRequest) -> [(&'static str, Option<Value>); 4] {
    [
        ("temperature", request.temperature.map(Value::from)),
        ("top_p", request.top_p.map(Value::from)),
        ("num_predict", request.max_output_tokens.map(Value::from)),
        ("stop", (!request.stop.is_empty()).then(|| request.stop.as_slice().into())),
    ]
}

#[cfg(test)]
mod tests;
