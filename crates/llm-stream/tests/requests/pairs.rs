//! What one format's stream made history goes out in every other format.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwright_core::{Concurrency, Message, MessageId, Part, Role, ToolDefinition, ToolResult, history};
use turnwright_llm_stream::{Assembler, LlmRequest, StreamItem};

use crate::Format::{self, *};

const THOUGHT: &str = "a deep thought";
/// What only its own format can read.
const SEAL: &str = "c2lnbmVk";

fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x")))
        .collect()
}

/// A thought, words, and two calls of one tool, as the format streams them.
fn stream(format: Format) -> Vec<u8> {
    let arguments = [r#"{"n":1}"#, r#"{"n":2}"#];
    let text = match format {
        Chat => {
            let details =
                json!([{ "type": "reasoning.text", "text": THOUGHT, "signature": SEAL, "index": 0 }]);
            let calls: Vec<Value> = (0..2)
                .map(|at| {
                    json!({ "index": at, "id": format!("chat{at}"), "type": "function",
                    "function": { "name": "t", "arguments": arguments[at] } })
                })
                .collect();
            let chunk = |delta: Value, reason: Value| json!({ "id": "x", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
            sse(&[
                chunk(json!({ "reasoning": THOUGHT, "reasoning_details": details }), Value::Null),
                chunk(json!({ "content": "words" }), Value::Null),
                chunk(json!({ "tool_calls": calls }), json!("tool_calls")),
            ]) + "data: [DONE]\n\n"
        }
        Responses => {
            let call = |at: usize| {
                json!({ "type": "function_call", "id": format!("fc{at}"), "call_id": format!("resp{at}"), "name": "t",
                    "arguments": arguments[at], "status": "completed" })
            };
            let output = json!([
                { "type": "reasoning", "id": "rs", "encrypted_content": SEAL,
                    "summary": [{ "type": "summary_text", "text": THOUGHT }] },
                { "type": "message", "id": "msg", "role": "assistant", "status": "completed",
                    "content": [{ "type": "output_text", "text": "words", "annotations": [] }] },
                call(0), call(1),
            ]);
            sse(&[json!({ "type": "response.completed",
                "response": { "id": "r", "object": "response", "status": "completed", "output": output } })])
        }
        Messages => {
            let call = |at: usize| {
                json!({ "type": "tool_use", "id": format!("toolu{at}"), "name": "t",
                    "input": serde_json::from_str::<Value>(arguments[at]).unwrap() })
            };
            let content = json!([
                { "type": "thinking", "thinking": THOUGHT, "signature": SEAL },
                { "type": "text", "text": "words" }, call(0), call(1),
            ]);
            json!({ "type": "message", "stop_reason": "tool_use", "content": content }).to_string()
        }
        Gemini => {
            let call = |n: u64| json!({ "functionCall": { "name": "t", "args": { "n": n } } });
            let mut signed = call(1);
            signed["thoughtSignature"] = SEAL.into();
            let parts = json!([{ "text": THOUGHT, "thought": true }, { "text": "words" }, signed, call(2)]);
            sse(&[
                json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }] }),
            ])
        }
        Ollama => {
            let call = |n: u64| json!({ "function": { "name": "t", "arguments": { "n": n } } });
            let message = json!({ "role": "assistant", "content": "words", "thinking": THOUGHT,
                "tool_calls": [call(1), call(2)] });
            format!("{}\n", json!({ "model": "m", "message": message, "done": true, "done_reason": "stop" }))
        }
        Converse => return converse(arguments),
    };
    text.into_bytes()
}

/// The same in the messages of a binary stream.
fn converse(arguments: [&str; 2]) -> Vec<u8> {
    let delta = |at: usize, delta: Value| {
        message("contentBlockDelta", &json!({ "contentBlockIndex": at, "delta": delta }))
    };
    let thought = |fields: Value| delta(0, json!({ "reasoningContent": fields }));
    let call = |n: usize| {
        let tool = json!({ "toolUse": { "toolUseId": format!("tooluse{n}"), "name": "t" } });
        let start = json!({ "contentBlockIndex": n + 2, "start": tool });
        let input = json!({ "toolUse": { "input": arguments[n] } });
        [message("contentBlockStart", &start), delta(n + 2, input)].concat()
    };
    [
        thought(json!({ "text": THOUGHT })),
        thought(json!({ "signature": SEAL })),
        delta(1, json!({ "text": "words" })),
        call(0),
        call(1),
        message("messageStop", &json!({ "stopReason": "tool_use" })),
        message("metadata", &json!({})),
    ]
    .concat()
}

