//! The same answer in the words of each format.

use serde_json::{Value, json};
use turnwright_llm_stream::{
    FinishReason,
    wire::{
        WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder, messages::MessagesDecoder,
        ollama::OllamaDecoder, responses::ResponsesDecoder,
    },
};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Chat,
    Responses,
    Messages,
    Gemini,
    Ollama,
}
use Format::*;

pub(crate) const ALL: [Format; 5] = [Chat, Responses, Messages, Gemini, Ollama];
/// Those whose body is server-sent events.
pub(crate) const SSE: [Format; 4] = [Chat, Responses, Messages, Gemini];

/// Something that an answer says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Say<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// Id, name, arguments.
    Call(&'a str, &'a str, &'a str),
}

/// One event: its name, empty where the format has none, and its data.
pub(crate) type Frame = (&'static str, Value);

fn named(data: Value) -> Frame {
    // The few names that these tests use; the name repeats the type in the data.
    const NAMES: [&str; 16] = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.output_item.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ];
    let name = NAMES.into_iter().find(|name| data["type"] == **name).unwrap_or_default();
    (name, data)
}

impl Format {
    pub(crate) fn decoder(self) -> Box<dyn WireDecoder> {
        match self {
            Chat => Box::new(ChatDecoder::new("p")),
            Responses => Box::new(ResponsesDecoder::new("p")),
            Messages => Box::new(MessagesDecoder::new("p")),
            Gemini => Box::new(GeminiDecoder::new("p")),
            Ollama => Box::new(OllamaDecoder::new("p")),
        }
    }

