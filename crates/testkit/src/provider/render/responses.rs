//! Responses.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{Block, Call, MODEL, SIGNATURE, blocks, reason, set, usage};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut body = Body::default();
    for name in ["response.created", "response.in_progress"] {
        body.push(Mark::Frame, name, json!({ "response": response("in_progress", &[]) }));
    }
    for block in blocks(reply) {
        match block {
            Block::Text(texts) => body.message(&texts),
            Block::Reasoning(texts) => body.reasoning(&texts),
            Block::Call(call) => body.call(call),
        }
    }
    let (name, status, why) = match reason(reply) {
        Ok(FinishReason::Stop | FinishReason::ToolCalls) => ("response.completed", "completed", None),
        Ok(reason) => ("response.incomplete", "incomplete", Some(word_for(reason))),
        Err("completed") => ("response.completed", "completed", None),
        Err(word) => ("response.incomplete", "incomplete", Some(word)),
    };
    let mut last = response(status, &body.output);
    last["usage"] = tokens(reply);
    if let Some(why) = why {
        last["incomplete_details"] = json!({ "reason": why });
    }
    body.push(Mark::Finish, name, json!({ "response": last }));
    body.events
}

#[derive(Default)]
struct Body {
    events: Vec<Event>,
    output: Vec<Value>,
}

impl Body {
    fn push(&mut self, mark: Mark, name: &'static str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.events.len().into();
        self.events.push(Event::named(mark, name, data));
    }

    /// An event of the item that is next.
    fn item(&mut self, mark: Mark, name: &'static str, id: &str, mut data: Value) {
        data["output_index"] = self.output.len().into();
        data["item_id"] = id.into();
        self.push(mark, name, data);
    }

    fn added(&mut self, item: &Value) {
        let data = json!({ "output_index": self.output.len(), "item": item });
        self.push(Mark::Frame, "response.output_item.added", data);
    }

    fn done(&mut self, item: Value) {
        let data = json!({ "output_index": self.output.len(), "item": item });
        self.push(Mark::Frame, "response.output_item.done", data);
        self.output.push(item);
    }

    fn message(&mut self, texts: &[&str]) {
        let id = format!("msg_{}", self.output.len());
        let item = |status, content: Value| json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": content });
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        self.added(&item("in_progress", json!([])));
        let begun = json!({ "content_index": 0, "part": part("") });
        self.item(Mark::Frame, "response.content_part.added", &id, begun);
        for text in texts {
            let delta = json!({ "content_index": 0, "delta": text });
            self.item(Mark::Text, "response.output_text.delta", &id, delta);
        }
        let text = texts.concat();
        let said = json!({ "content_index": 0, "text": text });
        self.item(Mark::Frame, "response.output_text.done", &id, said);
        let whole = json!({ "content_index": 0, "part": part(&text) });
        self.item(Mark::Frame, "response.content_part.done", &id, whole);
        self.done(item("completed", json!([part(&text)])));
    }

    fn reasoning(&mut self, texts: &[&str]) {
        let id = format!("rs_{}", self.output.len());
        let item = |summary: Value| json!({ "id": id, "type": "reasoning", "summary": summary, "encrypted_content": SIGNATURE });
        let part = |text: &str| json!({ "type": "summary_text", "text": text });
        self.added(&item(json!([])));
        let begun = json!({ "summary_index": 0, "part": part("") });
        self.item(Mark::Frame, "response.reasoning_summary_part.added", &id, begun);
        for text in texts {
            let delta = json!({ "summary_index": 0, "delta": text });
            self.item(Mark::Reasoning, "response.reasoning_summary_text.delta", &id, delta);
        }
        let text = texts.concat();
        let said = json!({ "summary_index": 0, "text": text });
        self.item(Mark::Frame, "response.reasoning_summary_text.done", &id, said);
        let whole = json!({ "summary_index": 0, "part": part(&text) });
        self.item(Mark::Frame, "response.reasoning_summary_part.done", &id, whole);
        self.done(item(json!([part(&text)])));
    }

    fn call(&mut self, call: Call<'_>) {
        let id = format!("fc_{}", self.output.len());
        let item = |status, arguments| json!({ "id": id, "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments, "status": status });
        let (first, rest) = call.parts();
        self.added(&item("in_progress", ""));
        for fragment in Some(first).filter(|first| !first.is_empty()).into_iter().chain(rest) {
            let delta = json!({ "delta": fragment });
            self.item(Mark::Call, "response.function_call_arguments.delta", &id, delta);
        }
        let whole = json!({ "arguments": call.arguments });
        self.item(Mark::Call, "response.function_call_arguments.done", &id, whole);
        self.done(item("completed", call.arguments));
    }
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 0, "status": status, "error": null,
        "incomplete_details": null, "model": MODEL, "output": output, "usage": null,
    })
}

fn word_for(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Length => "max_output_tokens",
        FinishReason::ContentFilter | FinishReason::Refusal => "content_filter",
        _ => "made_up",
    }
}

fn tokens(reply: &Reply) -> Value {
    let usage = usage(reply);
    let mut tokens = json!({ "total_tokens": usage.total_tokens() });
    set(&mut tokens, "input_tokens", usage.input_tokens);
    set(&mut tokens, "output_tokens", usage.output_tokens);
    let mut details = json!({});
    set(&mut details, "cached_tokens", usage.cache_read_input_tokens);
    set(&mut details, "cache_write_tokens", usage.cache_creation_input_tokens);
    tokens["input_tokens_details"] = details;
    let mut details = json!({});
    set(&mut details, "reasoning_tokens", usage.reasoning_tokens);
    tokens["output_tokens_details"] = details;
    tokens
}