/// A message with one header, its type.
fn message(event: &str, payload: &Value) -> Vec<u8> {
    let (name, payload) = (":event-type", payload.to_string());
    let mut headers = vec![u8::try_from(name.len()).unwrap()];
    headers.extend_from_slice(name.as_bytes());
    headers.push(7);
    headers.extend_from_slice(&u16::try_from(event.len()).unwrap().to_be_bytes());
    headers.extend_from_slice(event.as_bytes());
    let lengths = [16 + headers.len() + payload.len(), headers.len()];
    let mut out = lengths.map(|length| u32::try_from(length).unwrap().to_be_bytes()).concat();
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend(headers);
    out.extend(payload.into_bytes());
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

/// The tool whose calls there are.
pub(crate) fn tool() -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: "t".into(),
        description: "does it".into(),
        parameters: json!({ "type": "object" }),
        source: "local".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    })
}

fn id() -> MessageId {
    MessageId::from_uuid(Default::default())
}

/// A question, the answer that the format streamed, the results of its calls, and a further question.
fn conversation(format: Format) -> Vec<Arc<Message>> {
    let (mut decoder, mut out, mut assembler) = (format.decoder(), Vec::new(), Assembler::new());
    decoder.feed(&stream(format), &mut out);
    decoder.end(&mut out);
    for item in out {
        if let StreamItem::Event(event) = item {
            assembler.feed(event);
        }
    }
    let response = assembler.finish();
    assert_eq!(response.error, None, "{format:?}");
    let calls: Vec<_> = response.tool_calls().cloned().collect();
    assert_eq!((calls.len(), response.text().as_str()), (2, "words"), "{format:?}");
    assert_eq!(response.reasoning(), THOUGHT, "{format:?}");
    let mut messages =
        vec![Message::user(id(), "question"), Message::new(id(), Role::Assistant, response.parts)];
    for (n, call) in calls.iter().enumerate() {
        messages.push(Message::tool(id(), ToolResult::ok(call, format!("result {}", n + 1))));
    }
    messages.push(Message::user(id(), "more"));
    history::check(messages.iter()).unwrap();
    messages.into_iter().map(Arc::new).collect()
}

/// What a body says, whatever its format: the speaker's words; calls and results by what pairs them.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    User(String),
    Model(String),
    Call(String, Value),
    Result(String, String),
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string")).to_owned()
}