    /// What comes before anything is said.
    pub(crate) fn start(self, id: &str) -> Vec<Frame> {
        match self {
            Chat => {
                vec![(
                    "",
                    json!({ "id": id, "model": "m", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" } }] }),
                )]
            }
            Responses => vec![named(
                json!({ "type": "response.created", "response": { "id": id, "model": "m", "status": "in_progress", "output": [] } }),
            )],
            Messages => vec![named(
                json!({ "type": "message_start", "message": { "id": id, "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null } }),
            )],
            Gemini | Ollama => Vec::new(),
        }
    }

    /// One thing said, as the n-th block or item of the answer. Arguments come in pieces where the format has them.
    pub(crate) fn say(self, n: usize, say: Say<'_>) -> Vec<Frame> {
        match self {
            Chat => chat(n, say),
            Responses => responses(n, say),
            Messages => messages(n, say),
            Gemini => {
                let part = match say {
                    Say::Text(text) => json!({ "text": text }),
                    Say::Thought(text) => json!({ "text": text, "thought": true }),
                    Say::Call(id, name, arguments) => {
                        json!({ "functionCall": { "id": id, "name": name, "args": object(arguments) } })
                    }
                };
                vec![("", self.part(&part))]
            }
            Ollama => {
                let message = match say {
                    Say::Text(text) => json!({ "role": "assistant", "content": text }),
                    Say::Thought(text) => json!({ "role": "assistant", "content": "", "thinking": text }),
                    Say::Call(id, name, arguments) => {
                        let function = json!({ "name": name, "arguments": object(arguments) });
                        json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": id, "function": function }] })
                    }
                };
                vec![("", json!({ "model": "m", "message": message, "done": false }))]
            }
        }
    }

    /// A chunk of Gemini with this part.
    fn part(self, part: &Value) -> Value {
        json!({ "responseId": "r", "modelVersion": "m", "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] } }] })
    }

    /// The finish reason and the usage, in the format's words: what it says last, but for an end mark.
    pub(crate) fn finish(self, reason: FinishReason, usage: Option<(u64, u64)>) -> Vec<Frame> {
        let word = self.word(reason);
        let (input, output) = usage.unzip();
        match self {
            Chat => {
                let mut frames = vec![(
                    "",
                    json!({ "id": "r", "choices": [{ "index": 0, "delta": {}, "finish_reason": word }] }),
                )];
                if usage.is_some() {
                    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
                    frames.push(("", json!({ "id": "r", "choices": [], "usage": usage })));
                }
                frames
            }
            Responses => {
                let whole = word == "completed";
                let mut response = json!({ "id": "r", "model": "m", "output": [], "error": null });
                response["status"] = if whole { word.into() } else { "incomplete".into() };
                if !whole {
                    response["incomplete_details"] = json!({ "reason": word });
                }
                if usage.is_some() {
                    response["usage"] = json!({ "input_tokens": input, "output_tokens": output });
                }
                let kind = if whole { "response.completed" } else { "response.incomplete" };
                vec![named(json!({ "type": kind, "response": response }))]
            }
            Messages => {
                let mut delta = json!({ "type": "message_delta", "delta": { "stop_reason": word } });
                if usage.is_some() {
                    delta["usage"] = json!({ "input_tokens": input, "output_tokens": output });
                }
                vec![named(delta), named(json!({ "type": "message_stop" }))]
            }
            Gemini => {
                let mut chunk =
                    json!({ "responseId": "r", "candidates": [{ "index": 0, "finishReason": word }] });
                if usage.is_some() {
                    chunk["usageMetadata"] =
                        json!({ "promptTokenCount": input, "candidatesTokenCount": output });
                }
                vec![("", chunk)]
            }
            Ollama => {
                let mut line = json!({ "model": "m", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": word });
                if usage.is_some() {
                    (line["prompt_eval_count"], line["eval_count"]) = (json!(input), json!(output));
                }
                vec![("", line)]
            }
        }
    }

    fn word(self, reason: FinishReason) -> &'static str {
        match (self, reason) {
            (Chat, FinishReason::ToolCalls) => "tool_calls",
            (Chat | Ollama, FinishReason::Length) => "length",
            (Chat | Responses, FinishReason::ContentFilter) => "content_filter",
            (Chat | Ollama, _) => "stop",
            (Responses, FinishReason::Length) => "max_output_tokens",
            (Responses, _) => "completed",
            (Messages, FinishReason::ToolCalls) => "tool_use",
            (Messages, FinishReason::Length) => "max_tokens",
            (Messages, _) => "end_turn",
            (Gemini, FinishReason::Length) => "MAX_TOKENS",
            (Gemini, FinishReason::ContentFilter) => "SAFETY",
            (Gemini, _) => "STOP",
        }
    }

    /// The frames of an answer that says all this and stops.
    pub(crate) fn answer(self, says: &[Say<'_>]) -> Vec<Frame> {
        let mut frames = self.unfinished(says);
        frames.extend(self.finish(FinishReason::Stop, Some((7, 5))));
        frames
    }

    /// The frames of an answer that says all this and has no end.
    pub(crate) fn unfinished(self, says: &[Say<'_>]) -> Vec<Frame> {
        let said = says.iter().enumerate().flat_map(|(n, say)| self.say(n, *say));
        self.start("r").into_iter().chain(said).collect()
    }

    /// These frames as a body.
    pub(crate) fn body(self, frames: &[Frame]) -> String {
        frames.iter().map(|frame| self.encode(frame)).collect()
    }

    pub(crate) fn encode(self, (name, data): &Frame) -> String {
        match (self, *name) {
            (Ollama, _) => format!("{data}\n"),
            (_, "") => format!("data: {data}\n\n"),
            (_, name) => format!("event: {name}\ndata: {data}\n\n"),
        }
    }

    /// Text as a body without an end.
    pub(crate) fn half(self) -> String {
        self.body(&self.unfinished(&[Say::Text("ha"), Say::Text("lf")]))
    }
}

fn chat(n: usize, say: Say<'_>) -> Vec<Frame> {
    let chunk =
        |delta: Value| ("", json!({ "id": "r", "model": "m", "choices": [{ "index": 0, "delta": delta }] }));
    match say {
        Say::Text(text) => vec![chunk(json!({ "content": text }))],
        Say::Thought(text) => vec![chunk(json!({ "reasoning_content": text }))],
        Say::Call(id, name, arguments) => {
            let begin = json!({ "index": n, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
            let more = |piece: &str| json!({ "index": n, "function": { "arguments": piece } });
            let pieces = std::iter::once(begin).chain(pieces(arguments).map(more));
            pieces.map(|piece| chunk(json!({ "tool_calls": [piece] }))).collect()
        }
    }
}

fn responses(n: usize, say: Say<'_>) -> Vec<Frame> {
    let id = format!("item_{n}");
    let event = |kind: &str, name: &str, value: Value| {
        let mut data = json!({ "type": kind, "output_index": n, "item_id": id, "content_index": 0 });
        data[name] = value;
        named(data)
    };
    let added = |item: Value| event("response.output_item.added", "item", item);
    let done = |item: Value| event("response.output_item.done", "item", item);
    match say {
        Say::Text(text) => {
            let message = |content: Value| json!({ "type": "message", "id": id, "role": "assistant", "content": content });
            vec![
                added(message(json!([]))),
                event("response.output_text.delta", "delta", text.into()),
                done(message(json!([{ "type": "output_text", "text": text }]))),
            ]
        }
        Say::Thought(text) => {
            let item = |summary: Value| json!({ "type": "reasoning", "id": id, "summary": summary });
            vec![
                added(item(json!([]))),
                event("response.reasoning_summary_text.delta", "delta", text.into()),
                done(item(json!([{ "type": "summary_text", "text": text }]))),
            ]
        }
        Say::Call(call, name, arguments) => {
            let item = |arguments: &str| json!({ "type": "function_call", "id": id, "call_id": call, "name": name, "arguments": arguments });
            let piece = |piece: &str| event("response.function_call_arguments.delta", "delta", piece.into());
            let mut frames = vec![added(item(""))];
            frames.extend(pieces(arguments).map(piece));
            frames.push(done(item(arguments)));
            frames
        }
    }
}

fn messages(n: usize, say: Say<'_>) -> Vec<Frame> {
    let start =
        |block: Value| named(json!({ "type": "content_block_start", "index": n, "content_block": block }));
    let delta = |delta: Value| named(json!({ "type": "content_block_delta", "index": n, "delta": delta }));
    let mut frames = match say {
        Say::Text(text) => vec![
            start(json!({ "type": "text", "text": "" })),
            delta(json!({ "type": "text_delta", "text": text })),
        ],
        Say::Thought(text) => vec![
            start(json!({ "type": "thinking", "thinking": "", "signature": "" })),
            delta(json!({ "type": "thinking_delta", "thinking": text })),
            delta(json!({ "type": "signature_delta", "signature": "s" })),
        ],
        Say::Call(id, name, arguments) => {
            let piece = |piece: &str| delta(json!({ "type": "input_json_delta", "partial_json": piece }));
            let begin = start(json!({ "type": "tool_use", "id": id, "name": name, "input": {} }));
            std::iter::once(begin).chain(pieces(arguments).map(piece)).collect()
        }
    };
    frames.push(named(json!({ "type": "content_block_stop", "index": n })));
    frames
}

/// Arguments in three pieces; none when there are none.
fn pieces(arguments: &str) -> impl Iterator<Item = &str> {
    let third = arguments.len() / 3;
    let cuts = [0..third, third..2 * third, 2 * third..arguments.len()];
    cuts.into_iter().map(move |cut| &arguments[cut]).filter(|piece| !piece.is_empty())
}

fn object(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or(json!({}))
}
