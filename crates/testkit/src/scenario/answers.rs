//! What comes round the content: usage, finish reasons, heads and tails.

use std::time::Duration;

use serde_json::{Value, json};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::FinishReason;

use super::{ALL as EVERY, CHAT, End, Expected, Play, Scenario, TEXT, scenario, usual};
use crate::provider::{
    Reply, WireFormat,
    draft::{Draft, Ending},
    event::{Event, Mark},
};

/// Those that can end without their end mark.
const OPEN_ENDED: &[WireFormat] =
    &[WireFormat::Chat, WireFormat::Messages, WireFormat::Gemini, WireFormat::Converse];

pub(super) const ALL: &[Scenario] = &[
    scenario("usage-missing", "no usage is reported", EVERY, |f| {
        let expected = Expected { usage: Some(None), ..Expected::usual() };
        Play::of(f, &usual(), expected, Draft::drop_usage)
    }),
    scenario("usage-with-the-finish", "usage comes with the finish reason", CHAT, |f| {
        Play::whole(f, |d| move_usage(d, Mark::Finish))
    }),
    scenario("usage-before-the-finish", "usage comes in the midst, and never again", CHAT, |f| {
        Play::whole(f, |d| move_usage(d, Mark::Text))
    }),
    scenario("usage-on-every-event", "usage grows; the last one counts", CHAT, |f| {
        Play::whole(f, |d| {
            for (n, value) in d.values().enumerate() {
                if value.get("usage").is_none() {
                    value["usage"] = json!({ "prompt_tokens": 9, "completion_tokens": n });
                }
            }
        })
    }),
    scenario("usage-null-elsewhere", "every other event says that usage is null", CHAT, |f| {
        Play::whole(f, |d| {
            for value in d.values() {
                if value.get("usage").is_none() {
                    value["usage"] = Value::Null;
                }
            }
        })
    }),
    scenario("usage-repeats-the-finish", "the event with usage says the finish reason again", CHAT, |f| {
        Play::whole(f, |d| {
            let finish = d.find(Mark::Finish);
            let choices = d.events.get_mut(finish).and_then(Event::value).map(|v| v["choices"].clone());
            let usage = d.find(Mark::Usage);
            if let (Some(value), Some(choices)) = (d.events.get_mut(usage).and_then(Event::value), choices) {
                value["choices"] = choices;
            }
        })
    }),
    scenario("usage-in-x-groq", "usage under a name of the server's own", CHAT, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Usage);
            if let Some(value) = d.events.get_mut(at).and_then(Event::value) {
                value["x_groq"] = json!({ "usage": value["usage"].take() });
            }
        })
    }),
    scenario("usage-then-none", "usage, and a later event without", CHAT, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Usage);
            d.events.insert(at + 1, Event::json(Mark::Odd, json!({ "choices": [], "usage": null })));
        })
    }),
    scenario("finish-twice", "the finish reason comes twice", EVERY, |f| {
        Play::whole(f, Draft::repeat_finish)
    }),
    scenario("finish-unknown", "a reason that nobody knows", EVERY, |f| {
        let expected = Expected { calls: None, end: End::Finish(FinishReason::Other), ..Expected::usual() };
        Play::of(f, &usual().finish_with(FinishReason::Other), expected, |_| {})
    }),
    scenario("finish-length", "the output limit cut the text", EVERY, |f| {
        let expected = Expected::text("Hel", FinishReason::Length);
        Play::of(f, &Reply::new().text("Hel").finish_with(FinishReason::Length), expected, |_| {})
    }),
    scenario(
        "finish-filter",
        "a filter cut the text",
        &[WireFormat::Chat, WireFormat::Responses, WireFormat::Gemini, WireFormat::Converse],
        |f| {
            let expected = Expected::text("Hel", FinishReason::ContentFilter);
            Play::of(f, &Reply::new().text("Hel").finish_with(FinishReason::ContentFilter), expected, |_| {})
        },
    ),
    scenario(
        "end-without-mark",
        "the body ends after the finish reason",
        &[WireFormat::Chat, WireFormat::Messages, WireFormat::Converse],
        |f| Play::whole(f, until_finish).expecting(|e| e.usage = None),
    ),
    scenario("break-after-finish", "the connection breaks after the finish reason", OPEN_ENDED, |f| {
        Play::whole(f, |d| {
            until_finish(d);
            d.ending = Ending::Abort;
        })
        .expecting(|e| e.usage = None)
    }),
    scenario("heartbeats-after-finish", "heartbeats for ever after the finish reason", EVERY, |f| {
        Play::whole(f, |d| d.beat_after_finish(Duration::from_millis(20))).expecting(|e| {
            e.usage = None;
            e.closes = true;
        })
    }),
    scenario("open-after-the-end", "the socket stays open after the end", EVERY, |f| {
        Play::whole(f, |d| d.ending = Ending::Stall).expecting(|e| e.closes = true)
    }),
    scenario(
        "more-after-finish",
        "text after a finish reason; the answer was not over",
        &[WireFormat::Chat, WireFormat::Gemini],
        |f| {
            let reply = Reply::new().text("Hel").text("lo");
            Play::of(f, &reply, Expected::text("Hello", FinishReason::Stop), |d| {
                let finish = d.events.get(d.find(Mark::Finish)).cloned();
                let at = d.find(Mark::Text) + 1;
                d.events.splice(at..at, finish);
            })
        },
    ),
    scenario("two-answers-in-one", "a second answer is spliced into the stream", SPLICED, |f| {
        Play::two_answers(f)
    }),
    scenario("not-streamed", "a whole answer in place of a stream", TEXT, |f| {
        let draft = Draft::of(f, &Reply::new());
        let body = not_streamed(f).to_string();
        Play {
            draft: draft.whole("application/json", body),
            expected: Expected::text("Hello €", FinishReason::Stop),
        }
    }),
];