fn parsed(value: &Value) -> Value {
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Reads a body back, and holds it to the order that its format demands.
fn said(format: Format, body: &Value) -> Vec<Said> {
    let by_role =
        |role: &str, words: String| if role == "user" { Said::User(words) } else { Said::Model(words) };
    let mut said = Vec::new();
    match format {
        Chat | Ollama => {
            for message in list(&body["messages"]) {
                let role = string(&message["role"]);
                if role == "tool" {
                    let key = &message["tool_call_id"];
                    said.push(Said::Result(string(key), string(&message["content"])));
                    continue;
                }
                said.push(by_role(&role, string(&message["content"])));
                for call in list(&message["tool_calls"]) {
                    let arguments = &call["function"]["arguments"];
                    let arguments = if format == Chat { parsed(arguments) } else { arguments.clone() };
                    said.push(Said::Call(string(&call["id"]), arguments));
                }
            }
        }
        Responses => {
            for item in list(&body["input"]) {
                match item.get("type").and_then(Value::as_str) {
                    Some("function_call") => {
                        said.push(Said::Call(string(&item["call_id"]), parsed(&item["arguments"])));
                    }
                    Some("function_call_output") => {
                        said.push(Said::Result(string(&item["call_id"]), string(&item["output"])));
                    }
                    Some("reasoning") => {}
                    _ => {
                        let words = item["content"].as_str().map(str::to_owned);
                        let words = words.unwrap_or_else(|| string(&item["content"][0]["text"]));
                        said.push(by_role(item["role"].as_str().unwrap(), words));
                    }
                }
            }
        }
        Messages => {
            let mut last = "assistant".to_owned();
            for message in list(&body["messages"]) {
                let role = string(&message["role"]);
                assert_ne!(role, last, "turns alternate");
                if let Some(words) = message["content"].as_str() {
                    said.push(by_role(&role, words.into()));
                }
                for block in list(&message["content"]) {
                    match block["type"].as_str().unwrap() {
                        "text" => said.push(by_role(&role, string(&block["text"]))),
                        "tool_use" => said.push(Said::Call(string(&block["id"]), block["input"].clone())),
                        "tool_result" => {
                            said.push(Said::Result(string(&block["tool_use_id"]), string(&block["content"])));
                        }
                        _ => {}
                    }
                }
                last = role;
            }
        }
        Converse => {
            let mut last = "assistant".to_owned();
            for message in list(&body["messages"]) {
                let role = string(&message["role"]);
                assert_ne!(role, last, "turns alternate");
                for block in list(&message["content"]) {
                    if let Some(words) = block.get("text") {
                        said.push(by_role(&role, string(words)));
                    } else if let Some(call) = block.get("toolUse") {
                        said.push(Said::Call(string(&call["toolUseId"]), call["input"].clone()));
                    } else if let Some(result) = block.get("toolResult") {
                        let content = string(&result["content"][0]["text"]);
                        said.push(Said::Result(string(&result["toolUseId"]), content));
                    }
                }
                last = role;
            }
        }
        Gemini => {
            let mut last = "model".to_owned();
            for content in list(&body["contents"]) {
                let role = string(&content["role"]);
                assert_ne!(role, last, "turns alternate");
                for part in list(&content["parts"]).filter(|part| part.get("thought").is_none()) {
                    if let Some(words) = part.get("text") {
                        said.push(by_role(&role, string(words)));
                    } else if let Some(call) = part.get("functionCall") {
                        said.push(Said::Call(string(&call["name"]), call["args"].clone()));
                    } else {
                        let response = &part["functionResponse"];
                        let text = response["response"].as_object().unwrap().values().next().unwrap();
                        said.push(Said::Result(string(&response["name"]), string(text)));
                    }
                }
                last = role;
            }
        }
    }
    said
}

#[test]
fn fault_r1_12_a_history_of_any_format_is_accepted_by_any_other() {
    for from in Format::ALL {
        let messages = conversation(from);
        for to in Format::ALL {
            let (messages, tools) = (messages.clone(), [tool()].into());
            let request = LlmRequest { model: "m".into(), messages, tools, ..LlmRequest::default() };
            let body = to.body(&request);
            let said = said(to, &body);
            let pair = format!("{from:?} to {to:?}");
            let keys: Vec<String> = match to {
                // It pairs by name and order.
                Gemini => vec!["t".into(), "t".into()],
                _ => said
                    .iter()
                    .filter_map(|s| if let Said::Call(id, _) = s { Some(id.clone()) } else { None })
                    .collect(),
            };
            assert!(to == Gemini || keys[0] != keys[1], "{pair}: ids tell calls apart");
            let call = |n: usize| Said::Call(keys[n].clone(), json!({ "n": n + 1 }));
            let result = |n: usize| Said::Result(keys[n].clone(), format!("result {}", n + 1));
            let expected = [
                Said::User("question".into()),
                Said::Model("words".into()),
                call(0),
                call(1),
                result(0),
                result(1),
                Said::User("more".into()),
            ];
            assert_eq!(said, expected, "{pair}: {body}");
            // Thoughts, and what sealed them, go home and nowhere else.
            let text = body.to_string();
            let sealed = if from == Ollama { THOUGHT } else { SEAL };
            assert_eq!(text.contains(sealed), from == to, "{pair}: {text}");
            assert!(from == to || !text.contains(THOUGHT), "{pair}: {text}");
        }
    }
}

#[test]
fn an_answer_that_was_cut_goes_out_in_every_format_as_what_it_is() {
    let mut cut = Message::new(id(), Role::Assistant, vec![Part::text("half a <word>")]);
    cut.interrupted =
        Some(turnwright_core::Interrupted { reason: "user_stop".into(), pending_tools: vec!["t".into()] });
    let messages: Vec<_> = [Message::user(id(), "question"), cut, Message::user(id(), "more")]
        .into_iter()
        .map(Arc::new)
        .collect();
    for to in Format::ALL {
        let request = LlmRequest { model: "m".into(), messages: messages.clone(), ..LlmRequest::default() };
        let said = said(to, &to.body(&request));
        let Said::Model(words) = &said[1] else { panic!("{said:?}") };
        assert!(
            words.contains("reason=\"user_stop\"") && words.contains("half a &lt;word&gt;"),
            "{to:?}: {words}"
        );
    }
}
