//! From a reply to bytes.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Fault, Reply, reply::Piece};

/// An HTTP answer, ready to send.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) retry_after: Option<Duration>,
    pub(super) frames: Vec<Bytes>,
    /// The wait before each frame.
    pub(super) delay: Duration,
    pub(super) ending: Ending,
}

/// What comes after the last frame.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Clean,
    Stall,
    Abort,
    Heartbeats(Duration),
}

impl Answer {
    pub(super) fn error(status: u16, message: &str, code: &str) -> Self {
        let body = json!({ "error": { "message": message, "type": code, "code": code, "param": null } });
        Self { status, ..Self::whole("application/json", body.to_string()) }
    }

    fn whole(content_type: &'static str, body: String) -> Self {
        Self {
            status: 200,
            content_type,
            retry_after: None,
            frames: vec![body.into()],
            delay: Duration::ZERO,
            ending: Ending::Clean,
        }
    }

    pub(super) fn of(reply: &Reply) -> Self {
        match reply.fault {
            Some(Fault::RateLimited { retry_after }) => {
                let limited = Self::error(429, "slow down", "rate_limit_exceeded");
                Self { retry_after: Some(retry_after), ..limited }
            }
            Some(Fault::ServerError) => Self::error(500, "the server failed", "server_error"),
            Some(Fault::JsonErrorWithOk) => {
                Self { status: 200, ..Self::error(401, "no such key", "invalid_api_key") }
            }
            Some(Fault::HtmlWithOk) => {
                Self::whole("text/html", "<!DOCTYPE html>\n<html><body>Sign in</body></html>\n".into())
            }
            _ => Self::stream(reply),
        }
    }

    fn stream(reply: &Reply) -> Self {
        let mut events = events(reply);
        let mut ending = Ending::Clean;
        match reply.fault {
            Some(Fault::Stall { after }) => {
                events.truncate(after);
                ending = Ending::Stall;
            }
            Some(Fault::EndWithoutTerminal { after }) => events.truncate(after),
            Some(Fault::AbruptClose { after }) => {
                events.truncate(after);
                ending = Ending::Abort;
            }
            Some(Fault::ErrorInStream { after }) => {
                events.truncate(after);
                let error = json!({ "error": { "message": "the model failed", "code": "server_error" } });
                events.push(error.to_string());
            }
            Some(Fault::GarbageLine { after }) => {
                events.insert(after.min(events.len()), "{not json".into());
            }
            Some(Fault::HeartbeatsAfterFinish { every }) => ending = Ending::Heartbeats(every),
            _ => {}
        }
        let end = if reply.fault == Some(Fault::CrLf) { "\r\n" } else { "\n" };
        let mut frames: Vec<Bytes> =
            events.into_iter().map(|event| format!("data: {event}{end}{end}").into()).collect();
        if reply.fault == Some(Fault::SevenByteSplits) {
            let body = frames.concat();
            frames = body.chunks(7).map(Bytes::copy_from_slice).collect();
        }
        Self {
            status: 200,
            content_type: "text/event-stream",
            retry_after: None,
            frames,
            delay: reply.delay,
            ending,
        }
    }
}

/// The payloads of a reply's events.
fn events(reply: &Reply) -> Vec<String> {
    let chunk = |choices: Value| json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": choices });
    let delta = |delta: Value, finish: Option<&str>| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }])).to_string()
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }), None)];
    let mut calls = 0;
    for piece in &reply.pieces {
        match piece {
            Piece::Text(text) => events.push(delta(json!({ "content": text }), None)),
            Piece::Reasoning(text) => events.push(delta(json!({ "reasoning_content": text }), None)),
            Piece::ToolCall { id, name, arguments, fragment } => {
                let whole = arguments.len() <= *fragment;
                let first = if whole { arguments.as_str() } else { "" };
                let function = json!({ "name": name, "arguments": first });
                let call = json!({ "index": calls, "id": id, "type": "function", "function": function });
                events.push(delta(json!({ "tool_calls": [call] }), None));
                let rest = if whole { "" } else { arguments.as_str() };
                events.extend(fragments(rest, *fragment).map(|fragment| {
                    let piece = json!({ "index": calls, "function": { "arguments": fragment } });
                    delta(json!({ "tool_calls": [piece] }), None)
                }));
                calls += 1;
            }
        }
    }
    let usual = if calls > 0 { "tool_calls" } else { "stop" };
    let finish = delta(json!({}), Some(reply.finish.as_deref().unwrap_or(usual)));
    events.push(finish.clone());
    match reply.fault {
        Some(Fault::DuplicateFinish) => events.push(finish),
        Some(Fault::HeartbeatsAfterFinish { .. }) => return events,
        _ => {}
    }
    if reply.fault != Some(Fault::MissingUsage) {
        let (input, output) = reply.usage.unwrap_or((10, 5));
        let mut last = chunk(json!([]));
        last["usage"] = json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
        });
        events.push(last.to_string());
    }
    if reply.fault != Some(Fault::MissingDone) {
        events.push("[DONE]".into());
    }
    events
}

/// Cuts a text into pieces of at most so many bytes, between characters.
fn fragments(mut text: &str, most: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = (1..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end))?;
        let (piece, rest) = text.split_at(end);
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_role_pieces_finish_usage_and_the_end_mark() {
        let reply =
            Reply::new().reasoning("r").text("t").tool_call_in_fragments("c", "f", "{\"a\":\"é\"}", 4);
        let events = events(&reply);
        assert_eq!(events.len(), 1 + 2 + 1 + 3 + 1 + 1 + 1);
        assert!(events[7].contains(r#""finish_reason":"tool_calls""#), "{events:?}");
        assert_eq!(fragments("aéb", 2).collect::<Vec<_>>(), ["a", "é", "b"]);
        assert_eq!(fragments("", 4).count(), 0);
    }

    #[test]
    fn every_fault_changes_the_answer() {
        let reply = Reply::new().text("a").text("b");
        let plain = format!("{:?}", Answer::of(&reply));
        for fault in Fault::ALL {
            let faulty = format!("{:?}", Answer::of(&reply.clone().fault(fault)));
            assert_ne!(faulty, plain, "{fault:?}");
        }
    }
}