const SPLICED: &[WireFormat] =
    &[WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Converse];

impl Play {
    fn two_answers(format: WireFormat) -> Self {
        let expected = Expected { text: None, calls: None, ..Expected::failure(&[ErrorKind::Protocol]) };
        Self::of(format, &usual(), expected, |d| {
            let mut other = Draft::of(format, &Reply::new().text("No."));
            for value in other.values() {
                for path in ["/id", "/message/id", "/response/id"] {
                    if let Some(id) = value.pointer_mut(path) {
                        *id = "another".into();
                    }
                }
            }
            // After the finish reason where the format goes on after it, else in the midst.
            let at = match format {
                WireFormat::Chat => d.find(Mark::Finish) + 1,
                _ => d.find(Mark::Text) + 1,
            };
            d.events.splice(at..at, other.events);
        })
    }
}

/// Moves usage onto the event with this mark, and drops its own event.
fn move_usage(draft: &mut Draft, to: Mark) {
    let usage = draft.find(Mark::Usage);
    let tokens = draft.events.get_mut(usage).and_then(Event::value).map(|value| value["usage"].take());
    let at = draft.find(to);
    if let (Some(value), Some(tokens)) = (draft.events.get_mut(at).and_then(Event::value), tokens) {
        value["usage"] = tokens;
    }
    draft.events.retain(|event| event.mark != Mark::Usage);
}

fn until_finish(draft: &mut Draft) {
    draft.events.truncate(draft.find(Mark::Finish) + 1);
}

/// An answer that is no stream.
fn not_streamed(format: WireFormat) -> Value {
    let text = "Hello €";
    match format {
        WireFormat::Chat => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": "scripted",
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop",
            }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
        }),
        WireFormat::Responses => {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            let item = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [part] });
            json!({
                "id": "resp_1", "object": "response", "status": "completed", "model": "scripted",
                "output": [item], "usage": { "input_tokens": 10, "output_tokens": 5 },
            })
        }
        WireFormat::Messages => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
            "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 10, "output_tokens": 5 },
        }),
        WireFormat::Gemini => json!({
            "candidates": [{
                "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP",
            }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5 }, "modelVersion": "scripted",
        }),
        WireFormat::Ollama => json!({
            "model": "scripted", "message": { "role": "assistant", "content": text }, "done": true,
            "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5,
        }),
        // It has another address for that.
        WireFormat::Converse => Value::Null,
    }
}
